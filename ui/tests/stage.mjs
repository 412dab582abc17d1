// stage.mjs -- a server with traces and a browser that looks at it.
//
// Every test gets a browser context of its own. It fails if the page writes an error to the console,
// throws, or asks any other host for anything.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { chromium } from "playwright-core";

const WAIT_MS = 20_000;
const QUIET_MS = 180; // without a request, longer than pages wait before they ask for more

const traffic = new WeakMap(); // of a page: requests that are under way, and when there was one last

export class Stage {
    static async open(settings) {
        const stage = new Stage();
        Object.assign(stage, settings);
        stage.servers = [];
        stage.browser = await chromium.launch({ executablePath: settings.executable,
                                                args: ["--no-sandbox", "--disable-dev-shm-usage"] });
        stage.base = await stage.serve([settings.folder]);
        stage.ids = new Map((await stage.get("/api/traces")).map(({ id, path }) => [path, id]));
        return stage;
    }

    async close() {
        await this.browser.close();
        for (const server of this.servers) server.kill("SIGINT");
    }

    // Start another server; its address.
    async serve(args) {
        const server = spawn(this.opmeter, ["serve", "--port", "0", ...args], { stdio: ["ignore", "pipe", "pipe"] });
        this.servers.push(server);
        return new Promise((resolve, reject) => {
            let told = "";
            const late = setTimeout(() => reject(new Error(`the server did not start: ${told}`)), WAIT_MS);
            const look = (data) => {
                told += data;
                const url = /http:\/\/[\w.:[\]]+\//.exec(told)?.[0];
                if (!url) return;
                clearTimeout(late);
                server.base = url.replace(/\/$/, "");
                resolve(server.base);
            };
            server.stdout.on("data", look);
            server.stderr.on("data", look);
            server.on("exit", (code) => reject(new Error(`opmeter serve ended with ${code}: ${told}`)));
        });
    }

    // End a server that serve() started, and wait until it has.
    async end(base) {
        const server = this.servers.find((one) => one.base === base);
        const ended = new Promise((done) => { server.on("exit", done); });
        server.kill("SIGINT");
        await ended;
    }

    async get(path, base = this.base) {
        const answer = await fetch(base + path);
        assert.ok(answer.ok, `${path}: ${answer.status}`);
        return answer.json();
    }

    // Rows of a query, as the command line has them.
    query(trace, sql) {
        return JSON.parse(execFileSync(this.opmeter, ["query", "--json", join(this.folder, trace), sql]));
    }

    id(trace) {
        const id = this.ids.get(trace);
        assert.ok(id, `the server does not list ${trace}, but ${[...this.ids.keys()].join(" ")}`);
        return id;
    }

    // Run a test with open(): a page that is watched. A text that it returns says why it was skipped.
    async inBrowser(test) {
        const contexts = [];
        const faults = [];
        const open = async (where, look = {}) => {
            const { width = 1280, height = 800, theme = "light" } = look;
            const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: theme });
            contexts.push(context);
            const page = await context.newPage();
            page.setDefaultTimeout(WAIT_MS);
            page.faults = faults;
            const url = /^(http|file):/.test(where) ? where : `${this.base}/${where}`;
            this.watch(page, new URL(url), faults);
            await page.goto(url);
            await settled(page);
            return page;
        };
        try {
            const why = await test(open);
            assert.deepEqual(faults, [], "the page had faults");
            return typeof why === "string" ? why : "";
        } finally {
            for (const context of contexts) await context.close();
        }
    }

    watch(page, home, faults) {
        page.on("console", (message) => {
            if (message.type() === "error") faults.push(`console: ${message.text()}`);
        });
        page.on("pageerror", (error) => faults.push(`thrown: ${error.stack ?? error}`));
        const net = { open: new Set(), last: Date.now() };
        const ended = (request) => {
            net.open.delete(request);
            net.last = Date.now();
        };
        traffic.set(page, net);
        page.on("requestfinished", ended);
        page.on("requestfailed", ended);
        page.on("request", (request) => {
            net.open.add(request);
            net.last = Date.now();
            const url = new URL(request.url());
            const own = url.protocol === "data:" || url.protocol === "blob:" ||
                (url.protocol === home.protocol && url.host === home.host);
            if (!own) faults.push(`asked another host: ${url}`);
        });
    }

    async picture(page, name) {
        await page.screenshot({ path: join(this.out, `${name}.png`) });
    }
}

// Wait until nothing is loading any more.
export async function settled(page) {
    await page.waitForSelector(".frame");
    const net = traffic.get(page);
    if (!net) await page.waitForLoadState("networkidle");
    for (const until = Date.now() + WAIT_MS;;) {
        await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
        const rest = net ? Math.max(net.open.size ? QUIET_MS : 0, net.last + QUIET_MS - Date.now()) : 0;
        if (rest <= 0) break;
        assert.ok(Date.now() < until, `still loading: ${[...net.open].map((request) => request.url())}`);
        await page.waitForTimeout(Math.min(rest, 30));
    }
    await frames(page);
}

// Wait until what is known by now has been drawn.
async function frames(page) {
    await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
}

// Look until it is as asserted: a page follows an address, a key or an answer when it gets to it. What look() returns.
export async function becomes(look) {
    for (const until = Date.now() + WAIT_MS;;) {
        try {
            return await look();
        } catch (error) {
            if (Date.now() > until) throw error;
        }
        await new Promise((done) => { setTimeout(done, 50); });
    }
}

// What read() gives once it stands: the same for a while after a first wait. A picture that moves rests by then.
export async function rested(page, read) {
    await page.waitForTimeout(450);
    for (let before = null;;) {
        const now = JSON.stringify(await read());
        if (now === before) return JSON.parse(now);
        before = now;
        await page.waitForTimeout(200);
    }
}

// Where a page of a trace is.
export function at(id, page, args = {}) {
    const search = new URLSearchParams(args).toString();
    return `#/t/${id}/${page}${search ? `?${search}` : ""}`;
}

// Colours on a canvas; a picture of something has several.
export function colorsOf(page, selector) {
    return page.$eval(selector, (canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
        return seen.size;
    });
}
