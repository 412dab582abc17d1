// pictures.mjs -- the pictures of docs/pages.md and of the README, taken anew.
//
// usage: node tools/pictures.mjs [--opmeter FILE] [--only TEXT]
//
// Makes traces on the spot, as the browser tests do, looks at every page of them in Chromium, and writes
// docs/pictures/*.webp. Needs npm --prefix ui ci.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeHistory, makeJobs } from "../ui/tests/catalogues.mjs";
import { at, settled, Stage } from "../ui/tests/stage.mjs";
import { GPU, LLM, makeTraces, MINDSPORE, MODULES, RANKS, RUN } from "../ui/tests/traces.mjs";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const { values: options } = parseArgs({ options: {
    opmeter: { type: "string", default: join(root, "build/dev/opmeter") },
    chromium: { type: "string", default: "/usr/bin/chromium" },
    only: { type: "string", default: "" },
} });
options.opmeter = resolve(options.opmeter); // it is run in other folders
const out = join(root, "docs/pictures");
const SIZE = { width: 1200, height: 750 };
const QUALITY = 72; // of webp: small, and text can be read

// Which trace shows a page best, and what is chosen there.
const PAGES = [
    ["overview", GPU], ["steps", GPU], ["operators", RUN], ["timeline", GPU, { span: "kernel" }], ["kernels", GPU], ["modules", MODULES],
    ["graph", RUN], ["roofline", RUN], ["memory", RUN], ["pipeline", MINDSPORE], ["ranks", RANKS], ["llm", LLM], ["whatif", RUN], ["compare", RUN, { with: "other" }],
    ["advice", GPU], ["sql", RUN],
];

async function shoot(page, name) {
    const session = await page.context().newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
    const path = join(out, `${name}.webp`);
    writeFileSync(path, Buffer.from(data, "base64"));
    console.log(`${path} ${(statSync(path).size / 1024).toFixed(0)} KiB`);
}

const COLORS = ["#2e3440", "#d0605e", "#7fae6b", "#d9b45f", "#6f9fe0", "#b48ead", "#6fb7c4", "#d8dee9"];

// Text with the escapes of a terminal as markup: bold, dim and the eight colours are all that opmeter uses.
function markup(text) {
    let style = "";
    return text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]).split(/\x1b\[([\d;]*)m/).map((part, i) => {
        if (i % 2 === 0) return part && style ? `<span style="${style}">${part}</span>` : part;
        for (const code of (part || "0").split(";").map(Number)) {
            if (code === 0) style = "";
            else if (code === 1) style += "font-weight:700;";
            else if (code === 2) style += "opacity:.65;";
            else if (code === 4) style += "text-decoration:underline;";
            else if (code >= 30 && code <= 37) style += `color:${COLORS[code - 30]};`;
            else if (code >= 90 && code <= 97) style += `color:${COLORS[code - 90]};`;
        }
        return "";
    }).join("");
}

// What a terminal shows of some commands.
async function terminal(browser, lines) {
    const text = lines.map(([command, said]) => `<b>$ ${markup(command)}</b>\n${markup(said.trimEnd())}\n`).join("\n");
    const page = await browser.newPage({ viewport: { width: 1000, height: 600 } });
    await page.setContent(`<body style="margin:0;background:#1b2028"><pre style="margin:0;padding:18px 22px;display:inline-block;color:#d8dee9;` +
        `font:13px/1.4 'DejaVu Sans Mono',monospace">${text}</pre></body>`);
    const box = await page.locator("pre").boundingBox();
    await page.setViewportSize({ width: Math.ceil(box.width), height: Math.ceil(box.height) });
    await shoot(page, "terminal");
    await page.close();
}

function say(args, cwd) {
    return execFileSync(options.opmeter, args, { cwd, encoding: "utf8", env: { ...process.env, COLUMNS: "110" }, stdio: ["ignore", "pipe", "ignore"] });
}

const work = mkdtempSync(join(tmpdir(), "opmeter-pictures-"));
mkdirSync(out, { recursive: true });
try {
    const folder = join(work, "traces");
    const traces = makeTraces(options.opmeter, folder);
    execFileSync(options.opmeter, ["run", "zoo:bert-mini?seq=32", "-n", "12", "-w", "3", "-q", "-o", join(folder, "other")], { stdio: "ignore" });
    const stage = await Stage.open({ opmeter: options.opmeter, executable: options.chromium, work, root, folder, traces, out });
    const chosen = (args, trace) => Object.fromEntries(Object.entries(args).map(([key, value]) => [key,
        value === "kernel" ? stage.query(trace, "SELECT id FROM span WHERE layer = 'hardware' AND name LIKE '%convolve%' LIMIT 1")[0].id
            : value === "other" ? stage.id("other/trace.opm") : value]));
    const look = async (name, url) => {
        const context = await stage.browser.newContext({ viewport: SIZE, colorScheme: "light" });
        const page = await context.newPage();
        await page.goto(url);
        await settled(page);
        await page.waitForTimeout(1200); // what is dimmed, and pictures that grow
        await shoot(page, name);
        await context.close();
    };
    try {
        for (const [name, trace, args = {}] of PAGES)
            if (name.includes(options.only)) await look(name, `${stage.base}/${at(stage.id(trace), name, chosen(args, trace))}`);
        if ("history".includes(options.only)) await look("history", await stage.serve([makeHistory(options.opmeter, join(work, "history"))]));
        if ("job".includes(options.only)) await look("job", `${await stage.serve([makeJobs(options.opmeter, root, join(work, "jobs"))])}/#/fleet/0/train-7`);
        if ("terminal".includes(options.only)) {
            await terminal(stage.browser, [
                ["opmeter run zoo:mobilenetv2 -o out", say(["run", "zoo:mobilenetv2", "-n", "30", "--color", "always", "-o", "out"], work)],
            ]);
        }
    } finally {
        await stage.close();
    }
} finally {
    rmSync(work, { recursive: true, force: true });
}
