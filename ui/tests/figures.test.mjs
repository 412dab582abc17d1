// What the pages say is what the command line says, and they do what their controls promise.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { at, becomes, settled } from "./stage.mjs";
import { GPU, LATE_US, LEAD, MINDSPORE, RANKS, RUN } from "./traces.mjs";

const UNITS = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, "%": 0.01 };

// "5.71 ms" as a number of ns.
function valueOf(text) {
    const [, number, unit] = /^([\d. ]*\d) ?([^\d\s]*)$/.exec(text.trim()) ?? assert.fail(`no figure: ${text}`);
    assert.ok(unit === "" || unit in UNITS, `a unit: ${text}`);
    return Number(number.replaceAll(" ", "")) * (UNITS[unit] ?? 1);
}

// The page rounds to three digits.
function assertNear(text, wanted, what) {
    const value = valueOf(text);
    assert.ok(
        Math.abs(value - wanted) <= Math.abs(wanted) * 0.006,
        `${what}: the page says ${text}, the trace ${wanted}`
    );
}

const figure = (page, label) =>
    page
        .locator(".figure", { has: page.locator(`.figure-label:text-is("${label}")`) })
        .first()
        .locator(".figure-value")
        .textContent();
// What a figure says in the end.
const nearFigure = (page, label, wanted, what) => becomes(async () => assertNear(await figure(page, label), wanted, what));
const figureIs = (page, label, wanted) => becomes(async () => assert.equal(await figure(page, label), wanted));
const card = (page, title) => page.locator(".card", { has: page.getByRole("heading", { name: title }) }).first();
const column = async (page, table, title) => {
    const heads = await page.locator(`${table} th button`).allTextContents();
    const i = heads.findIndex((head) => head.replace(/[▲▼]/, "") === title);
    assert.ok(i >= 0, `no column ${title} in ${heads}`);
    return page.locator(`${table} tbody tr:not([aria-hidden]) td:nth-child(${i + 1})`).allTextContents();
};

const overview = [
    [
        "overview: the latency is that of summary",
        async (open, stage) => {
            const [latency] = stage.query(RUN, "SELECT * FROM latency WHERE scope = 'step'");
            const page = await open(at(stage.id(RUN), "overview"));
            await nearFigure(page, "median", latency.median_ns, "median");
            await nearFigure(page, "99th percentile", latency.p99_ns, "p99");
            await figureIs(page, "samples", String(latency.count));
            await figureIs(page, "warm-up excluded", String(latency.warmup_count));
        },
    ],
    [
        "overview: types, occupation and machine",
        async (open, stage) => {
            const [type] = stage.query(
                RUN,
                "SELECT type, sum(time_ns) AS ns FROM op_times GROUP BY type ORDER BY ns DESC LIMIT 1"
            );
            const page = await open(at(stage.id(RUN), "overview"));
            const first = card(page, "Where the time goes").locator(".legend li").first();
            assert.equal(await first.locator(".legend-name").textContent(), type.type);
            assertNear(await first.locator(".legend-value").textContent(), type.ns, type.type);
            assert.match(await card(page, "Model, engine and machine").textContent(), /bert-mini/);
            assert.match(await card(page, "Import").textContent(), /Nothing was lost/);
        },
    ],
    [
        "overview: the device occupation adds up to the steps",
        async (open, stage) => {
            const [{ ns }] = stage.query(GPU, "SELECT sum(ns) AS ns FROM occupation WHERE bucket = 'communication'");
            const page = await open(at(stage.id(GPU), "overview"));
            const row = card(page, "Time breakdown")
                .locator(".legend li", { hasText: "Exposed communication" })
                .last();
            assertNear(await row.locator(".legend-value").textContent(), ns, "communicating");
        },
    ],
    [
        "overview: what came before the first step is no loss of the steps",
        async (open, stage) => {
            const page = await open(at(stage.id(LEAD), "overview"));
            const glance = card(page, "At a glance");
            await glance.getByText("90.0 %", { exact: true }).waitFor();
            assert.equal(await glance.getByText(/is idle for/).count(), 0, "the gap before the first step is none to look into");
        },
    ],
    [
        "overview and operators: what ranks have in common is one row, and adds up to a step of one rank",
        async (open, stage) => {
            // Four convolutions of 70 µs forward and four of 110 µs backward, 60 µs of the optimizer, and the collective:
            // 160 µs, and LATE_US more on the rank that waits for the other.
            const page = await open(at(stage.id(RANKS), "operators"));
            await page.getByText(/those of 2 ranks or instances together/).waitFor();
            const time = async (name) => valueOf(await page.getByRole("row", { name }).first().locator("td").nth(2).textContent());
            const close = (value, us) => assert.ok(Math.abs(value - us * 1000) < 1000, `${value} ns, not ${us} µs`);
            close(await time(/ConvolutionBackward0/), 440);
            close(await time(/ncclDevKernel_AllReduce/), 160 + LATE_US / 2);
        },
    ],
    [
        "overview: how busy the device was",
        async (open, stage) => {
            const [device] = stage.query(GPU, "SELECT * FROM stream_stats WHERE scope = 'device'");
            const page = await open(at(stage.id(GPU), "overview"));
            const said = await page.locator(".device .muted").first().textContent();
            const [, share, kernels] = /^([\d.]+) % computing,\s+(\d+) kernels/.exec(said) ?? assert.fail(said);
            const [whole] = stage.query(GPU, "SELECT * FROM reconciliation");
            const recorded = whole.wall_ns - whole.not_recorded_ns;
            assert.equal(share, ((100 * whole.compute_ns) / recorded).toFixed(1));
            assert.equal(Number(kernels), device.kernels);
        },
    ],
];

