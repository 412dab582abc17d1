// Accessibility basics: visible focus, the parts of a page. What is looked for on every page is in pages.test.mjs.
import assert from "node:assert/strict";
import { at } from "./stage.mjs";
import { GPU, RUN } from "./traces.mjs";

export default (stage) => [
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
