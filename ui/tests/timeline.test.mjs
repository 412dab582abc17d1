// The timeline: mouse, keys, search, details, ranges, links.
import assert from "node:assert/strict";
import { at, becomes, colorsOf, rested, settled } from "./stage.mjs";
import { DEEP, DENSE, DENSE_HITS, GPU, RUN } from "./traces.mjs";

const LINE_PX = 18;

// The middle of a span on the screen, from where its track's label stands and the time in sight.
async function pointOf(page, span) {
    const box = await page.locator(".tl-main").boundingBox();
    const label = page.locator(".tl-label.track").nth(span.row);
    const { y } = await label.boundingBox();
    const [from, to] = await range(page);
    const x = box.x + ((span.ts + span.dur / 2 - from) / (to - from)) * box.width;
    return { x, y: y + span.depth * LINE_PX + LINE_PX / 2 };
}

// What is in sight, as the address has it: it follows when the picture rests.
function range(page) {
    return rested(page, async () => {
        const args = new URLSearchParams((await page.evaluate(() => location.hash)).split("?")[1]);
        return [Number(args.get("from")), Number(args.get("to"))];
    });
}

// The same, once it is as check() has it.
function rangeWhere(page, check) {
    return becomes(async () => {
        const seen = await range(page);
        assert.ok(check(...seen), `${seen}: not ${check}`);
        return seen;
    });
}

function around(span, by = 1) {
    return { from: Math.round(span.ts - span.dur * by), to: Math.round(span.ts + span.dur * (1 + by)) };
}

// A kernel that a launch leads to.
function kernel(stage) {
    return stage.query(GPU, `SELECT s.id, s.ts, s.dur, s.depth, s.name, s.track, f.src FROM span AS s
        JOIN flow AS f ON f.dst = s.id WHERE s.layer = 'hardware' ORDER BY s.id LIMIT 1`)[0];
}

// Pixels of a canvas that have the colour of a variable of the theme.
function painted(page, selector, variable) {
    return page.$eval(selector, (canvas, name) => {
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 0; i < data.length; i += 4) n += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return n;
    }, variable);
}