const steps = [
    [
        "steps: the mean, one step, and the way back",
        async (open, stage) => {
            const [mean] = stage.query(GPU, "SELECT avg(total_ns) AS ns FROM step_trace WHERE warmup = 0");
            const [one] = stage.query(GPU, "SELECT total_ns AS ns FROM step_trace WHERE num = 3");
            const page = await open(at(stage.id(GPU), "steps"));
            await nearFigure(page, "mean duration", mean.ns, "mean");
            await page.getByRole("spinbutton", { name: "Step" }).fill("3");
            await page.keyboard.press("Enter");
            await page.waitForURL(/step=3/);
            await nearFigure(page, "duration", one.ns, "step 3");
            await page.locator("h1").click();
            await page.keyboard.press("]");
            await page.getByRole("heading", { name: "Step 4", exact: true }).waitFor();
            await page.getByRole("button", { name: "Mean of all" }).click();
            await page.getByRole("heading", { name: "Mean step" }).waitFor();
        },
    ],
    [
        "steps: a lane for each line of collectives",
        async (open, stage) => {
            const lanes = stage.query(
                GPU,
                "SELECT t.name FROM collectives AS c JOIN track AS t ON t.id = c.track GROUP BY c.track"
            );
            const page = await open(at(stage.id(GPU), "steps"));
            const names = await page.locator(".lanes .lane-name").allTextContents();
            assert.equal(lanes.length, 1);
            assert.equal(names.length, 2 + lanes.length, `step, parts and collectives: ${names}`);
        },
    ],
    [
        "steps: dragging in a chart chooses steps",
        async (open, stage) => {
            const page = await open(at(stage.id(GPU), "steps"));
            const box = await page.locator(".chart .u-over").first().boundingBox();
            await page.mouse.move(box.x + box.width * 0.3, box.y + box.height / 2);
            await page.mouse.down();
            await page.mouse.move(box.x + box.width * 0.9, box.y + box.height / 2, { steps: 4 });
            await page.mouse.up();
            await page.getByRole("heading", { name: "Mean of steps 2 to 4" }).waitFor();
            await figureIs(page, "steps", "3");
        },
    ],
];

