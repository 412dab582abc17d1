// The page of language models, against what the trace was planned to be.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { at, becomes, settled } from "./stage.mjs";
import { LLM, LLM_GAP, LLM_HOST, LLM_PLAN, LLM_TOKENS, SERVING } from "./traces.mjs";

const us = (value) => `${value >= 1000 ? (value / 1000).toFixed(2) : value.toFixed(value >= 100 ? 0 : 1)} ${value >= 1000 ? "ms" : "µs"}`;
const host = LLM_HOST.before + LLM_HOST.after;
const ttft = (r) => r.queue + r.prefill + host;
const end = (r) => ttft(r) + (LLM_TOKENS - 1) * LLM_GAP + r.aside;
const card = (page, title) => page.getByRole("region", { name: title, exact: true });

export default (stage) => [
    ["requests: their parts, their times, and where they are", async (open) => {
        const page = await open(at(stage.id(LLM), "llm"));
        await stage.picture(page, "llm");
        for (const r of LLM_PLAN.slice(-3)) {
            const row = page.getByRole("row", { name: new RegExp(`^${r.name} `) });
            const bar = row.getByRole("img");
            assert.equal(await bar.getAttribute("aria-label"),
                         `queue ${us(r.queue)}, prefill ${us(r.prefill)}, host ${us(host).replace("5.0 µs", "5.00 µs")}, ` +
                         `decode ${us((LLM_TOKENS - 1) * LLM_GAP)}, set aside ${r.aside ? us(r.aside) : "0 ns"}`);
            const cells = await row.getByRole("cell").allTextContents();
            assert.ok(cells.includes(us(end(r))) && cells.includes(us(ttft(r))), `${cells}`);
            // As long as its time, the longest fills the column.
            const most = Math.max(...LLM_PLAN.map(end));
            const width = await bar.evaluate((e) => [...e.children].reduce((sum, i) => sum + i.getBoundingClientRect().width, 0) / e.getBoundingClientRect().width);
            assert.ok(Math.abs(width - end(r) / most) < 0.05, `${r.name}: ${width}`);
        }
        await page.getByRole("row", { name: /^waits / }).click();
        await page.waitForURL(/timeline\?.*range=/);
    }],
    ["figures are those of opmeter llm", async (open) => {
        const page = await open(at(stage.id(LLM), "llm"));
        const told = JSON.parse(execFileSync(stage.opmeter, ["llm", "--json", join(stage.folder, LLM)]));
        assert.equal(told.find((l) => l.metric === "end to end").max_ns, Math.max(...LLM_PLAN.map(end)) * 1000);
        const rows = card(page, "Latency").getByRole("row");
        for (const figure of told) {
            const row = rows.filter({ hasText: figure.metric.replace(/^- /, "- ") }).first();
            const cells = await row.getByRole("cell").allTextContents();
            assert.equal(cells[1], String(figure.count), figure.metric);
        }
        const gap = rows.filter({ hasText: "ITL" });
        assert.deepEqual((await gap.getByRole("cell").allTextContents()).slice(1, 4), [String(LLM_PLAN.length * (LLM_TOKENS - 1)),
            us((LLM_PLAN.length * (LLM_TOKENS - 1) * LLM_GAP + 4000) / (LLM_PLAN.length * (LLM_TOKENS - 1))), us(LLM_GAP)]);
        await page.getByRole("img", { name: /^Times between tokens: 52 values/ }).waitFor();
    }],
    ["slow requests: each with its cause, and the way to it", async (open) => {
        const page = await open(at(stage.id(LLM), "llm"));
        const slow = card(page, "Slow requests");
        const lines = await slow.getByRole("listitem").allTextContents();
        assert.equal(lines.length, 3, lines.join("\n"));
        assert.match(lines[0], /^yields, .*set aside once, 4\.00 ms longer than others/);
        assert.match(lines[1], /^waits, .*waited 2\.99 ms longer than others in the queue/);
        assert.match(lines[2], /^reads, .*reading its prompt of 4.096 tokens took 2\.40 ms longer/);
        await slow.getByRole("listitem").nth(1).getByRole("link").click();
        await page.waitForURL(/timeline\?.*range=/);
        const [from, to] = new URL(page.url().replace("#", "")).searchParams.get("range").split("-").map(Number);
        assert.equal(to - from, 3_000_000);
    }],
    ["goodput: as many requests as kept within the limits", async (open) => {
        const page = await open(at(stage.id(LLM), "llm", { ttft: "1ms" }));
        const goodput = card(page, "Goodput");
        await goodput.getByText("11 of 13", { exact: false }).waitFor();
        await goodput.getByLabel("ITL").fill("1 ms");
        await goodput.getByText("10 of 13", { exact: false }).waitFor();
        await goodput.getByLabel("ITL").fill("soon");
        await becomes(async () => assert.equal(await goodput.getByLabel("ITL").getAttribute("aria-invalid"), "true"));
        await goodput.getByText("11 of 13", { exact: false }).waitFor();
    }],
    ["iterations without requests are shown, and others have no such page", async (open) => {
        const page = await open(at(stage.id(LLM), "llm"));
        await page.getByRole("img", { name: "Requests in the batch over time" }).waitFor();
        const phases = await card(page, "Iterations by phase").getByRole("row").allTextContents();
        assert.match(phases.join("\n"), new RegExp(`decode${LLM_PLAN.length * (LLM_TOKENS - 1)}`));
        const none = await open(at(stage.id(SERVING), "llm"));
        await settled(none);
        await none.locator(".nav-link", { hasText: "Language model" }).waitFor();
    }],
    ["what a server does not say is not known, and never 0", async (open) => {
        const file = join(stage.work, "otlp.json");
        const span = (spanId, ms, more) => ({
            traceId: "1".repeat(32), spanId, name: "llm_request", startTimeUnixNano: "1000000000", endTimeUnixNano: `${1000 + ms}000000`,
            attributes: [{ key: "gen_ai.request.id", value: { stringValue: `r${ms}` } }, { key: "gen_ai.latency.e2e", value: { doubleValue: ms / 1000 } }, ...more],
        });
        writeFileSync(file, JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [
            span("a".repeat(16), 100, []), span("b".repeat(16), 50, [{ key: "gen_ai.usage.output_tokens", value: { intValue: "7" } }])] }] }] }));
        const base = await stage.serve([file]);
        const [{ id }] = await stage.get("/api/traces", base);
        const page = await open(`${base}/${at(id, "llm")}`);
        const figures = (await page.locator(".figures").first().innerText()).split("\n");
        assert.equal(figures[figures.indexOf("tokens in") + 1], "N/A");
        assert.equal(figures[figures.indexOf("tokens out") + 1], "7");
        assert.equal(await card(page, "Requests").getByText("parts not known").count(), 2);
        assert.equal(await card(page, "Requests").getByText("not ended").count(), 0);
    }],
    ...["light", "dark"].map((theme) => [`fits a phone, a laptop and a large screen, ${theme}`, async (open) => {
        for (const [width, height] of [[390, 844], [1280, 800], [1920, 1080]]) {
            const page = await open(at(stage.id(LLM), "llm"), { width, height, theme });
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
            assert.ok(wide <= 0, `${width} px: ${wide} px too wide`);
            await stage.picture(page, `llm-${width}-${theme}`);
        }
    }]),
];
