// Files that change while they are looked at.
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { at, settled } from "./stage.mjs";

function spans(n) {
    return JSON.stringify({ traceEvents: Array.from({ length: n }, (_, i) =>
        ({ ph: "X", pid: 1, tid: 1, ts: i * 10, dur: 8, name: `work ${i}` })) });
}

async function serveOne(stage, name) {
    const path = join(stage.work, name);
    writeFileSync(path, spans(5));
    const base = await stage.serve([path]);
    const [{ id }] = await stage.get("/api/traces", base);
    return { path, base, id };
}

export default (stage) => [
    ["one trace opens at once", async (open) => {
        const { base } = await serveOne(stage, "one.json");
        const page = await open(`${base}/`);
        await page.waitForSelector(".head-path");
        assert.equal(await page.locator(".nav-link", { hasText: "All traces" }).count(), 0);
    }],
    ["a trace that has grown is read again", async (open) => {
        const { path, base, id } = await serveOne(stage, "grows.json");
        const page = await open(`${base}/${at(id, "timeline")}`);
        await page.getByText("5 spans", { exact: true }).waitFor();
        writeFileSync(path, spans(500));
        await page.keyboard.press("R");
        await page.getByText("500 spans", { exact: true }).waitFor();
    }],
    ["a server that has ended is noticed", async (open) => {
        const { base, id } = await serveOne(stage, "ends.json");
        const page = await open(`${base}/${at(id, "timeline")}`);
        await stage.end(base);
        await page.keyboard.press("R");
        const alert = page.getByRole("alert");
        await alert.waitFor();
        assert.match(await alert.textContent(), /does not answer/);
        page.faults.splice(0, page.faults.length, ...page.faults.filter((fault) => !/CONNECTION_REFUSED/.test(fault)));
    }],
    ["a trace that is gone is said to be", async (open) => {
        const { path, base, id } = await serveOne(stage, "goes.json");
        const page = await open(`${base}/${at(id, "timeline")}`);
        rmSync(path);
        await page.keyboard.press("R");
        const alert = page.getByRole("alert");
        await alert.waitFor();
        assert.match(await alert.textContent(), /goes\.json/);
        await settled(page);
        // The browser itself reports the answer.
        page.faults.splice(0, page.faults.length, ...page.faults.filter((fault) => !/4(04|10)/.test(fault)));
    }],
];
