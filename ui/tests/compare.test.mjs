// Compare: verdicts, distributions laid over each other, two timelines that are linked.
import assert from "node:assert/strict";
import { at, becomes, colorsOf, rested, settled } from "./stage.mjs";
import { AFTER, BEFORE, CHANGED, CHANGED_STEPS, changedDur, GPU, RUN } from "./traces.mjs";

const US = 1000;
const [A, B] = [CHANGED[BEFORE], CHANGED[AFTER]];

function side(page, which) {
    return page.getByRole("region", { name: `${which}: ` });
}

// What of a timeline is in sight, once the picture rests.
async function seen(page, which) {
    const of = side(page, which);
    return rested(page, async () => ({ from: Number(await of.getAttribute("data-from")), to: Number(await of.getAttribute("data-to")) }));
}

// Both have the same scale, and the start of a step stands at the same place; and what is in sight of A is as check() has it.
function assertAligned(page, step, check = () => true) {
    return becomes(async () => {
        const [a, b] = [await seen(page, "A"), await seen(page, "B")];
        const apart = (B.first + B.every * step - A.first - A.every * step) * US;
        const off = (a.to - a.from) / 500;
        assert.ok(Math.abs(b.from - a.from - apart) < off, `step ${step}: ${b.from - a.from} apart, not ${apart}`);
        assert.ok(Math.abs(b.to - a.to - apart) < off, "they have the same scale");
        assert.ok(check(a), `${a.from} to ${a.to}: not ${check}`);
        return a;
    });
}

async function pair(open, stage, args = {}, look = {}) {
    const page = await open(at(stage.id(BEFORE), "compare", { with: stage.id(AFTER), show: "timelines", ...args }), look);
    await side(page, "B").waitFor();
    await settled(page);
    return page;
}

// A point of a side's canvas at a time and line of its n-th track.
async function pointAt(page, which, ns, track, depth = 0) {
    const box = await side(page, which).locator(".tl-main").boundingBox();
    const label = await side(page, which).locator(".tl-label.track").nth(track).boundingBox();
    const { from, to } = await seen(page, which);
    return { x: box.x + ((ns - from) / (to - from)) * box.width, y: label.y + depth * 18 + 9 };
}

