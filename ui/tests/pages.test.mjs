// Every page on every kind of trace, narrow and wide, light and dark: it shows something, fits, and can be used by everybody.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { barriers, faint, nameless } from "./look.mjs";
import { at, settled } from "./stage.mjs";
import { EMPTY } from "./traces.mjs";

const LOOKS = [{ width: 1280, theme: "light" }, { width: 1920, height: 1080, theme: "dark" }];

// Parts that would have to be scrolled sideways to be read.
function tooWide() {
    const wide = [];
    for (const element of [document.documentElement, document.body, document.querySelector(".content")]) {
        if (element && element.scrollWidth > element.clientWidth) {
            wide.push(`${element.className || element.tagName}: ${element.scrollWidth} > ${element.clientWidth}`);
        }
    }
    return wide;
}

async function everyPage(stage, page, visit) {
    const paths = await page.$$eval(".nav-link[title]", (all) => all.map((a) => a.getAttribute("href")));
    for (const href of paths) {
        await page.evaluate((to) => { location.hash = to; }, href);
        await page.waitForFunction((to) => document.querySelector(".nav-link[aria-current=page]")?.getAttribute("href") === to, href);
        await settled(page);
        await page.mouse.move(0, 0);
        await visit(href.split("/").pop());
    }
}

export default (stage) => [
    ...stage.traces.flatMap((trace) => LOOKS.map((look) => [
        `${trace}, ${look.width} px, ${look.theme}`, async (open) => {
            const page = await open(at(stage.id(trace), "timeline"), look);
            await page.evaluate(readFileSync(join(stage.root, "ui/node_modules/axe-core/axe.min.js"), "utf8"));
            await everyPage(stage, page, async (name) => {
                await stage.picture(page, `${trace.replaceAll("/", "-")}-${name}-${look.width}-${look.theme}`);
                assert.deepEqual(await page.$$eval(".state.failed", (all) => all.map((e) => e.textContent)), [], name);
                assert.deepEqual(await page.evaluate(tooWide), [], name);
                assert.ok((await page.textContent("#content")).trim().length > 0, `${name} is blank`);
                assert.deepEqual(await page.evaluate(nameless), [], name);
                assert.deepEqual(await page.evaluate(faint), [], name);
                assert.deepEqual(await page.evaluate(barriers, look.theme === "dark"), [], name);
            });
        }])),
    ["a trace without anything in it", async (open) => {
        const page = await open(at(stage.id(EMPTY), "timeline"));
        await everyPage(stage, page, async (name) => {
            assert.deepEqual(await page.$$eval(".state.failed", (all) => all.map((e) => e.textContent)), [], name);
            assert.ok((await page.textContent("#content")).trim().length > 0, `${name} is blank`);
        });
    }],
];