export default (stage) => [
    ["bars of many spans say how busy they are, and are named if one name stands out", async (open) => {
        const page = await open(at(stage.id(DENSE), "timeline"));
        const box = await page.locator(".tl-main").boundingBox();
        const tipOf = async (row) => {
            const { y } = await page.locator(".tl-label.track").nth(row).boundingBox();
            await page.mouse.move(box.x + box.width / 2, y + 8);
            return page.locator(".tl-tip");
        };
        await (await tipOf(0)).filter({ hasText: /several names.*6 000 spans, 50\.0 % busy/ }).waitFor();
        await (await tipOf(1)).filter({ hasText: /MatMul.*6 000 spans, 80\.0 % busy/ }).waitFor();
        await stage.picture(page, "timeline-dense");
    }],
    ["a search counts and marks every hit, also where they are united", async (open) => {
        const page = await open(at(stage.id(DENSE), "timeline"));
        const before = await painted(page, ".tl-overview", "--accent");
        await page.getByRole("searchbox").fill("matmul");
        assert.equal(DENSE_HITS, 5000);
        await page.locator('.tl-found:text-is("5 000")').waitFor();
        await page.locator('.tl-total:text-is("40.0 ms")').waitFor(); // each 8 µs
        await becomes(async () => {
            const marked = await painted(page, ".tl-overview", "--accent");
            assert.ok(marked > before + 2000, `${marked} pixels, ${before} before`);
        });
        await stage.picture(page, "timeline-dense-search");
        const [last] = stage.query(DENSE, "SELECT max(id) AS id FROM span WHERE name = 'MatMul'");
        await page.getByRole("button", { name: "Next hit" }).click();
        await page.getByText("1 of 5 000").waitFor();
        await page.getByRole("button", { name: "Previous hit" }).click();
        await page.getByText("5 000 of 5 000").waitFor();
        await page.waitForFunction((id) => location.hash.includes(`span=${id}`), last.id);
    }],
    ["a strip per device says how busy it is", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const [{ busy }] = stage.query(GPU, "SELECT sum(dur) AS busy FROM device_busy");
        const { duration_ns: all } = await stage.get(`/api/trace/${stage.id(GPU)}`);
        const strip = page.locator(".tl-strip");
        await strip.waitFor();
        assert.equal(await strip.count(), 1);
        await strip.filter({ hasText: `${((busy / all) * 100).toFixed(1)} %` }).waitFor();
    }],
    ["it draws", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        await becomes(async () => assert.ok(await colorsOf(page, ".tl-main") > 6));
        await becomes(async () => assert.ok(await colorsOf(page, ".tl-overview") > 4));
        await becomes(async () => assert.ok(await colorsOf(page, ".tl-head") > 3));
    }],
    ["the critical path is drawn, and goes away again", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        await becomes(async () => assert.ok(await colorsOf(page, ".tl-main") > 6));
        const marked = () => painted(page, ".tl-main", "--accent");
        const before = await marked();
        const answered = page.waitForResponse((response) => response.url().includes("critical_path"));
        await page.getByLabel("Critical path").check();
        const { rows } = await (await answered).json();
        assert.ok(rows.length > 10);
        await becomes(async () => assert.ok(await marked() > before + 100));
        await page.waitForFunction(() => location.hash.includes("path=1"));
        await stage.picture(page, "timeline-critical-path");
        await page.getByLabel("Critical path").uncheck();
        await becomes(async () => assert.equal(await marked(), before));
        await page.evaluate(() => document.activeElement.blur());
        await page.keyboard.press("p");
        await becomes(async () => assert.ok(await marked() > before + 100));
    }],
    ["keys zoom and move", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        await page.keyboard.press("w");
        await page.keyboard.press("w");
        const [from, to] = await rangeWhere(page, (left, right) => right > left && left > 0);
        await page.keyboard.press("d");
        const [right] = await rangeWhere(page, (left) => left > from);
        await page.keyboard.press("ArrowLeft");
        await page.keyboard.press("a");
        await rangeWhere(page, (left) => left < right);
        await page.keyboard.press("s");
        await rangeWhere(page, (wideFrom, wideTo) => wideTo - wideFrom > to - from);
        await page.keyboard.press("0");
        await rangeWhere(page, (none, either) => none === 0 && either === 0); // all of it needs no range in the address
    }],
    ["Ctrl and wheel zoom about the pointer, dragging moves", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const box = await page.locator(".tl-main").boundingBox();
        await page.mouse.move(box.x + box.width / 4, box.y + 60);
        await page.keyboard.down("Control");
        await page.mouse.wheel(0, -400);
        await page.keyboard.up("Control");
        const { duration_ns: all } = await stage.get(`/api/trace/${stage.id(GPU)}`);
        const [from, to] = await rangeWhere(page, (left, right) => right > left && right - left < all * 0.8);
        const under = (from + (to - from) / 4) / all;
        assert.ok(Math.abs(under - 0.24) < 0.03, `a quarter of the way stays there: ${under}`);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width / 4 - 200, box.y + 60, { steps: 4 });
        await page.mouse.up();
        await rangeWhere(page, (left) => left > from);
    }],
    ["the wheel scrolls the tracks, or zooms where that is chosen", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"), { height: 360 });
        const box = await page.locator(".tl-main").boundingBox();
        const scrolled = () => page.$eval(".tl-body", (body) => body.scrollTop);
        await page.mouse.move(box.x + 300, box.y + 20);
        await page.mouse.wheel(0, 60);
        await page.waitForFunction(() => document.querySelector(".tl-body").scrollTop > 0);
        assert.deepEqual(await range(page), [0, 0], "it is not zoomed");
        await page.getByRole("button", { name: "Mouse" }).click();
        await page.getByRole("radio", { name: "zooms", exact: true }).check();
        await page.keyboard.press("Escape");
        const before = await scrolled();
        await page.mouse.move(box.x + 300, box.y + 20);
        await page.mouse.wheel(0, -300);
        await rangeWhere(page, (from, to) => to > from && from > 0);
        assert.equal(await scrolled(), before);
    }],
    ["a key that is held goes on zooming, about the pointer", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const box = await page.locator(".tl-main").boundingBox();
        await page.mouse.move(box.x + box.width / 4, box.y + 60);
        await page.keyboard.press("w");
        const [tapFrom, tapTo] = await rangeWhere(page, (left, right) => right > left && left > 0);
        await page.keyboard.down("w");
        await page.waitForTimeout(400);
        await page.keyboard.up("w");
        const [from, to] = await rangeWhere(page, (left, right) => right - left < (tapTo - tapFrom) * 0.6); // much more than a tap
        const at0 = tapFrom + (tapTo - tapFrom) / 4;
        const at1 = from + (to - from) / 4;
        assert.ok(Math.abs(at0 - at1) < (to - from) * 0.05, "what is under the pointer stays there");
        const again = await range(page);
        assert.deepEqual(again, [from, to], "and it stands when the key is let go");
    }],
    ["devices stand first, deep stacks of the host are folded", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        assert.match(await page.locator(".tl-label.group").first().textContent(), /GPU 0/);
        const deep = await open(at(stage.id(DENSE), "timeline"));
        const more = deep.getByRole("button", { name: `${DEEP - 6} more rows` });
        await more.waitFor();
        const height = (of) => of.locator(".tl-label.track").nth(2).boundingBox().then((box) => box.height);
        const unfolded = (await height(deep)) + (DEEP - 6) * LINE_PX;
        await more.click();
        await more.waitFor({ state: "detached" });
        assert.equal(await height(deep), unfolded);
        // A span on a line that is folded away unfolds it, though it is known before the lines are.
        const [{ id }] = stage.query(DENSE, "SELECT id FROM span WHERE name = 'frame 12'");
        const linked = await open(at(stage.id(DENSE), "overview"));
        let release = null;
        const known = new Promise((done) => { release = done; });
        await linked.route(/\/timeline\?/, async (route) => { await known; await route.continue(); });
        await linked.goto(`${stage.base}/${at(stage.id(DENSE), "timeline", { span: id })}`);
        await linked.getByRole("heading", { name: "frame 12" }).waitFor();
        release();
        await becomes(async () => assert.equal(await height(linked), unfolded));
        assert.equal(await linked.getByRole("button", { name: /more rows/ }).count(), 0);
    }],
    ["tracks are pinned, moved, hidden and filtered, and the address keeps it", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const titles = () => page.locator(".tl-label.track span").allTextContents();
        const arrange = async (track, what) => {
            await page.getByRole("button", { name: `Arrange ${track}` }).click();
            await page.getByRole("button", { name: what, exact: true }).click();
        };
        await arrange("thread 480", "Pin to the top");
        await page.getByRole("button", { name: "Pinned" }).waitFor();
        await becomes(async () => assert.equal((await titles())[0], "thread 480"));
        await arrange("stream 20", "Move up");
        await page.waitForFunction(() => document.querySelectorAll(".tl-label.track span")[1].textContent === "stream 20");
        await arrange("stream 7", "Hide");
        await page.getByRole("button", { name: "Show 1 hidden" }).waitFor();
        await becomes(async () => assert.ok(!(await titles()).includes("stream 7")));
        const shown = await titles();
        await page.reload();
        await settled(page);
        await becomes(async () => assert.deepEqual(await titles(), shown));
        await page.getByRole("button", { name: "Show 1 hidden" }).click();
        await page.getByRole("button", { name: "stream 7", exact: true }).waitFor();
        await page.getByRole("textbox", { name: "Filter tracks" }).fill("STREAM");
        await page.waitForFunction(() => [...document.querySelectorAll(".tl-label.track span")].length === 3);
        assert.deepEqual((await titles()).sort(), ["stream 20", "stream 7", "thread 480"]);
    }],
    ["markers are set and taken away, and the address keeps them", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const box = await page.locator(".tl-main").boundingBox();
        const marks = () => page.evaluate(() => new URLSearchParams(location.hash.split("?")[1]).get("marks"));
        const before = await painted(page, ".tl-head", "--text");
        await page.mouse.move(box.x + 400, box.y + 100);
        await page.keyboard.press("m");
        await page.mouse.move(box.x + 600, box.y + 100);
        await page.keyboard.press("m");
        await page.waitForFunction(() => /marks=\d+%2C\d+/.test(location.hash));
        const [a, b] = (await marks()).split(",").map(Number);
        assert.ok(a > 0 && b > a);
        await becomes(async () => assert.ok(await painted(page, ".tl-head", "--text") > before + 100));
        await page.reload();
        await settled(page);
        await page.mouse.move(box.x + 400, box.y + 100);
        await page.keyboard.press("m");
        await page.waitForFunction((left) => new URLSearchParams(location.hash.split("?")[1]).get("marks") === left, String(b));
    }],
    ["the dock has exact times, the chain from Python to the kernel, and a flame graph", async (open) => {
        const span = kernel(stage);
        const page = await open(at(stage.id(GPU), "timeline", { span: span.id }));
        await page.getByText(`${span.dur.toLocaleString("en").replaceAll(",", " ")} ns`, { exact: true }).first().waitFor();
        await page.getByRole("button", { name: "Copy the duration in ns" }).click();
        await page.getByRole("button", { name: "Chain" }).click();
        const chain = page.locator(".tl-chain li");
        await chain.first().waitFor();
        await becomes(async () => assert.deepEqual((await chain.locator(".link").allTextContents()).slice(0, 5),
            ["ProfilerStep#0", "aten::conv2d", "aten::cudnn_convolution", "cudaLaunchKernel", span.name]));
        await stage.picture(page, "timeline-chain");
        await page.getByRole("button", { name: "aten::conv2d" }).first().click();
        await page.getByRole("heading", { name: "aten::conv2d" }).waitFor();
        await page.locator(".tl-chain section").nth(1).getByRole("button", { name: span.name }).waitFor();
        await page.getByRole("button", { name: "Flame graph" }).click();
        await page.getByRole("button", { name: /^aten::cudnn_convolution: 80\.0 µs/ }).waitFor();
        await stage.picture(page, "timeline-flame");
        const edge = page.getByRole("separator", { name: "Height of the details" });
        const height = () => page.locator(".tl-panel").boundingBox().then((box) => box.height);
        const before = await height();
        await edge.focus();
        await page.keyboard.press("ArrowUp");
        await page.keyboard.press("ArrowUp");
        await becomes(async () => assert.equal(Math.round(await height()), Math.round(before + 48)));
        const box = await edge.boundingBox();
        await page.mouse.move(box.x + 300, box.y + 3);
        await page.mouse.down();
        await page.mouse.move(box.x + 300, box.y + 33, { steps: 3 });
        await page.mouse.up();
        await becomes(async () => assert.ok(Math.abs(await height() - (before + 18)) < 3));
    }],
    ["Back leads to what was open before", async (open) => {
        const span = kernel(stage);
        const page = await open(at(stage.id(GPU), "timeline", { span: span.id }));
        await page.getByRole("heading", { name: span.name }).waitFor();
        const [{ name: source }] = stage.query(GPU, `SELECT name FROM span WHERE id = ${span.src}`);
        await page.getByRole("button", { name: source }).first().click();
        await page.getByRole("heading", { name: source }).waitFor();
        const box = await page.locator(".tl-head").boundingBox();
        await page.mouse.move(box.x + 100, box.y + 8);
        await page.mouse.down();
        await page.mouse.move(box.x + 300, box.y + 8, { steps: 4 });
        await page.mouse.up();
        await page.getByRole("heading", { name: /selected/ }).waitFor();
        await page.goBack();
        await page.getByRole("heading", { name: source }).waitFor();
        await page.goBack();
        await page.getByRole("heading", { name: span.name }).waitFor();
        await page.goForward();
        await page.getByRole("heading", { name: source }).waitFor();
    }],
    ["a link to a span shows it, with its arrows", async (open) => {
        const span = kernel(stage);
        const page = await open(at(stage.id(GPU), "timeline", { span: span.id }));
        await page.locator(".tl-panel").getByRole("heading", { name: span.name, exact: true }).waitFor();
        const [{ name: source }] = stage.query(GPU, `SELECT name FROM span WHERE id = ${span.src}`);
        await page.getByRole("button", { name: source }).waitFor();
        await stage.picture(page, "timeline-span");
        await page.getByRole("button", { name: source }).click();
        await page.waitForFunction((id) => location.hash.includes(`span=${id}`), span.src);
        await page.getByRole("heading", { name: source }).waitFor();
    }],
    ["hovering names a span, a click tells all about it", async (open) => {
        const [span] = stage.query(RUN, `SELECT id, ts, dur, depth, name, self FROM span WHERE op IS NOT NULL
            AND phase = 'forward' AND track = 0 ORDER BY dur DESC LIMIT 1`);
        const page = await open(at(stage.id(RUN), "timeline", around(span)));
        const spot = await pointOf(page, { ...span, row: 0 });
        await page.mouse.move(spot.x, spot.y);
        await page.locator(".tl-tip").filter({ hasText: new RegExp(`^${span.name.replace(/\W/g, "\\$&")}`) }).waitFor();
        await page.mouse.click(spot.x, spot.y);
        await page.locator(".tl-panel .facts").first().waitFor();
        await page.locator(".tl-panel").getByRole("heading", { name: span.name, exact: true }).waitFor();
        await page.waitForFunction((id) => location.hash.includes(`span=${id}`), span.id);
        await page.keyboard.press("Escape");
        await page.waitForSelector(".tl-panel", { state: "detached" });
    }],
    ["Shift and drag adds up a range", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const box = await page.locator(".tl-main").boundingBox();
        await page.keyboard.down("Shift");
        await page.mouse.move(box.x + 2, box.y + 80);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width - 2, box.y + 90, { steps: 5 });
        await page.mouse.up();
        await page.keyboard.up("Shift");
        const row = page.locator(".tl-panel tbody tr", { hasText: "implicit_convolve_sgemm" });
        await row.waitFor();
        const [{ n }] = stage.query(GPU, "SELECT count(*) AS n FROM span WHERE name = 'implicit_convolve_sgemm'");
        await becomes(async () => assert.equal(await row.locator("td").nth(3).textContent(), String(n)));
        await stage.picture(page, "timeline-range");
    }],
    ["search goes from hit to hit", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        await page.keyboard.press("/");
        await page.keyboard.type("allreduce");
        const hits = stage.query(GPU, "SELECT id FROM span WHERE name LIKE '%allreduce%' ORDER BY id");
        await page.locator(`.tl-found:text-is("${hits.length}")`).waitFor();
        await page.keyboard.press("Enter");
        await page.waitForFunction((id) => location.hash.includes(`span=${id}`), hits[0].id);
        await page.keyboard.press("Enter");
        await page.waitForFunction((id) => location.hash.includes(`span=${id}`), hits[1].id);
        await page.keyboard.press("Shift+Enter");
        await page.waitForFunction((id) => location.hash.includes(`span=${id}`), hits[0].id);
        await stage.picture(page, "timeline-search");
    }],
    ["brackets walk from span to span", async (open) => {
        const page = await open(at(stage.id(RUN), "timeline"));
        await page.keyboard.press("]");
        const chosen = () => page.evaluate(() => new URLSearchParams(location.hash.split("?")[1]).get("span"));
        await page.locator(".tl-panel h2").waitFor();
        await page.waitForFunction(() => /span=\d/.test(location.hash));
        const first = await chosen();
        await page.keyboard.press("]");
        await becomes(async () => assert.notEqual(await chosen(), first)); // its name may be the same
        await page.locator(".tl-panel h2").waitFor();
    }],
    ["tracks close and open", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        const tracks = await page.locator(".tl-label.track").count();
        const group = page.locator(".tl-label.group").first();
        await group.click();
        await page.locator(".tl-label.group[aria-expanded=false]").waitFor();
        await becomes(async () => assert.ok(await page.locator(".tl-label.track").count() < tracks));
        await group.click();
        await page.locator(".tl-label.group[aria-expanded=false]").waitFor({ state: "detached" });
        await becomes(async () => assert.equal(await page.locator(".tl-label.track").count(), tracks));
    }],
    ["downloads come as files that can be opened", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        for (const title of ["Chrome", "Perfetto"]) {
            const [download] = await Promise.all([
                page.waitForEvent("download"), page.getByRole("link", { name: title }).click()]);
            assert.equal(await download.failure(), null);
        }
    }],
    ["the address brings back what was seen", async (open) => {
        const page = await open(at(stage.id(GPU), "timeline"));
        await page.keyboard.press("w");
        await page.keyboard.press("w");
        await page.keyboard.press("d");
        const before = await rangeWhere(page, (from, to) => to > from && from > 0);
        await page.reload();
        await settled(page);
        assert.deepEqual(await range(page), before);
    }],
];