export default (stage) => [
    ["what opmeter diff calls slower and faster, and nothing else", async (open) => {
        const page = await open(at(stage.id(BEFORE), "compare", { with: stage.id(AFTER) }));
        const table = page.getByRole("table", { name: "Operators of both" });
        await table.locator("tbody tr").first().waitFor();
        const rows = await table.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].map((c) => c.textContent)));
        const told = Object.fromEntries(rows.map(([name, , a, b, change, , state]) => [name, [a, b, change, state]]));
        assert.deepEqual(told, {
            conv1: ["400 µs", "500 µs", "+100 µs", "slower"],
            new: ["N/A", "70.0 µs", "+70.0 µs", "only B"],
            old: ["20.0 µs", "N/A", "−20.0 µs", "only A"],
            relu1: ["50.0 µs", "30.0 µs", "−20.0 µs", "faster"],
            fc: ["100 µs", "101 µs", "+1.00 µs", "~"], // 1 µs against a spread of 40 µs
        });
        await page.getByText("B is slower").waitFor();
        assert.match(await page.locator(".verdict").textContent(), /906 µs → 1\.06 ms, \+16\.6 %/);
        await stage.picture(page, "compare");
        await page.getByRole("button", { name: "By type" }).click();
        await table.getByRole("cell", { name: "Conv", exact: true }).waitFor();
        assert.equal(await table.getByText("slower", { exact: true }).count(), 1);
        const swapped = await open(at(stage.id(AFTER), "compare", { with: stage.id(BEFORE) }));
        await swapped.getByText("B is faster").waitFor();
    }],
    ["distributions of steps and of an operator, one over the other", async (open) => {
        const page = await open(at(stage.id(BEFORE), "compare", { with: stage.id(AFTER) }));
        await page.getByRole("img", { name: "Steps by latency: A 12 values, median 906 µs; B 12 values, median 1.06 ms" }).waitFor();
        await page.getByRole("row", { name: /^conv1/ }).click();
        const picture = page.getByRole("img", { name: "Executions of conv1: A 12 values, median 400 µs; B 12 values, median 500 µs" });
        await picture.waitFor();
        // 396 and 404 µs in A, 496 and 504 µs in B: half of each in a bin of its own.
        const bins = await picture.locator("title").allTextContents();
        assert.equal(bins.filter((text) => /: A 6 \(50\.0 %\), B 0/.test(text)).length, 2);
        assert.equal(bins.filter((text) => /: A 0 \(0\.0 %\), B 6 \(50\.0 %\)/.test(text)).length, 2);
        await stage.picture(page, "compare-distribution");
        await page.goBack();
        await picture.waitFor({ state: "detached" });
    }],
    ["timelines: they begin aligned at a step, and zoom and move as one", async (open) => {
        const page = await pair(open, stage);
        await page.getByText("1 of 12").waitFor();
        // Both steps are in sight, to the end of the longer one.
        const first = await assertAligned(page, 0, (a) => a.from < A.first * US && a.to > (A.first + B.dur) * US);
        for (const which of ["A", "B"]) {
            await becomes(async () => assert.ok(await colorsOf(page, `section[aria-label^='${which}: '] .tl-main`) > 4));
        }
        await stage.picture(page, "compare-timelines");
        const box = await side(page, "A").locator(".tl-main").boundingBox();
        await page.mouse.move(box.x + 200, box.y + 60);
        await page.keyboard.down("Control");
        await page.mouse.wheel(0, -400);
        await page.keyboard.up("Control");
        const zoomed = await assertAligned(page, 0, (a) => a.to - a.from < (first.to - first.from) * 0.6);
        const below = await side(page, "B").locator(".tl-main").boundingBox();
        await page.mouse.move(below.x + 400, below.y + 60);
        await page.mouse.down();
        await page.mouse.move(below.x + 250, below.y + 60, { steps: 4 });
        await page.mouse.up();
        await assertAligned(page, 0, (a) => a.from > zoomed.from); // a drag on B takes A along
        await page.keyboard.press("0");
        await assertAligned(page, 0, (a) => a.from <= 0 && a.to >= (A.first + A.every * (CHANGED_STEPS - 1) + A.dur) * US);
    }],
    ["timelines: another step is aligned anew, by button, by key and when the first has gone out of sight", async (open) => {
        const page = await pair(open, stage);
        await page.getByRole("button", { name: "Next step" }).click();
        await page.getByText("2 of 12").waitFor();
        await assertAligned(page, 1);
        await page.keyboard.press("]");
        await page.getByText("3 of 12").waitFor();
        await assertAligned(page, 2);
        await page.keyboard.press("[");
        await page.getByText("2 of 12").waitFor();
        const box = await side(page, "A").locator(".tl-main").boundingBox();
        await page.mouse.move(box.x + box.width * 0.9, box.y + 60);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.4, box.y + 60, { steps: 8 });
        await page.mouse.up();
        await page.getByText("3 of 12").waitFor();
        await assertAligned(page, 2);
    }],
    ["timelines: a span, its counterpart and what it takes more; the address brings it back", async (open) => {
        const page = await pair(open, stage);
        await page.getByRole("button", { name: "Next step" }).click();
        await page.getByText("2 of 12").waitFor();
        const start = (A.first + A.every) * US;
        const spot = await pointAt(page, "A", start + (20 + 200) * US, 1);
        await page.mouse.click(spot.x, spot.y);
        const panel = page.getByRole("region", { name: "Selected" });
        await panel.getByRole("heading", { name: "conv1" }).waitFor();
        await panel.getByText("+100 µs").waitFor();
        const [a, b] = [changedDur(A.ops[0], 1), changedDur(B.ops[0], 1)];
        await becomes(async () => {
            const cells = await panel.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].slice(0, 3).map((c) => c.textContent)));
            assert.deepEqual(cells.slice(0, 2), [["A", `${a} µs`, "20.0 µs"], ["B", `${b} µs`, "20.0 µs"]]);
        });
        await stage.picture(page, "compare-timelines-span");
        await page.reload();
        await settled(page);
        await panel.getByText("+100 µs").waitFor();
        await page.getByText("2 of 12").waitFor();
        await page.keyboard.press("Escape");
        await panel.waitFor({ state: "detached" });
        // What only one of them has.
        await page.keyboard.press("[");
        const gone = await pointAt(page, "A", (A.first + 20 + 400 + 120 * 3 + 10) * US, 1);
        await page.mouse.click(gone.x, gone.y);
        await panel.getByRole("heading", { name: "old" }).waitFor();
        await panel.getByText("none of this name in that step").waitFor();
        await page.goBack();
        await panel.waitFor({ state: "detached" });
        await page.goForward();
        await panel.getByRole("heading", { name: "old" }).waitFor();
    }],
    ["timelines: a range of one is one of both, a step is the same step of the other", async (open) => {
        const page = await pair(open, stage);
        const head = await side(page, "B").locator(".tl-head").boundingBox();
        const { from, to } = await seen(page, "B");
        const x = (us) => head.x + ((us * US - from) / (to - from)) * head.width;
        await page.mouse.click(x(B.first + 300), head.y + head.height - 10);
        const panel = page.getByRole("region", { name: "Selected" });
        await panel.getByRole("heading", { name: "A 900 µs, B 1.05 ms: +150 µs, +16.7 %" }).waitFor();
        const conv = panel.getByRole("row", { name: /^conv1/ });
        await conv.waitFor();
        await becomes(async () => assert.deepEqual((await conv.getByRole("cell").allTextContents()).slice(2),
            ["396 µs", "496 µs", "+100 µs", "+25.3 %", "1 / 1"]));
        await stage.picture(page, "compare-timelines-range");
        const { y } = await side(page, "B").locator(".tl-head").boundingBox(); // the panel has taken room
        await page.mouse.move(x(B.first + 20), y + 8);
        await page.mouse.down();
        await page.mouse.move(x(B.first + 220), y + 8, { steps: 4 });
        await page.mouse.up();
        await panel.getByRole("heading", { name: /^(19[89]|20[012]) µs of both/ }).waitFor();
    }],
    ["timelines: without steps they are aligned at their starts", async (open) => {
        const page = await open(at(stage.id(GPU), "compare", { with: stage.id("dense.json"), show: "timelines" }));
        await page.getByText("Aligned at the start of both").waitFor();
        await becomes(async () => {
            const [a, b] = [await seen(page, "A"), await seen(page, "B")];
            assert.deepEqual(a, b);
        });
    }],
    ...["light", "dark"].map((theme) => [`every view fits a phone, a laptop and a large screen, ${theme}`, async (open) => {
        for (const [width, height] of [[390, 844], [1280, 800], [1920, 1080]]) {
            for (const args of [{ with: stage.id(AFTER), of: "conv1|Conv" }, { with: stage.id(AFTER), show: "timelines" }, { with: stage.id(RUN) }]) {
                const page = await open(at(stage.id(BEFORE), "compare", args), { width, height, theme });
                const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
                assert.ok(wide <= 0, `${width} px: ${wide} px too wide`);
                await stage.picture(page, `compare-${args.show ?? (args.of ? "operator" : "other")}-${width}-${theme}`);
            }
        }
    }]),
];