const operators = [
    [
        "operators: the longest first, other orders, and search; the address keeps them",
        async (open, stage) => {
            const rows = stage.query(RUN, "SELECT name, time_ns FROM op_times ORDER BY time_ns DESC");
            const page = await open(at(stage.id(RUN), "operators"));
            const longest = rows.filter((row) => row.time_ns === rows[0].time_ns).map((row) => row.name);
            const first = (names) => becomes(async () =>
                assert.ok(names.includes((await column(page, ".table-box", "Operator"))[0]), `one of ${names}`));
            await first(longest);
            await becomes(async () => assertNear((await column(page, ".table-box", "Time"))[0], rows[0].time_ns, rows[0].name));
            await page.locator(".table-box th button", { hasText: /^Time/ }).click();
            await first(rows.filter((row) => row.time_ns === rows.at(-1).time_ns).map((row) => row.name));
            await page.getByRole("searchbox").fill("layer1 matmul");
            await becomes(async () => assert.ok((await column(page, ".table-box", "Operator")).every((name) => /layer1/.test(name))));
            await page.waitForURL(/q=layer1/);
            const shown = await column(page, ".table-box", "Operator");
            await page.reload();
            await settled(page);
            await becomes(async () => assert.deepEqual(await column(page, ".table-box", "Operator"), shown));
        },
    ],
    [
        "operators: types unfold",
        async (open, stage) => {
            const [{ n }] = stage.query(RUN, "SELECT count(*) AS n FROM op_times WHERE type = 'LayerNormalization'");
            const page = await open(at(stage.id(RUN), "operators", { view: "type" }));
            const before = await page.locator(".table-box tbody tr").count();
            await page.locator(".table-box tr", { hasText: "LayerNormalization" }).first().click();
            await becomes(async () => assert.equal(await page.locator(".table-box tbody tr").count(), before + n));
        },
    ],
    [
        "operators: the panel tells about one, and leads into the timeline",
        async (open, stage) => {
            const [op] = stage.query(RUN, "SELECT * FROM op_times ORDER BY time_ns DESC LIMIT 1");
            const [longest] = stage.query(
                RUN,
                `SELECT s.id FROM span AS s JOIN step AS p ON p.id = s.step WHERE s.op = ${op.op} AND p.warmup = 0 ORDER BY s.dur DESC, s.id LIMIT 1`
            );
            const tensors = stage.query(RUN, `SELECT * FROM op_tensor WHERE op = ${op.op}`);
            const page = await open(at(stage.id(RUN), "operators"));
            await page.locator(".table-box tbody tr", { has: page.getByRole("cell", { name: op.name, exact: true }) }).first().click();
            const drawer = page.locator(".drawer");
            await drawer.getByRole("heading", { name: op.name, exact: true }).waitFor();
            await drawer.locator(".histogram rect").first().waitFor();
            await becomes(async () => assert.equal(await drawer.locator("table tbody tr").count(), tensors.length));
            const href = await drawer.getByRole("link", { name: /Longest/ }).getAttribute("href");
            assert.equal(href, at(stage.id(RUN), "timeline", { span: longest.id }));
            await page.keyboard.press("Escape");
            await drawer.waitFor({ state: "detached" });
        },
    ],
    [
        "operators: device and host apart",
        async (open, stage) => {
            const sections = stage.query(
                GPU,
                "SELECT section, count(*) AS n FROM op_times GROUP BY section ORDER BY section"
            );
            const page = await open(at(stage.id(GPU), "operators"));
            for (const { section, n } of sections) {
                await page.getByRole("button", { name: new RegExp(`^${section}`, "i") }).click();
                await page.locator(".table-count").filter({ hasText: new RegExp(`^${n} row`) }).waitFor();
            }
        },
    ],
];

