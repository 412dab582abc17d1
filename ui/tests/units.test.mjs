// Bricks of the page that need no browser.
import assert from "node:assert/strict";
import { build } from "esbuild";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const src = join(dirname(fileURLToPath(import.meta.url)), "../src");

async function load(...modules) {
    const contents = modules.map((name) => `export * from ${JSON.stringify(join(src, name))};`).join("\n");
    const result = await build({ stdin: { contents, resolveDir: src, loader: "ts" }, bundle: true, format: "esm",
                                 write: false, logLevel: "warning" });
    return import(`data:text/javascript;base64,${Buffer.from(result.outputFiles[0].contents).toString("base64")}`);
}

export default () => [
    ["kernels are called by what tells them apart", async () => {
        const { kernelName } = await load("format.ts");
        assert.equal(kernelName("void ns::gemm<float, F<int(int)>>(float const*, P<a(b)>)"), "ns::gemm<float, F<int(int)>>");
        assert.equal(kernelName("void at::native::add<4>(int) [clone .kd]"), "add<4>");
        assert.equal(kernelName("volta_sgemm_64x64_nt"), "volta_sgemm_64x64_nt");
        assert.equal(kernelName("Memcpy HtoD (Pinned -> Device)"), "Memcpy HtoD (Pinned -> Device)");
        assert.equal(kernelName("f(int) const"), "f");
        assert.equal(kernelName("odd)"), "odd)");
        assert.equal(kernelName("(odd)"), "(odd)");
        assert.equal(kernelName(""), "");
    }],
    ["numbers are told in the unit that fits", async () => {
        const { ns, bytes, flops, percent, count, quantity, date } = await load("format.ts");
        assert.equal(ns(0), "0 ns");
        assert.equal(ns(999), "999 ns");
        assert.equal(ns(1500), "1.50 µs");
        assert.equal(ns(999_960), "1.00 ms");
        assert.equal(ns(12_345_678), "12.3 ms");
        assert.equal(ns(3_725_000_000_000), "1 h 2 min 5 s");
        assert.equal(ns(-1500), "-1.50 µs");
        assert.equal(bytes(1536), "1.50 KiB");
        assert.equal(flops(4.1e9), "4.10 GFLOP");
        assert.equal(percent(0.1234), "12.3 %");
        assert.equal(percent(0.0004), "0.04 %");
        assert.equal(count(1234567), "1 234 567");
        assert.equal(quantity(3, "batches"), "3 batches");
        for (const none of [null, undefined, ""]) assert.equal(ns(none), "N/A");
        assert.equal(quantity(null, "batches"), "N/A");
        assert.equal(date(0), "N/A");
    }],
    ["search finds words in any order, and letters in between", async () => {
        const { matcher } = await load("fuzzy.ts");
        assert.ok(matcher("relu conv")("Conv_1+Relu"));
        assert.ok(matcher("lyrnorm")("layer_norm"));
        assert.ok(!matcher("conv pool")("Conv_1+Relu"));
        assert.ok(matcher("  ")("anything"));
    }],
    ["zooming keeps what is under the pointer, and stays inside", async () => {
        const { fit, zoom, pan, clamp, toTime, toX } = await load("timeline/view.ts");
        const view = fit(0, 1e9, 1000);
        assert.ok(view.from < 0 && toTime(view, 1000) > 1e9);
        const near = zoom(view, 0.1, 300);
        assert.ok(Math.abs(toTime(near, 300) - toTime(view, 300)) < 1);
        assert.equal(Math.round(toX(near, toTime(near, 123))), 123);
        assert.deepEqual(clamp(zoom(view, 50, 0), 1e9, 1000), view);
        const far = clamp(pan(near, 1e6), 1e9, 1000);
        assert.ok(toTime(far, 500) <= 1e9 + 1);
        assert.ok(clamp(zoom(view, 1e-30, 5), 1e9, 1000).scale > 0);
        assert.ok(Number.isFinite(fit(0, 0, 1000).from));
    }],
    ["tracks stand by process, closed ones make room", async () => {
        const { grouped, place, totalHeight, inSight, lineY } = await load("timeline/tracks.ts");
        const track = (id, more) => ({ id, kind: "thread", name: `t${id}`, pid: 1, process: "p", tid: id, device: null,
                                       instance: null, rank: null, host: null, source: 0, unit: null, capacity: null,
                                       spans: 5, samples: 0, ...more });
        const groups = grouped([track(0), track(1, { kind: "counter", samples: 9, spans: 0 }), track(2),
                                track(3, { pid: 0, kind: "stream", device: "GPU 0" }), track(4, { spans: 0 })]);
        assert.deepEqual(groups.map(({ title, tracks }) => [title, tracks.map(({ id }) => id)]),
                         [["p · GPU 0", [3]], ["p · 1", [0, 2, 1]]]);
        const depth = new Map([[0, 4]]);
        const open = place(groups, depth, new Set(), new Set());
        const closed = place(groups, depth, new Set([groups[0].key]), new Set());
        assert.ok(totalHeight(closed) < totalHeight(open));
        assert.equal(inSight(open, 0, totalHeight(open)).length, open.length);
        const [row] = inSight(open, open[3].y, open[3].y + 1);
        assert.equal(row.track.id, 0);
        assert.ok(lineY(row, 2) > lineY(row, 1));
    }],
    ["a name has one colour in a theme, and text can be read on it", async () => {
        const { byName, byIndex, named, ON_FILL } = await load("palette.ts");
        const light = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
        for (const theme of ["light", "dark"]) {
            assert.equal(byName("Conv", theme), byName("Conv", theme));
            for (let i = 0; i < 12; i++) assert.ok(contrast(byIndex(i, theme), ON_FILL) >= 4.5, byIndex(i, theme));
            for (const bucket of ["idle", "compute", "data", "nonsense"]) {
                assert.ok(contrast(named("bucket", bucket, theme), ON_FILL) >= 4.5, bucket);
            }
        }
    }],
];
