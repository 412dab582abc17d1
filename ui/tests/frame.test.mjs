// The frame: list of traces, navigation, keys, theme, address.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { at, becomes, settled } from "./stage.mjs";
import { GPU, MINDSPORE, RUN } from "./traces.mjs";

export default (stage) => [
    ["the folder's traces are listed and open", async (open) => {
        const page = await open("");
        for (const trace of [RUN, GPU, MINDSPORE]) {
            await page.getByRole("link", { name: trace, exact: true }).waitFor();
        }
        await stage.picture(page, "traces");
        await page.getByRole("link", { name: RUN, exact: true }).click();
        await page.waitForURL(new RegExp(`#/t/${stage.id(RUN)}/`));
        await page.locator(`.head-path:text-is("${RUN}")`).waitFor();
    }],
    ["? shows the keys, Escape hides them", async (open) => {
        const page = await open(at(stage.id(RUN), "timeline"));
        await page.keyboard.press("?");
        const dialog = page.getByRole("dialog");
        await dialog.filter({ hasText: "zoom in" }).waitFor();
        await stage.picture(page, "keys");
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
    }],
    ["Ctrl+K goes anywhere by name", async (open) => {
        const page = await open(at(stage.id(GPU), "overview"));
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox", { name: "Go to" }).fill("kern");
        await page.getByRole("option", { name: /Kernels/ }).waitFor();
        await stage.picture(page, "palette");
        await page.keyboard.press("Enter");
        await page.waitForURL(/\/kernels/);
        await page.getByRole("heading", { name: "Kernels" }).waitFor();
        await page.getByRole("button", { name: "Go to" }).click();
        const again = page.getByRole("combobox", { name: "Go to" });
        await again.waitFor();
        await page.keyboard.press("Escape");
        await again.waitFor({ state: "detached" });
    }],
    ["tables come as CSV, and their columns can be made wider", async (open) => {
        const page = await open(at(stage.id(GPU), "kernels"));
        const [file] = await Promise.all([
            page.waitForEvent("download"), page.getByRole("button", { name: "Kernels as CSV" }).click()]);
        const lines = readFileSync(await file.path(), "utf8").trim().split("\r\n");
        const [{ n }] = stage.query(GPU, "SELECT count(DISTINCT name) AS n FROM span WHERE layer = 'hardware'");
        assert.equal(lines.length, n + 1);
        assert.match(lines[0], /^Kernel,Operator,Total,/);
        const head = page.getByRole("columnheader", { name: "Operator" });
        const before = (await head.boundingBox()).width;
        const edge = await head.locator(".col-edge").boundingBox();
        await page.mouse.move(edge.x + 3, edge.y + 8);
        await page.mouse.down();
        await page.mouse.move(edge.x + 63, edge.y + 8, { steps: 4 });
        await page.mouse.up();
        await becomes(async () => {
            const after = (await head.boundingBox()).width;
            assert.ok(Math.abs(after - before - 60) < 4, `${before} became ${after}`);
        });
    }],
    ["the overview leads to what stands out", async (open) => {
        const page = await open(at(stage.id(GPU), "overview"));
        await page.getByRole("heading", { name: "At a glance" }).waitFor();
        const [{ wait, ts }] = stage.query(GPU, "SELECT longest_wait_ns AS wait, longest_wait_ts AS ts FROM stream_stats WHERE scope = 'device'");
        await page.getByRole("link", { name: /its longest gap/ }).click();
        await page.waitForURL(new RegExp(`timeline\\?.*range=${ts}-${ts + wait}`));
        await page.getByRole("heading", { name: /selected/ }).waitFor();
    }],
    ["it can be used on a phone", async (open) => {
        const page = await open(at(stage.id(GPU), "overview"), { width: 390, height: 780 });
        for (const path of ["overview", "timeline", "operators", "kernels"]) {
            await page.evaluate((to) => { location.hash = to; }, at(stage.id(GPU), path));
            await settled(page);
            assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} is not wider than the screen`);
        }
        await page.evaluate((to) => { location.hash = to; }, at(stage.id(GPU), "timeline"));
        await settled(page);
        await stage.picture(page, "phone-timeline");
        assert.ok((await page.locator(".tl-main").boundingBox()).width > 220);
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
        await becomes(async () => assert.equal(await theme(), "light"));
        await page.reload();
        await settled(page);
        assert.equal(await theme(), "light");
    }],
    ["a page or trace that does not exist is said to", async (open) => {
        const page = await open(at(stage.id(RUN), "nonsense"));
        await page.locator(".state", { hasText: /no page .nonsense/ }).waitFor();
        const other = await open("#/t/000000000000/timeline");
        await becomes(async () => assert.ok((await other.getByRole("alert").textContent()).length > 20));
        // The browser itself reports the answer 404.
        const own = other.faults.filter((fault) => !/404/.test(fault));
        other.faults.length = 0;
        assert.deepEqual(own, []);
    }],
];
