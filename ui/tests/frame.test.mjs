// The frame: list of traces, navigation, keys, theme, address.
import assert from "node:assert/strict";
import { at, settled } from "./stage.mjs";
import { GPU, MINDSPORE, RUN } from "./traces.mjs";

export default (stage) => [
    ["the folder's traces are listed and open", async (open) => {
        const page = await open("");
        for (const trace of [RUN, GPU, MINDSPORE]) {
            assert.ok(await page.getByRole("link", { name: trace, exact: true }).count(), trace);
        }
        await stage.picture(page, "traces");
        await page.getByRole("link", { name: RUN, exact: true }).click();
        await page.waitForURL(new RegExp(`#/t/${stage.id(RUN)}/`));
        await page.waitForSelector(".head-path");
        assert.equal(await page.textContent(".head-path"), RUN);
    }],
    ["? shows the keys, Escape hides them", async (open) => {
        const page = await open(at(stage.id(RUN), "timeline"));
        await page.keyboard.press("?");
        const dialog = page.getByRole("dialog");
        assert.match(await dialog.textContent(), /zoom in/);
        await stage.picture(page, "keys");
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
    }],
    ["every page has a key", async (open) => {
        const page = await open(at(stage.id(RUN), "timeline"));
        const links = await page.$$eval(".nav-link[title]", (all) => all.map((a) => [a.title, a.getAttribute("href")]));
        assert.ok(links.length > 0);
        for (const [title, href] of links) {
            const key = /g (\S)\)$/.exec(title)?.[1];
            assert.ok(key, title);
            await page.keyboard.press("g");
            await page.keyboard.press(key);
            await page.waitForFunction((to) => location.hash.split("?")[0] === to, href);
            await settled(page);
        }
    }],
    ["the theme is the system's, until chosen, and then kept", async (open) => {
        const page = await open(at(stage.id(RUN), "timeline"), { theme: "dark" });
        const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
        assert.equal(await theme(), "dark");
        await page.keyboard.press("T");
        assert.equal(await theme(), "light");
        await page.reload();
        await settled(page);
        assert.equal(await theme(), "light");
    }],
    ["a page or trace that does not exist is said to", async (open) => {
        const page = await open(at(stage.id(RUN), "nonsense"));
        assert.match(await page.textContent(".state"), /no page .nonsense/);
        const other = await open("#/t/000000000000/timeline");
        assert.ok((await other.textContent("[role=alert]")).length > 20);
        // The browser itself reports the answer 404.
        const own = other.faults.filter((fault) => !/404/.test(fault));
        other.faults.length = 0;
        assert.deepEqual(own, []);
    }],
];
