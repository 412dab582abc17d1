// Tables, the palette and small screens, on every page of every kind of trace.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { at, becomes, settled } from "./stage.mjs";
import { GPU, MINDSPORE, RANKS, RUN } from "./traces.mjs";

async function everyPage(page, visit) {
    const hrefs = await page.$$eval(".nav-link[title]", (all) => all.map((a) => a.getAttribute("href")));
    assert.ok(hrefs.length > 10);
    for (const href of hrefs) {
        await page.evaluate((to) => { location.hash = to; }, href);
        await page.waitForFunction((to) => document.querySelector(".nav-link[aria-current=page]")?.getAttribute("href") === to, href);
        await settled(page);
        await visit(href.split("/").pop());
    }
}

// Text between commas, quotes taken off: as a spreadsheet reads it.
function cells(line) {
    return [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, cell]) => cell.replace(/^"|"$/g, "")).slice(0, -1);
}

export default (stage) => [
    ...[RUN, GPU, MINDSPORE, RANKS].map((trace) => [`every table comes as CSV, and its columns can be dragged: ${trace}`, async (open) => {
        const page = await open(at(stage.id(trace), "overview"));
        let tables = 0;
        await everyPage(page, async (name) => {
            for (const frame of await page.locator(".table-frame").all()) {
                const box = frame.locator(".table-box");
                const label = await box.getAttribute("aria-label");
                const titles = (await frame.locator("thead th button").allTextContents()).map((text) => text.replace(/[▲▼]$/, "")).filter(Boolean);
                const rows = Number(await frame.locator("table").getAttribute("aria-rowcount")) - 1;
                if (!rows) continue;
                tables += 1;
                const [download] = await Promise.all([page.waitForEvent("download"), frame.getByRole("button", { name: `${label} as CSV` }).click()]);
                const lines = readFileSync(await download.path(), "utf8").replace(/^\ufeff/, "").trimEnd().split(/\r?\n/);
                assert.deepEqual(cells(lines[0]), titles, `${name}: ${label}`);
                assert.ok(lines.length > rows, `${name}: ${label}: ${lines.length} lines of ${rows} rows`);
                const head = frame.locator("thead th").first();
                const before = (await head.boundingBox()).width;
                await head.locator(".col-edge").scrollIntoViewIfNeeded();
                const edge = await head.locator(".col-edge").boundingBox();
                await page.mouse.move(edge.x + edge.width / 2, edge.y + edge.height / 2);
                await page.mouse.down();
                await page.mouse.move(edge.x + edge.width / 2 + 60, edge.y + edge.height / 2, { steps: 3 });
                await page.mouse.up();
                await becomes(async () => {
                    const after = (await head.boundingBox()).width;
                    assert.ok(Math.abs(after - before - 60) < 4, `${name}: ${label}: ${before} and then ${after}`);
                });
            }
        });
        assert.ok(tables > 2, `${tables} tables`);
    }]),
    ["the palette opens on every page, and Escape leaves it as it was", async (open) => {
        const page = await open(at(stage.id(GPU), "overview"));
        await everyPage(page, async (name) => {
            const before = await page.evaluate(() => location.hash);
            await page.keyboard.press("Control+k");
            await page.getByRole("combobox", { name: "Go to" }).fill("advi");
            await page.getByRole("option", { name: /Advice/ }).waitFor();
            await page.keyboard.press("Escape");
            await page.getByRole("combobox", { name: "Go to" }).waitFor({ state: "detached" });
            assert.equal(await page.evaluate(() => location.hash), before, name);
        });
    }],
    ...[RUN, GPU, MINDSPORE, RANKS].map((trace) => [`a phone shows every page: ${trace}`, async (open) => {
        const page = await open(at(stage.id(trace), "overview"), { width: 390, height: 780 });
        await everyPage(page, async (name) => {
            assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the screen`);
            const outside = await page.evaluate(() => [...document.querySelectorAll(".page-head button, .page-head select, .page-head input, .tabs button")]
                .filter((e) => e.getClientRects().length && (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < 0))
                .filter((e) => !e.closest(".table-box, .tabs, .tl-bar")).map((e) => e.textContent || e.ariaLabel));
            assert.deepEqual(outside, [], name);
            const squeezed = await page.$$eval(".card", (all) => all.filter((card) => card.scrollWidth > card.clientWidth + 1).map((card) => card.textContent.slice(0, 40)));
            assert.deepEqual(squeezed, [], `${name}: what does not fit into its card`);
            const link = await page.locator(".nav-link[aria-current=page]").boundingBox();
            assert.ok(link.x >= 0 && link.x + link.width <= 391, `${name}: its link is at ${link.x}`);
            const narrow = await page.evaluate(() => [...document.querySelectorAll(".editor, .legend-name, .chart, .table-frame")]
                .filter((e) => e.textContent !== "" && e.getClientRects().length && e.getBoundingClientRect().width < 60 && e.scrollWidth > e.clientWidth)
                .map((e) => `${e.className}: ${e.getBoundingClientRect().width}`));
            assert.deepEqual(narrow, [], name);
            await stage.picture(page, `phone-${trace.replaceAll("/", "-")}-${name}`);
        });
    }]),
    ["a long name is cut in the middle, and is whole for who reads or copies it", async (open) => {
        const page = await open(at(stage.id(GPU), "kernels"));
        const name = page.locator(".table-box .middle").first();
        await name.waitFor();
        const whole = await name.textContent();
        assert.ok(stage.query(GPU, "SELECT DISTINCT name FROM span").some((span) => span.name === whole), whole);
        assert.ok(whole.startsWith(await name.getAttribute("data-start")) && whole.endsWith(await name.getAttribute("data-end")));
    }],
];
