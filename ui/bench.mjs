// bench.mjs -- the timeline in a browser, on ten million spans.
//
// usage: node bench.mjs [--opmeter FILE] [--spans N] [TRACE]
//
// Prints when the first picture is there after the page is asked for, how long answers to the
// timeline and frames take while it is zoomed and moved, and what the browser needs of memory.
import { execFileSync, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const { values: options, positionals } = parseArgs({ allowPositionals: true, options: {
    opmeter: { type: "string", default: join(root, "build/release/opmeter") },
    spans: { type: "string", default: "10000000" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
} });

const THREADS = 12;
const MOVES = 150;
const WIDTH = 1920;

// Operators with two spans inside, on every thread, written as a Chrome trace and then converted.
function makeTrace(folder, spans) {
    const json = join(folder, "trace.json");
    const opm = join(folder, "trace.opm");
    const file = openSync(json, "w");
    let seed = 1;
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
    const times = new Array(THREADS).fill(0);
    writeSync(file, "[");
    let lines = [];
    for (let i = 0; i < spans; i += 3) {
        const thread = Math.floor(random() * THREADS);
        const dur = 4 + Math.floor(random() * 40);
        const ts = times[thread];
        times[thread] += dur + 1 + (random() < 0.001 ? 2000 : 0);
        const name = Math.floor(random() ** 3 * 400);
        lines.push(`{"ph":"X","pid":1,"tid":${thread},"ts":${ts},"dur":${dur},"name":"layer${name}"},`,
                   `{"ph":"X","pid":1,"tid":${thread},"ts":${ts + 0.3},"dur":${dur * 0.4},"name":"load"},`,
                   `{"ph":"X","pid":1,"tid":${thread},"ts":${ts + 0.5 + dur * 0.4},"dur":${dur * 0.4},"name":"compute"},`);
        if (lines.length > 30000) {
            writeSync(file, lines.join("\n"));
            lines = [""];
        }
    }
    writeSync(file, `${lines.join("\n")}{}]`);
    closeSync(file);
    execFileSync(options.opmeter, ["import", "-q", json, "-o", opm]);
    rmSync(json);
    return opm;
}

function serve(trace) {
    const server = spawn(options.opmeter, ["serve", "-q", "--port", "0", trace], { stdio: ["ignore", "pipe", "inherit"] });
    return new Promise((done) => {
        server.stdout.on("data", (data) => {
            const url = /http:\S+\//.exec(String(data))?.[0];
            if (url) done({ server, url: url.replace(/\/$/, "") });
        });
    });
}

function quantile(values, share) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
}

function spread(values) {
    return `${quantile(values, 0.5).toFixed(1)} ms median, ${quantile(values, 0.95).toFixed(1)} p95, ` +
        `${Math.max(...values).toFixed(1)} longest of ${values.length}`;
}

// Seconds of CPU that a process has used.
function cpu(pid) {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ").slice(11, 13).map(Number);
    return (user + system) / 100;
}

// Machines are busy: beside the time until the first picture, what server and page computed for it.
async function open(browser, url, server) {
    const page = await browser.newPage({ viewport: { width: WIDTH, height: 1080 } });
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    const before = cpu(server.pid);
    await page.goto(url);
    const mark = "opmeter: first picture";
    await page.waitForFunction((name) => performance.getEntriesByName(name).length > 0, mark, { timeout: 120_000 });
    const at = await page.evaluate((name) => performance.getEntriesByName(name)[0].startTime, mark);
    const used = cpu(server.pid) - before;
    const { metrics } = await session.send("Performance.getMetrics");
    const own = metrics.find(({ name }) => name === "TaskDuration").value;
    await page.waitForLoadState("networkidle");
    return { page, told: `${(at / 1000).toFixed(2)} s (CPU: server ${used.toFixed(2)}, page ${own.toFixed(2)})` };
}

// Zoom in and out and move about, and look at the frames and answers meanwhile.
async function moveAbout(page) {
    await page.evaluate(() => {
        window.frames_ms = [];
        let last = performance.now();
        const tick = (now) => {
            window.frames_ms.push(now - last);
            last = now;
            requestAnimationFrame(tick);
        };
        requestAnimationFrame(tick);
        performance.setResourceTimingBufferSize(10_000);
        performance.clearResourceTimings();
    });
    let seed = 7;
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
    for (let i = 0; i < MOVES; i++) {
        const zoomIn = i % 30 < 18;
        await page.mouse.move(300 + random() * 1400, 500);
        if (random() < 0.7) {
            await page.keyboard.down("Control");
            await page.mouse.wheel(0, zoomIn ? -350 : 500);
            await page.keyboard.up("Control");
        }
        else await page.keyboard.press(random() < 0.5 ? "a" : "d");
        await page.waitForTimeout(100);
    }
    return page.evaluate(() => ({
        frames: window.frames_ms.slice(1),
        answers: performance.getEntriesByType("resource").filter(({ name }) => name.includes("/timeline?"))
            .map((entry) => entry.duration),
    }));
}

// Memory of the process that runs the page, and of its heap.
async function memory(browser, page) {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    const { metrics } = await session.send("Performance.getMetrics");
    const heap = metrics.find(({ name }) => name === "JSHeapUsedSize").value / 2 ** 20;
    const whole = await browser.newBrowserCDPSession();
    const { processInfo } = await whole.send("SystemInfo.getProcessInfo");
    const sizes = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => {
        const status = readFileSync(`/proc/${id}/status`, "utf8");
        return Number(/VmHWM:\s+(\d+)/.exec(status)[1]) / 1024;
    });
    return { heap, most: Math.max(...sizes) };
}

const folder = mkdtempSync(join(tmpdir(), "opmeter-bench-"));
try {
    const trace = positionals[0] ?? makeTrace(folder, Number(options.spans));
    const { server, url } = await serve(trace);
    const [{ id }] = await (await fetch(`${url}/api/traces`)).json();
    const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
    const address = `${url}/#/t/${id}/timeline`;
    const cold = await open(browser, address, server);
    await cold.page.close();
    const { page, told } = await open(browser, address, server);
    const info = await (await fetch(`${url}/api/trace/${id}`)).json();
    console.log(`${info.rows.span} spans`);
    console.log(`first picture    ${cold.told}, the trace to be opened`);
    console.log(`                 ${told}, already open`);
    const { frames, answers } = await moveAbout(page);
    console.log(`answers          ${spread(answers)}`);
    console.log(`frames           ${spread(frames)}`);
    const { heap, most } = await memory(browser, page);
    console.log(`memory           ${most.toFixed(0)} MB at most, of it ${heap.toFixed(0)} MB heap now`);
    await browser.close();
    server.kill("SIGINT");
} finally {
    rmSync(folder, { recursive: true, force: true });
}
