// build.mjs -- bundle the page into dist/: index.html, app.js, app.css, icon.svg.
//
// usage: node build.mjs [--check | --watch]
//
// The same sources give the same bytes, so --check can compare: it writes nothing and fails, with a
// line for each, if a file of dist/ is not what the sources give.
import { context, build } from "esbuild";
import { readFile, writeFile, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const copied = ["index.html", "icon.svg"];

// The bundle holds these, and they ask that their terms travel along.
async function terms() {
    const { dependencies } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
    const texts = await Promise.all(Object.keys(dependencies).map(async (name) =>
        `${name}\n\n${(await readFile(join(here, "node_modules", name, "LICENSE"), "utf8")).trim()}`));
    return `/*! This page contains:\n\n${texts.join("\n\n")}\n*/`;
}

const options = {
    absWorkingDir: here,
    entryPoints: { app: "src/main.tsx" },
    outdir: "dist",
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    banner: { js: await terms() },
    logLevel: "warning",
};

async function outputs() {
    const result = await build({ ...options, write: false });
    const files = new Map(result.outputFiles.map((file) => [
        file.path.slice(dist.length + 1), Buffer.from(file.contents)]));
    for (const name of copied) files.set(name, await readFile(join(here, "src", name)));
    return files;
}

async function write() {
    await mkdir(dist, { recursive: true });
    for (const [name, bytes] of await outputs()) {
        await writeFile(join(dist, name), bytes);
        console.log(`dist/${name} ${(bytes.length / 1024).toFixed(1)} kB`);
    }
}

async function check() {
    let stale = 0;
    for (const [name, bytes] of await outputs()) {
        const there = await readFile(join(dist, name)).catch(() => Buffer.alloc(0));
        if (there.equals(bytes)) continue;
        console.log(`ui/dist/${name} is not what the sources give; run: npm --prefix ui run build`);
        stale += 1;
    }
    return stale;
}

if (process.argv.includes("--check")) {
    process.exitCode = (await check()) ? 1 : 0;
} else if (process.argv.includes("--watch")) {
    await write();
    await (await context(options)).watch();
} else {
    await write();
}
