// Accessibility basics: names of controls, contrast in both themes, visible focus.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { at, settled } from "./stage.mjs";
import { GPU, RUN } from "./traces.mjs";

// Controls and pictures without a name.
function nameless() {
    const bad = [];
    for (const element of document.querySelectorAll("button, a[href], input, select, textarea, canvas, [role=img]")) {
        if (element.closest("[aria-hidden=true]") || element.getClientRects().length === 0) continue;
        if (element.parentElement.closest("[role=img][aria-label]")) continue; // part of a picture that has one
        const name = element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") ||
            element.textContent.trim() || element.getAttribute("title") || element.labels?.[0]?.textContent;
        if (!name) bad.push(element.outerHTML.slice(0, 120));
    }
    return bad;
}

// Texts that stand out too little from what is behind them: WCAG 2.1 AA.
function faint() {
    const channels = (text) => {
        const canvas = (window.contrastCanvas ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true }));
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const behind = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) layers.push(channels(getComputedStyle(e).backgroundColor));
        return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
    };
    const light = (color) => color.slice(0, 3).map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const bad = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        // What is drawn in SVG stands on shapes, not on backgrounds.
        if (!node.data.trim() || element.closest("svg, [disabled], .skip, noscript, script, style")) continue;
        if (element.getClientRects().length === 0) continue;
        const style = getComputedStyle(element);
        if (style.visibility === "hidden") continue;
        const back = behind(element);
        const [a, b] = [light(over(channels(style.color), back)), light(back)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)}: ${node.data.trim().slice(0, 40)} (${element.className})`);
    }
    return [...new Set(bad)];
}

async function onEveryPage(page, look) {
    const hrefs = await page.$$eval(".nav-link", (all) => all.map((a) => a.getAttribute("href")));
    for (const href of hrefs) {
        await page.evaluate((to) => { location.hash = to; }, href);
        await page.waitForFunction((to) => document.querySelector(".nav-link[aria-current=page]")?.getAttribute("href") === to, href);
        await settled(page);
        assert.deepEqual(await page.evaluate(look), [], href);
    }
}

// What axe finds that keeps people from using the page. A label that does not begin with what is written is
// no use to who says what he sees.
async function serious() {
    const found = await window.axe.run(document, { resultTypes: ["violations"], rules: { "label-content-name-mismatch": { enabled: true } } });
    return found.violations.filter(({ impact }) => impact === "serious" || impact === "critical")
        .flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}

export default (stage) => [
    ...[[RUN, "light"], [GPU, "dark"]].map(([trace, theme]) => [`axe finds nothing serious: ${trace}, ${theme}`, async (open) => {
        const page = await open(at(stage.id(trace), "timeline"), { theme });
        await page.evaluate(readFileSync(join(stage.root, "ui/node_modules/axe-core/axe.min.js"), "utf8"));
        await onEveryPage(page, serious);
    }]),
    ["controls and pictures have names", async (open) => {
        await onEveryPage(await open(at(stage.id(RUN), "timeline")), nameless);
        await onEveryPage(await open(at(stage.id(GPU), "timeline")), nameless);
    }],
    ...["light", "dark"].map((theme) => [`text stands out, ${theme}`, async (open) => {
        await onEveryPage(await open(at(stage.id(RUN), "timeline"), { theme }), faint);
        await onEveryPage(await open(at(stage.id(GPU), "timeline"), { theme }), faint);
    }]),
    ["the focus can be seen wherever Tab leads", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const seen = new Set();
        for (let i = 0; i < 30; i++) {
            await page.keyboard.press("Tab");
            const focus = await page.evaluate(() => {
                const element = document.activeElement;
                const style = getComputedStyle(element);
                return { what: element.outerHTML.slice(0, 80), body: element === document.body,
                         shown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 };
            });
            if (focus.body) break;
            seen.add(focus.what);
            assert.ok(focus.shown, `no outline on ${focus.what}`);
        }
        assert.ok(seen.size > 10, `${seen.size} places for the focus`);
    }],
    ["there is one heading order and one main part", async (open) => {
        const page = await open(at(stage.id(RUN), "timeline"));
        assert.equal(await page.locator("main").count(), 1);
        assert.equal(await page.locator("nav[aria-label]").count(), 1);
        assert.equal(await page.getAttribute("html", "lang"), "en");
        assert.match(await page.title(), /opmeter/);
    }],
];
