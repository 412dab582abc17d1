// run.mjs -- the web page in a real browser. Prints TAP.
//
// usage: node run.mjs [--opmeter FILE] [--out FOLDER] [--only TEXT]
//
// Serves traces made on the spot and looks at every page of them; pictures go to FOLDER. Without
// Chromium or the packages of package.json there is one skipped test that says so. --only runs the
// tests whose name holds TEXT.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const { values: options } = parseArgs({ options: {
    opmeter: { type: "string", default: join(root, "build/dev/opmeter") },
    out: { type: "string", default: join(root, "build/page-tests") },
    only: { type: "string", default: "" },
} });

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

function skip(why) {
    console.log(`1..1\nok 1 - web page # SKIP web page: ${why}`);
    process.exit(0);
}

const executable = process.env.CHROMIUM ?? CHROMIUM.find((path) => existsSync(path));
if (!executable) skip("chromium is not installed");
if (["playwright-core", "axe-core"].some((name) => !existsSync(join(root, "ui/node_modules", name)))) skip("its npm packages are not installed");
if (!existsSync(options.opmeter)) skip(`${options.opmeter} is not built`);

const { Stage } = await import("./stage.mjs");
const { makeTraces } = await import("./traces.mjs");
const suites = readdirSync(here).filter((name) => name.endsWith(".test.mjs")).sort();

const work = mkdtempSync(join(tmpdir(), "opmeter-page-"));
mkdirSync(options.out, { recursive: true });
let failed = 0;
try {
    const traces = makeTraces(options.opmeter, join(work, "traces"));
    const stage = await Stage.open({ ...options, executable, work, root, folder: join(work, "traces"), traces });
    try {
        const tests = [];
        for (const suite of suites) {
            const { default: list } = await import(`./${suite}`);
            for (const [name, test] of list(stage)) tests.push([`${suite.replace(".test.mjs", "")}: ${name}`, test]);
        }
        failed = await runAll(tests.filter(([name]) => name.includes(options.only)), stage);
    } finally {
        await stage.close();
    }
} finally {
    rmSync(work, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);

async function runAll(tests, stage) {
    console.log(`1..${tests.length}`);
    let bad = 0;
    for (const [i, [name, test]] of tests.entries()) {
        try {
            const why = await stage.inBrowser(test);
            console.log(`ok ${i + 1} - ${name}${why ? ` # SKIP ${name}: ${why}` : ""}`);
        } catch (error) {
            bad += 1;
            console.log(`not ok ${i + 1} - ${name}`);
            for (const line of String(error.stack ?? error).split("\n").slice(0, 14)) console.log(`# ${line}`);
        }
    }
    return bad;
}