const model = [
    [
        "roofline: a circle for each operator that can be placed",
        async (open, stage) => {
            const [{ n }] = stage.query(
                RUN,
                "SELECT count(*) AS n FROM op_times WHERE computation > 0 AND memory > 0 AND time_ns > 0"
            );
            const page = await open(at(stage.id(RUN), "roofline"));
            await becomes(async () => assert.equal(await page.locator("circle.dot").count(), n));
            await page.locator("circle.dot").last().focus();
            await page.keyboard.press("Enter");
            await page.locator(".drawer").waitFor();
        },
    ],
    [
        "memory: the peak of the plan",
        async (open, stage) => {
            const [{ peak }] = stage.query(
                RUN,
                `SELECT max(live) AS peak FROM (SELECT sum(m.bytes) AS live FROM op AS o
            JOIN mem AS m ON m.first_op <= o.id AND m.last_op >= o.id GROUP BY o.id)`
            );
            const page = await open(at(stage.id(RUN), "memory"));
            await nearFigure(page, "peak of activations", peak, "peak");
        },
    ],
    [
        "memory: counters in bytes",
        async (open, stage) => {
            const counters = stage.query(GPU, "SELECT name FROM track WHERE kind = 'counter' AND unit = 'bytes'");
            const page = await open(at(stage.id(GPU), "memory"));
            assert.ok(counters.length > 0);
            for (const { name } of counters) await page.getByRole("heading", { name, exact: true }).waitFor();
        },
    ],
    [
        "graph: repeated layers are folded, and unfold",
        async (open, stage) => {
            const [{ n }] = stage.query(RUN, "SELECT count(*) AS n FROM op");
            const page = await open(at(stage.id(RUN), "graph"));
            await page.getByRole("button", { name: "Expand all" }).waitFor();
            await page.keyboard.press("f");
            await becomes(async () => {
                const folded = await page.locator(".node").count();
                assert.ok(folded > 0 && folded < n, `${folded} of ${n} are shown`);
            });
            await page.getByRole("button", { name: "Expand all" }).click();
            await page.locator("h1").click();
            await page.keyboard.press("f");
            await becomes(async () => assert.equal(await page.locator(".node").count(), n));
            await page.locator(".node").first().click();
            await page.locator(".drawer").waitFor();
        },
    ],
    [
        "graph: an operator is found by its name",
        async (open, stage) => {
            const [op] = stage.query(RUN, "SELECT id, name FROM op WHERE name LIKE 'layer3%' ORDER BY id LIMIT 1");
            const page = await open(at(stage.id(RUN), "graph"));
            await page.getByRole("searchbox", { name: "Find an operator" }).fill(op.name);
            await page.keyboard.press("Enter");
            await page.waitForURL(new RegExp(`op=${op.id}$`));
            await page.locator(".drawer").getByRole("heading", { name: op.name, exact: true }).waitFor();
            await becomes(async () => assert.equal(await page.locator(".node.selected").count(), 1));
        },
    ],
    [
        "graph: where tensors have no names it says so",
        async (open, stage) => {
            const page = await open(at(stage.id(GPU), "graph"));
            await page.locator(".state.empty", { hasText: "has no names of tensors" }).waitFor();
        },
    ],
];

const pipeline = [
    [
        "pipeline: queues, and the size of one over time",
        async (open, stage) => {
            const queues = stage.query(MINDSPORE, "SELECT name, rank, usage, samples FROM queue_stats");
            const page = await open(at(stage.id(MINDSPORE), "pipeline"));
            const here = queues.filter((queue) => queue.rank === queues[0].rank);
            await becomes(async () => assert.equal(await page.locator(".queue-box").count(), here.length));
            const last = here.at(-1);
            await page.locator(".queue-box", { hasText: last.name }).first().click();
            await page.getByRole("heading", { name: `Queue ${last.name}` }).waitFor();
            await figureIs(page, "samples", String(last.samples));
        },
    ],
];

function whatif(stage, ...args) {
    return JSON.parse(execFileSync(stage.opmeter, ["whatif", "--json", ...args, join(stage.folder, RUN)])).totals;
}

