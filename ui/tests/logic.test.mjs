// Modules of the page that compute something, without a browser.
import assert from "node:assert/strict";
import { join } from "node:path";
import { build } from "esbuild";

// A module of src/ as this program can import it.
async function load(root, name) {
    const { outputFiles } = await build({
        entryPoints: [join(root, "ui/src", name)],
        bundle: true,
        format: "esm",
        write: false,
        logLevel: "error",
    });
    return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const op = (id, type, time = 1) => ({ id, name: `${type}_${id}`, type, shape: "", time });

function random(seed) {
    let state = seed;
    return () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
}

// Boxes of one layer must not lie on each other.
function overlaps(layout, width) {
    const rows = new Map();
    for (const { x, y } of layout.nodes) rows.set(y, [...(rows.get(y) ?? []), x]);
    return [...rows.values()].some((xs) => xs.sort((a, b) => a - b).some((x, i) => i > 0 && x - xs[i - 1] < width));
}

const tests = {
    "blocks that repeat are found, the longest cover first": async (root) => {
        const { findBlocks } = await load(root, "graph/model.ts");
        assert.deepEqual(findBlocks("xabcabcabcy".split("")), [{ start: 1, period: 3, repeats: 3 }]);
        assert.deepEqual(findBlocks("ababab".split("")), [{ start: 0, period: 2, repeats: 3 }]);
        assert.deepEqual(findBlocks("abcdef".split("")), []);
        assert.deepEqual(findBlocks([]), []);
        // What begins one later covers more.
        assert.deepEqual(findBlocks("aabcdabcd".split("")), [{ start: 1, period: 4, repeats: 2 }]);
    },
    "a folded block stands for all its repetitions": async (root) => {
        const { buildGraph } = await load(root, "graph/model.ts");
        const ops = ["in", "a", "b", "a", "b", "out"].map((type, id) => op(id, type, 10));
        const tensors = ops.flatMap(({ id }) => [
            { op: id, io: "input", name: `t${id}` },
            { op: id, io: "output", name: `t${id + 1}` },
        ]);
        const folded = buildGraph(ops, tensors, new Set());
        assert.deepEqual(
            folded.nodes.map((node) => node.ops.map(({ id }) => id)),
            [[0], [1, 3], [2, 4], [5]]
        );
        assert.deepEqual(
            folded.nodes.map(({ time }) => time),
            [10, 20, 20, 10]
        );
        assert.deepEqual(folded.edges, [
            [0, 1],
            [1, 2],
            [2, 3],
        ]);
        const whole = buildGraph(ops, tensors, new Set([folded.blocks[0].key]));
        assert.equal(whole.nodes.length, 6);
        assert.deepEqual(whole.edges, [
            [0, 1],
            [1, 2],
            [2, 3],
            [3, 4],
            [4, 5],
        ]);
    },
    "a tensor written again belongs to the last that wrote it before": async (root) => {
        const { buildGraph } = await load(root, "graph/model.ts");
        const tensors = [
            { op: 0, io: "output", name: "t" },
            { op: 1, io: "input", name: "t" },
            { op: 1, io: "output", name: "t" },
            { op: 2, io: "input", name: "t" },
        ];
        assert.deepEqual(buildGraph([op(0, "a"), op(1, "b"), op(2, "c")], tensors, new Set()).edges, [
            [0, 1],
            [1, 2],
        ]);
    },
    "a layout has edges downwards and boxes apart": async (root) => {
        const { layOut, NODE_WIDTH } = await load(root, "graph/layout.ts");
        const next = random(7);
        for (let round = 0; round < 30; round++) {
            const n = 2 + Math.floor(next() * 60);
            const edges = [];
            for (let i = 1; i < n; i++) {
                for (let k = 0; k < 2; k++) edges.push([Math.floor(next() * i), i]);
            }
            const layout = layOut(n, edges);
            for (const [from, to] of edges) assert.ok(layout.nodes[from].y < layout.nodes[to].y);
            assert.ok(!overlaps(layout, NODE_WIDTH), `round ${round}`);
            assert.ok(layout.nodes.every(({ x }) => x >= 0 && x <= layout.width));
        }
        assert.deepEqual(layOut(0, []).nodes, []);
    },
    "thousands of operators are laid out": async (root) => {
        const { buildGraph } = await load(root, "graph/model.ts");
        const { layOut } = await load(root, "graph/layout.ts");
        const next = random(3);
        const ops = Array.from({ length: 6000 }, (_, id) => op(id, `t${Math.floor(next() * 50)}`));
        const tensors = ops.flatMap(({ id }) => [
            { op: id, io: "input", name: `x${id}` },
            { op: id, io: "input", name: `x${Math.max(0, id - 1 - Math.floor(next() * 8))}` },
            { op: id, io: "output", name: `x${id + 1}` },
        ]);
        const graph = buildGraph(ops, tensors, new Set());
        assert.equal(layOut(graph.nodes.length, graph.edges).nodes.length, graph.nodes.length);
    },
    "a histogram counts every value once": async (root) => {
        const { histogram, percentile } = await load(root, "stats.ts");
        for (const values of [[5], [3, 3, 3], [1, 2, 3, 4, 1000], Array.from({ length: 500 }, (_, i) => i % 97)]) {
            assert.equal(
                histogram(values).reduce((sum, bin) => sum + bin.count, 0),
                values.length
            );
        }
        assert.deepEqual(histogram([]), []);
        assert.equal(percentile([1, 2, 3, 4], 0.5), 2.5);
        assert.equal(percentile([], 0.5), null);
        const far = histogram([...Array.from({ length: 200 }, (_, i) => 100 + (i % 10)), 1e6]);
        assert.ok(far.at(-1).open && far.at(-1).from < 200, "one value far out leaves room for the others");
    },
    "rows of two traces are aligned by name, the n-th with the n-th": async (root) => {
        const { align, relative, verdict } = await load(root, "compare.ts");
        const pairs = align(["a", "b", "b"], ["b", "c", "b", "b"], (name) => name).map(({ a, b }) => [a, b]);
        assert.deepEqual(pairs, [
            ["a", null],
            ["b", "b"],
            ["b", "b"],
            [null, "b"],
            [null, "c"],
        ]);
        assert.equal(relative(0, 5), null);
        assert.equal(relative(4, 5), 0.25);
        assert.equal(relative(4, null), null);
        assert.equal(verdict(1000, 1030, [25, 25]), "slower"); // 30 against 2.58 x 7.07
        assert.equal(verdict(1000, 1015, [25, 25]), "same");
        assert.equal(verdict(1000, 970, [25, 25]), "faster");
        assert.equal(verdict(1000, 900, [25, null]), null);
    },
    "two sets of values share their bins": async (root) => {
        const { median, overlaid } = await load(root, "stats.ts");
        const bins = overlaid([10, 10, 20], [20, 30, 30, 30]);
        const counts = (side) => bins.map((bin) => bin.counts[side]).filter(Boolean);
        assert.deepEqual(counts(0), [2, 1]);
        assert.deepEqual(counts(1), [1, 3]);
        assert.ok(bins.some((bin) => bin.counts[0] === 1 && bin.counts[1] === 1), "20 is in the same bin for both");
        assert.deepEqual(overlaid([], []), []);
        assert.equal(median([5, 1, 3]), 3);
    },
    "live memory is what is between first and last": async (root) => {
        const { curves } = await load(root, "memory.ts");
        const chunk = (bytes, first_op, last_op, kind) => ({
            id: 0,
            owner: "",
            bytes,
            addr: null,
            first_op,
            last_op,
            kind,
        });
        assert.deepEqual(
            curves([chunk(10, 0, 1, "a"), chunk(5, 1, 2, "a"), chunk(7, null, null, "w"), chunk(1, 2, 99, "a")], 3),
            [
                { kind: "a", live: [10, 15, 6] },
                { kind: "w", live: [7, 7, 7] },
            ]
        );
    },
    "CSV quotes what must be quoted": async (root) => {
        const { csv } = await load(root, "csv.ts");
        assert.equal(
            csv({
                columns: ["a", "b"],
                types: [],
                rows: [
                    ["x,y", null],
                    ['q"', 1.5],
                    ["two\nlines", 0],
                ],
                truncated: false,
            }),
            'a,b\r\n"x,y",\r\n"q""",1.5\r\n"two\nlines",0\r\n'
        );
    },
    "branches of a pipeline have rows of their own": async (root) => {
        const { rowsOf } = await load(root, "pipeline.ts");
        const queue = (track, producer, consumer) => ({ track, producer, consumer });
        const rows = rowsOf([queue(1, "batch", "model"), queue(2, "images", "batch"), queue(3, "labels", "batch"),
                             queue(4, "files", "images"), queue(5, "a", "b"), queue(6, "b", "a")]);
        const on = (...keys) => keys.map((key) => rows.get(key));
        assert.deepEqual(on("stage model", "queue 1", "stage batch", "queue 2", "stage images", "queue 4", "stage files"),
                         [0, 0, 0, 0, 0, 0, 0]);
        assert.deepEqual(on("queue 3", "stage labels"), [1, 1]);
        assert.equal(new Set(on("queue 5", "queue 6", "queue 1", "queue 3")).size, 4, "circles are drawn somewhere");
    },
    "nothing was lost only of a recording that ended and is known to be whole": async (root) => {
        const { badgeOf, verdictOn } = await load(root, "losses.ts");
        const row = (name, severity) => ({ name, severity, count: 1, description: "" });
        const [unknown, lost] = [row("losses_unknown", "loss"), row("events_lost", "loss")];
        const [open, mended] = [row("not_closed", "info"), row("stray_comma", "info")];
        for (const [rows, said] of [
            [[], /^Nothing was lost\.$/],
            [[mended], /^Nothing was lost\.$/],
            [[open], /left so far was read/],
            [[open, unknown], /may be missing/],
            [[unknown, lost], /is missing/],
        ]) {
            assert.match(verdictOn(rows), said);
        }
        assert.deepEqual([unknown, lost, open].map(badgeOf), ["unknown", "lost", "repaired"]);
    },
};

export default (stage) => Object.entries(tests).map(([name, test]) => [name, () => test(stage.root)]);
