// A report file, opened from disk, without a server.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { becomes, colorsOf, settled } from "./stage.mjs";
import { GPU, HOSTILE, MINDSPORE, RUN } from "./traces.mjs";

function report(stage, trace) {
    const file = join(stage.work, `${basename(trace)}.html`);
    const done = spawnSync(stage.opmeter, ["report", resolve(stage.folder, trace), "-o", file], { encoding: "utf8" });
    assert.equal(done.status, 0, done.stderr);
    return { file, url: pathToFileURL(file).href };
}

async function visit(page, each) {
    const hrefs = await page.$$eval(".nav-link", (all) => all.map((a) => a.getAttribute("href")));
    assert.ok(hrefs.length > 0);
    for (const href of hrefs) {
        await page.evaluate((to) => { location.hash = to; }, href);
        await page.waitForFunction((to) => document.querySelector(".nav-link[aria-current=page]")?.getAttribute("href") === to, href);
        await settled(page);
        await each(href.replace("#/", ""));
    }
}

export default (stage) => [
    ...[RUN, GPU, MINDSPORE].map((trace) => [`every page of ${trace}`, async (open) => {
        const { file, url } = report(stage, trace);
        assert.ok(statSync(file).size < 3 << 20, "small traces make small files");
        const page = await open(url);
        await visit(page, async (name) => {
            await stage.picture(page, `report-${trace.replaceAll("/", "-")}-${name}`);
            assert.deepEqual(await page.$$eval(".state.failed", (all) => all.map((e) => e.textContent)), [], name);
            assert.ok((await page.textContent("#content")).trim().length > 0, `${name} is blank`);
        });
    }]),
    ["its timeline draws, zooms and finds", async (open) => {
        const page = await open(`${report(stage, GPU).url}#/timeline`);
        await becomes(async () => assert.ok(await colorsOf(page, ".tl-main") > 6));
        await page.keyboard.press("w");
        await page.keyboard.press("/");
        await page.keyboard.type("allreduce");
        await page.locator('.tl-found:text-is("6")').waitFor();
        await page.keyboard.press("Enter");
        await page.locator(".tl-panel").getByRole("heading", { name: /AllReduce/ }).waitFor();
        assert.equal(await page.getByRole("link", { name: "Perfetto" }).count(), 0);
    }],
    ["its timeline has the busy strip, the chain to a kernel and flame graphs", async (open) => {
        const { url } = report(stage, GPU);
        const page = await open(`${url}#/timeline`);
        // Six steps, each with 4 kernels of 70 µs, 4 of 110 µs, one of 160 µs and one of 60 µs, in 11.95 ms.
        await page.locator(".tl-strip", { hasText: "47.2 %" }).waitFor();
        const part = await open(`${url}#/timeline?from=0&to=2000000`);
        await part.locator(".tl-strip", { hasText: /4(6\.9|7\.[01]) %/ }).waitFor();
        const [span] = stage.query(GPU, "SELECT min(id) AS id FROM span WHERE name = 'implicit_convolve_sgemm'");
        const on = await open(`${url}#/timeline?span=${span.id}&tab=chain`);
        const chain = on.locator(".tl-chain li");
        await chain.first().waitFor();
        await becomes(async () => assert.deepEqual((await chain.locator(".link").allTextContents()).slice(0, 5),
            ["ProfilerStep#0", "aten::conv2d", "aten::cudnn_convolution", "cudaLaunchKernel", "implicit_convolve_sgemm"]));
        await stage.picture(on, "report-chain");
        await on.getByRole("button", { name: "aten::conv2d" }).first().click();
        await on.getByRole("heading", { name: "aten::conv2d" }).waitFor();
        await on.locator(".tl-chain section").nth(1).getByRole("button", { name: "implicit_convolve_sgemm" }).waitFor();
        await becomes(async () => assert.equal(await on.locator(".tl-chain section").nth(1).locator("li").count(), 1));
        await on.getByRole("button", { name: "Flame graph" }).click();
        await on.getByRole("button", { name: /^aten::cudnn_convolution: 80\.0 µs/ }).waitFor();
        await on.getByRole("button", { name: /^cudaLaunchKernel: 6\.00 µs/ }).waitFor();
        await stage.picture(on, "report-flame");
        // Of a range: the part that lies in it. The first step has four kernels forward.
        const range = await open(`${url}#/timeline?range=0-2000000&tab=flame`);
        await range.getByRole("button", { name: /^implicit_convolve_sgemm: 280 µs, .*4 spans/ }).waitFor();
    }],
    ["more spans than a file can carry: it says that its picture is coarse", async (open) => {
        const trace = join(stage.work, "long.json");
        writeFileSync(trace, `[${Array.from({ length: 300_000 }, (_, i) =>
            `{"ph":"X","pid":1,"tid":1,"ts":${i * 2},"dur":1,"name":"n${i % 9}"}`).join(",\n")}]`);
        const { file, url } = report(stage, trace);
        assert.ok(statSync(file).size < 6 << 20, "it is bounded");
        const page = await open(`${url}#/timeline`);
        assert.match(await page.getByRole("note").first().textContent(), /coarse/);
        await becomes(async () => assert.ok(await colorsOf(page, ".tl-main") > 3));
    }],
    ["more arrows than a file can carry: it says how many there are", async (open) => {
        const ARROWS = 20_100;
        const trace = join(stage.work, "arrows.json");
        const events = Array.from({ length: ARROWS }, (_, i) => {
            const [ts, at] = [i * 10, i * 10 + 5];
            return `{"ph":"X","pid":1,"tid":1,"ts":${ts},"dur":4,"name":"launch"},{"ph":"s","id":${i},"pid":1,"tid":1,"ts":${ts},"cat":"x","name":"x"},` +
                `{"ph":"X","pid":1,"tid":2,"ts":${at},"dur":4,"name":"work"},{"ph":"f","id":${i},"pid":1,"tid":2,"ts":${at},"cat":"x","name":"x","bp":"e"}`;
        });
        writeFileSync(trace, `[${events.join(",\n")}]`);
        const page = await open(`${report(stage, trace).url}#/timeline?span=1&tab=chain`);
        await page.locator(".tl-chain .note", { hasText: "carries 20 000 of 20 100 arrows" }).waitFor();
        await page.locator(".tl-chain").getByRole("button", { name: "launch", exact: true }).waitFor();
    }],
    ["names that are script tags stay names", async (open) => {
        const page = await open(report(stage, HOSTILE).url);
        await visit(page, async (name) => {
            assert.equal(await page.evaluate(() => window.hacked), undefined, name);
            assert.equal(await page.locator("#app img, #app script").count(), 0, name);
        });
    }],
];