const questions = [
    [
        "whatif: totals follow what is entered, as the command computes them",
        async (open, stage) => {
            const page = await open(at(stage.id(RUN), "whatif"));
            await nearFigure(page, "projected", whatif(stage).projected_ns, "90 %");
            await page.getByRole("spinbutton", { name: "Target sparsity of all weights" }).fill("80");
            await page.keyboard.press("Enter");
            await page.waitForURL(/aim=0.8/);
            const shape = (
                await page
                    .getByRole("spinbutton", { name: /^Speed-up for \d/ })
                    .first()
                    .getAttribute("aria-label")
            )
                .split(" ")
                .at(-1);
            await page.getByRole("spinbutton", { name: `Speed-up for ${shape}` }).fill("7.5");
            await page.keyboard.press("Enter");
            await page.waitForURL(/ratios=/);
            await page.getByRole("spinbutton", { name: "Speed-up for LayerNormalization" }).fill("2");
            await page.keyboard.press("Enter");
            await page.waitForURL(/speedups=/);
            const wanted = whatif(
                stage,
                "--sparsity",
                "80%",
                "--ratio",
                `${shape}:7.5`,
                "--speedup",
                "LayerNormalization=2x"
            );
            await nearFigure(page, "projected", wanted.projected_ns, "all three");
            await page.reload();
            await settled(page);
            await nearFigure(page, "projected", wanted.projected_ns, "after a reload");
        },
    ],
    [
        "compare: two traces side by side",
        async (open, stage) => {
            // What is compared is the own time of operators; of the GPU it is that of four kernels forward
            // and four backward.
            const [a] = stage.query(
                RUN,
                "SELECT count(*) AS n, sum(time_ns) AS ns FROM op_times WHERE section = 'device'"
            );
            const page = await open(at(stage.id(RUN), "compare"));
            await page.getByRole("combobox").selectOption({ label: GPU });
            await page.getByRole("heading", { name: "Operators" }).waitFor();
            await settled(page);
            await nearFigure(page, "all operators, A", a.ns, "A");
            await nearFigure(page, "B", 4 * (70_000 + 110_000), "B");
            await figureIs(page, "only A", String(a.n));
            await figureIs(page, "slower", "0");
        },
    ],
    [
        "advice: every piece, and its proof in SQL",
        async (open, stage) => {
            const advice = stage.query(GPU, "SELECT message, evidence FROM advice");
            const page = await open(at(stage.id(GPU), "advice"));
            assert.ok(advice.length > 0);
            await becomes(async () => assert.deepEqual((await page.locator(".advice-message").allTextContents()).sort(),
                advice.map(({ message }) => message).sort()));
            const proof = await page.locator(".advice-proof code").first().textContent();
            await page.getByRole("link", { name: "Open in SQL" }).first().click();
            await page.locator("textarea").waitFor();
            await becomes(async () => assert.equal(await page.locator("textarea").inputValue(), proof));
            await page.locator(".table-box tbody tr").first().waitFor();
        },
    ],
    [
        "sql: runs with Ctrl+Enter, keeps the query in the address, gives CSV",
        async (open, stage) => {
            const page = await open(at(stage.id(RUN), "sql"));
            await page.locator("textarea").fill("SELECT 'a,\"b' AS odd, count(*) AS spans FROM span");
            await page.keyboard.press("Control+Enter");
            await page.waitForURL(/q=SELECT/);
            await settled(page);
            const [{ spans }] = stage.query(RUN, "SELECT count(*) AS spans FROM span");
            await becomes(async () => assert.deepEqual(await column(page, ".table-box", "spans"), [String(spans)]));
            const [file] = await Promise.all([
                page.waitForEvent("download"),
                page.getByRole("button", { name: "CSV" }).click(),
            ]);
            assert.equal(readFileSync(await file.path(), "utf8"), `odd,spans\r\n"a,""b",${spans}\r\n`);
        },
    ],
    [
        "sql: a mistake is named, and the tables are beside",
        async (open, stage) => {
            const page = await open(at(stage.id(RUN), "sql"));
            await page.getByRole("searchbox", { name: /tables/ }).fill("weight_zero_ratio");
            await page.getByRole("button", { name: "weight_zero_ratio" }).waitFor();
            page.faults.length = 0;
            await page.locator("textarea").fill("SELECT nothing FROM span");
            await page.keyboard.press("Control+Enter");
            await page.locator(".state.failed", { hasText: "nothing" }).waitFor();
            // A refused request is an error of the console by itself.
            page.faults.splice(0, page.faults.length, ...page.faults.filter((fault) => !/400/.test(fault)));
        },
    ],
];

export default (stage) =>
    [overview, steps, operators, model, pipeline, questions]
        .flat()
        .map(([name, test]) => [name, (open) => test(open, stage)]);
