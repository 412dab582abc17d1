// Names from traces are text, never markup.
import assert from "node:assert/strict";
import { at, settled } from "./stage.mjs";
import { HOSTILE, IMAGE, SCRIPT } from "./traces.mjs";

async function clean(page, where) {
    assert.equal(await page.evaluate(() => window.hacked), undefined, `${where}: a name was run`);
    assert.equal(await page.locator("#app img, #app script").count(), 0, `${where}: a name became an element`);
}

export default (stage) => [
    ["names that are script tags stay names on every page", async (open) => {
        const page = await open(at(stage.id(HOSTILE), "timeline"));
        const hrefs = await page.$$eval(".nav-link", (all) => all.map((a) => a.getAttribute("href")));
        for (const href of hrefs) {
            await page.evaluate((to) => { location.hash = to; }, href);
            await settled(page);
            await clean(page, href);
        }
    }],
    ["nor in the details of a span", async (open) => {
        const page = await open(at(stage.id(HOSTILE), "timeline", { span: 0 }));
        await page.waitForSelector(".tl-panel .facts");
        await page.locator(".tl-panel").getByRole("heading", { name: IMAGE, exact: true }).waitFor();
        await page.locator(".tl-panel").filter({ hasText: SCRIPT }).waitFor();
        await clean(page, "details");
    }],
    ["nor in the address", async (open) => {
        for (const args of [{ q: IMAGE }, { span: SCRIPT }, { from: IMAGE, to: SCRIPT }, { color: IMAGE }]) {
            await clean(await open(at(stage.id(HOSTILE), "timeline", args)), JSON.stringify(args));
        }
        await clean(await open(`#/t/${stage.id(HOSTILE)}/${encodeURIComponent(IMAGE)}`), "page");
    }],
];
