// Kernels, ranks, modules, what is alive at the peak, the roof of a device, and pages without data.
import assert from "node:assert/strict";
import { at, becomes } from "./stage.mjs";
import { DENSE, GPU, LATE_US, MINDSPORE, MODULES, RANKS } from "./traces.mjs";

export default (stage) => [
    ["kernels: every one with its launches, its size and its operator", async (open) => {
        const page = await open(at(stage.id(GPU), "kernels"));
        const row = page.getByRole("row", { name: /implicit_convolve_sgemm/ });
        await row.waitFor();
        const cells = await row.getByRole("cell").allTextContents();
        const [of] = stage.query(GPU, `SELECT count(*) AS n, sum(dur) AS total FROM span WHERE name = 'implicit_convolve_sgemm'`);
        assert.equal(cells[1], "aten::cudnn_convolution");
        assert.equal(cells[2], `${(of.total / 1e6).toFixed(2)} ms`);
        assert.equal(cells[4], String(of.n));
        assert.equal(cells[8], "8");
        assert.equal(cells[9], "128");
        await stage.picture(page, "kernels");
        await page.getByRole("button", { name: "Short", exact: true }).first().click();
        await row.waitFor({ state: "detached" });
        await page.getByRole("button", { name: "All", exact: true }).click();
        await row.click();
        await page.waitForURL(/timeline\?span=\d+/);
        await page.getByRole("heading", { name: "implicit_convolve_sgemm" }).waitFor();
    }],
    ["ranks: who comes late, and in which step", async (open) => {
        const page = await open(at(stage.id(RANKS), "ranks"));
        await page.locator(".figure", { has: page.locator('.figure-label:text-is("straggler")') }).getByText("rank 1", { exact: true }).waitFor();
        await becomes(async () => assert.equal(await page.getByRole("button", { name: /^rank [01], step \d+: \d/ }).count(), 12));
        const row = page.getByRole("row", { name: /ncclDevKernel_AllReduce/ });
        await row.waitFor();
        const cells = await row.getByRole("cell").allTextContents();
        assert.equal(cells[3], `${LATE_US}.0 µs`);
        assert.equal(cells[4], "rank 1, 100.0 %");
        assert.equal(cells[7], "16.0 KiB");
        await stage.picture(page, "ranks");
        const timeline = await open(at(stage.id(RANKS), "timeline"));
        await timeline.getByText("Steps, rank 0", { exact: true }).waitFor();
        const other = await open(at(stage.id(GPU), "ranks"));
        await other.getByText(/This trace is of one rank/).waitFor();
    }],
    ["modules: device time by what each launched", async (open) => {
        const page = await open(at(stage.id(MODULES), "modules"));
        await page.getByRole("button", { name: /^Net_0\/Conv2d_0: 70\.0 µs, 70\.0 %/ }).waitFor();
        await page.getByText(/50\.0 % of the device.s time was launched inside a module/).waitFor();
        await stage.picture(page, "modules");
        await page.getByRole("row", { name: /Linear_0/ }).click();
        await page.getByRole("heading", { name: "Net_0/Linear_0" }).waitFor();
    }],
    ["memory: what is alive at the peak", async (open) => {
        const page = await open(at(stage.id(GPU), "memory"));
        await page.getByRole("heading", { name: "Live at the peak of device 0" }).waitFor();
        await becomes(async () => assert.equal((await page.getByRole("region", { name: /Live at the peak/ }).getByRole("row").nth(1)
            .getByRole("cell").allTextContents())[1], "64.0 KiB"));
        await stage.picture(page, "memory-peak");
        const ranks = await open(at(stage.id(RANKS), "memory"));
        for (const rank of [0, 1]) await ranks.getByRole("heading", { name: `Live at the peak of device 0, rank ${rank}` }).waitFor();
    }],
    ["roofline: the ceilings of a device that is known", async (open) => {
        const page = await open(at(stage.id(GPU), "roofline"));
        await page.getByText(/Vendor peaks of NVIDIA H200/).waitFor();
    }],
    ["pages that the trace has nothing for say so before they are opened", async (open) => {
        const page = await open(at(stage.id(DENSE), "timeline"));
        await page.locator(".nav-link.lacking").first().waitFor();
        assert.match(await page.getByRole("link", { name: "Kernels" }).getAttribute("title"), /no device was recorded/);
        assert.match(await page.getByRole("link", { name: "Ranks" }).getAttribute("title"), /one rank/);
        assert.doesNotMatch(await page.getByRole("link", { name: "Operators" }).getAttribute("title"), /:/);
        // What operators of PyTorch compute is told by their shapes; those of this MindSpore say nothing.
        const gpu = await open(at(stage.id(GPU), "timeline"));
        await gpu.locator(".nav-link.lacking").first().waitFor();
        assert.doesNotMatch(await gpu.getByRole("link", { name: "Roofline" }).getAttribute("title"), /not known/);
        const other = await open(at(stage.id(MINDSPORE), "timeline"));
        await other.locator(".nav-link.lacking", { hasText: "Roofline" }).waitFor();
    }],
];
