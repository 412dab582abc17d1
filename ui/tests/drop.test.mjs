// Traces that are dropped on the page, slow ones, and damaged ones.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { at, becomes, settled } from "./stage.mjs";
import { EMPTY, RUN } from "./traces.mjs";

function spans(n) {
    return JSON.stringify({ traceEvents: Array.from({ length: n }, (_, i) =>
        ({ ph: "X", pid: 1, tid: 1, ts: i * 10, dur: 8, name: `work ${i}` })) });
}

// Let go of files above the page, as a browser does.
async function drop(page, files) {
    const held = await page.evaluateHandle((list) => {
        const data = new DataTransfer();
        for (const [name, text] of list) data.items.add(new File([text], name));
        return data;
    }, files);
    await page.dispatchEvent("body", "dragover", { dataTransfer: held });
    await page.getByText("Drop to open").waitFor();
    await page.dispatchEvent("body", "drop", { dataTransfer: held });
}

async function serveOne(stage, name) {
    const path = join(stage.work, name);
    writeFileSync(path, spans(5));
    return stage.serve([path]);
}

export default (stage) => [
    ["a trace that is dropped opens, and stays in the list", async (open) => {
        const base = await serveOne(stage, "alone.json");
        const page = await open(`${base}/`);
        assert.equal(await page.locator(".nav-link", { hasText: "All traces" }).count(), 0);
        await drop(page, [["dropped <b>.json", spans(17)]]);
        await page.locator(".head-path", { hasText: "dropped <b>.json" }).waitFor();
        await settled(page);
        await page.keyboard.press("g");
        await page.keyboard.press("t");
        await page.getByText("17 spans").waitFor();
        await page.locator(".nav-link", { hasText: "All traces" }).click();
        await page.getByRole("link", { name: "dropped <b>.json" }).waitFor();
        await page.getByRole("link", { name: "alone.json" }).waitFor();
    }],
    ["several that are dropped are listed, and what is no trace is said to be none", async (open) => {
        const base = await serveOne(stage, "beside.json");
        const page = await open(`${base}/`);
        await drop(page, [["one.json", spans(3)], ["notes.txt", "no trace"], ["two.json", spans(4)]]);
        const alert = page.getByRole("alert");
        await alert.waitFor();
        assert.equal(await alert.locator("p").textContent(), "notes.txt is no trace that opmeter knows");
        await page.getByRole("link", { name: "one.json" }).waitFor();
        await page.getByRole("link", { name: "two.json" }).waitFor();
        assert.equal(await page.getByRole("link", { name: "notes.txt" }).count(), 0);
        await stage.picture(page, "dropped");
        await page.getByRole("button", { name: "Close" }).click();
        await alert.waitFor({ state: "detached" });
        // The browser itself reports the answer.
        page.faults.splice(0, page.faults.length, ...page.faults.filter((fault) => !/422/.test(fault)));
    }],
    ["a file can be picked instead", async (open) => {
        const base = await serveOne(stage, "picks.json");
        const page = await open(`${base}/`);
        await page.getByRole("button", { name: "Open a trace file" }).waitFor();
        await page.setInputFiles("input[type=file]", { name: "picked.json", mimeType: "application/json", buffer: Buffer.from(spans(9)) });
        await page.locator(".head-path", { hasText: "picked.json" }).waitFor();
    }],
    ["how much of a file is there is said while it is copied, and it can be stopped", async (open) => {
        const base = await serveOne(stage, "slow.json");
        const page = await open(`${base}/`);
        await page.route("**/api/dropped/*", () => undefined); // never answered
        await drop(page, [["large.json", spans(1000)]]);
        const note = page.locator(".drop-note");
        await note.getByText("large.json").waitFor();
        await becomes(async () => assert.ok((await note.textContent()).endsWith(` of ${(spans(1000).length / 1024).toFixed(1)} KiB`)));
        await note.getByRole("button", { name: "Cancel" }).click();
        await note.waitFor({ state: "detached" });
        assert.equal(await page.locator(".head-path").count(), 1);
        page.faults.splice(0, page.faults.length, ...page.faults.filter((fault) => !/ERR_FAILED|ABORTED/.test(fault)));
    }],
    ["what is too large is not even sent", async (open) => {
        const page = await open(at(stage.id(EMPTY), "overview"));
        await page.route("**/api/version", (route) => route.fulfill({ json: { version: "0", folder: true, drop_max: 100 } }));
        await page.reload();
        await settled(page);
        await drop(page, [["large.json", spans(50)]]);
        await page.getByRole("alert").filter({ hasText: "large.json is larger than 100 B" }).waitFor();
    }],
    ["no file can be dropped where other machines can connect", async (open) => {
        const path = join(stage.work, "shared.json");
        writeFileSync(path, spans(5));
        const base = (await stage.serve([path, "--host", "0.0.0.0"])).replace("0.0.0.0", "127.0.0.1");
        const page = await open(`${base}/`);
        await page.waitForSelector(".head-path");
        assert.equal(await page.getByRole("button", { name: "Open a trace file" }).count(), 0);
    }],
    ["while a trace is opened, how much of it was read", async (open) => {
        const id = stage.id(RUN);
        const page = await open("#/");
        let answer;
        const asked = new Promise((done) => { answer = done; });
        await page.route(`**/api/trace/${id}`, async (route) => { await asked; await route.continue(); });
        await page.route(`**/api/trace/${id}/progress`, (route) => route.fulfill({ json: { done: 3 << 20, total: 12 << 20 } }));
        await page.evaluate((to) => { location.hash = to; }, at(id, "overview"));
        await page.getByText("Opening the trace: 3.00 MiB of 12.0 MiB").waitFor();
        assert.equal(await page.getByRole("progressbar").evaluate((bar) => bar.value / bar.max), 0.25);
        await stage.picture(page, "opening");
        answer();
        await page.waitForSelector(".head-path");
        await settled(page);
    }],
    ["the list says what is wrong with a damaged trace", async (open) => {
        const folder = join(stage.work, "damaged");
        mkdirSync(folder);
        writeFileSync(join(folder, "good.json"), spans(5));
        copyFileSync(join(stage.folder, RUN), join(folder, "short.opm"));
        truncateSync(join(folder, "short.opm"), 40);
        const base = await stage.serve([folder]);
        const page = await open(`${base}/`);
        const row = (name) => page.locator("tr", { hasText: name });
        await row("good.json").waitFor();
        const told = row("short.opm").locator(".damaged");
        await told.waitFor();
        assert.ok((await told.textContent()).length > 10);
        assert.ok(!(await told.textContent()).includes("short.opm"), "the path stands beside it");
        assert.match(await told.getAttribute("title"), /short\.opm: /);
        assert.equal(await page.locator(".damaged").count(), 1);
        await stage.picture(page, "damaged");
    }],
];
