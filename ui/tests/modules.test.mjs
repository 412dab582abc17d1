// The modules of a model as a graph.
import assert from "node:assert/strict";
import { at, becomes, settled } from "./stage.mjs";
import { FUNCTIONS, MODULES, RUN, SERVING, STACK, STACK_LAYERS } from "./traces.mjs";

const boxes = (page) => page.locator(".module-graph .node");
const labels = (page) => boxes(page).evaluateAll((all) => all.map((box) => box.getAttribute("aria-label").replace(/, (open|close).*/, "")));

export default (stage) => [
    ["graph: one inside the other, in the order of calls, with the time of what each launched", async (open) => {
        const page = await open(at(stage.id(MODULES), "modules"));
        await page.getByRole("button", { name: "Graph", exact: true }).click();
        await page.getByRole("group", { name: "Graph of 3 modules" }).waitFor();
        assert.deepEqual(await labels(page), ["Net_0: 100 µs, 100.0 %", "Conv2d_0: 70.0 µs, 70.0 %", "Linear_0: 30.0 µs, 30.0 %"]);
        const [net, conv, linear] = await Promise.all([0, 1, 2].map((i) => boxes(page).nth(i).boundingBox()));
        assert.ok(conv.y > net.y && linear.y > conv.y + conv.height, "the second call is below the first");
        assert.ok(linear.y + linear.height < net.y + net.height && conv.x > net.x, "both are inside");
        await page.getByRole("button", { name: /^Conv2d_0: 70\.0 µs/ }).click();
        await page.getByText("Net_0/Conv2d_0", { exact: true }).waitFor();
        await page.getByText("1 call", { exact: true }).waitFor();
        await stage.picture(page, "modules-graph");
        await page.getByRole("button", { name: /^Net_0: .*close/ }).click({ position: { x: 20, y: 10 } });
        await page.getByRole("group", { name: "Graph of 1 modules" }).waitFor();
        await page.reload();
        await settled(page);
        await page.getByRole("group", { name: "Graph of 1 modules" }).waitFor();
        await page.getByRole("button", { name: /^Net_0: .*open 2 inside/ }).click();
        await page.getByRole("group", { name: "Graph of 3 modules" }).waitFor();
        await page.getByRole("link", { name: "in the timeline" }).click();
        await page.waitForURL(/timeline\?q=nn\.Module/);
    }],
    ["graph: what the kernels of a replayed graph took belongs to the module that launched the graph", async (open) => {
        const page = await open(at(stage.id(SERVING), "modules", { as: "graph" }));
        // Of each of six layers: three kernels in the graph, 924 µs, which no arrow leads to, and attention, 130 µs.
        await page.getByRole("button", { name: /^GptForCausalLM_0: 6\.32 ms, 100\.0 %/ }).waitFor();
        await page.getByText(/100\.0 % of the device's time was launched inside a module/).waitFor();
    }],
    ["graph: layers that are built alike are one, until they are unfolded", async (open) => {
        const page = await open(at(stage.id(STACK), "modules", { as: "graph" }));
        // Each layer launches 40 µs of attention and 10 µs of norm; the head 50 µs.
        const all = STACK_LAYERS * 50 + 50;
        await page.getByRole("button", { name: new RegExp(`^${STACK_LAYERS} × Layer: ${STACK_LAYERS * 50}`) }).waitFor();
        const share = (us) => `${((us / all) * 100).toFixed(1)} %`;
        const told = await labels(page);
        assert.deepEqual(told, [
            `Net_0: ${all} µs, 100.0 %`, `${STACK_LAYERS} × Layer: ${STACK_LAYERS * 50} µs, ${share(STACK_LAYERS * 50)}`,
            `${STACK_LAYERS} × Norm: ${STACK_LAYERS * 10}.0 µs, ${share(STACK_LAYERS * 10)}`,
            `${STACK_LAYERS} × Attention: ${STACK_LAYERS * 40} µs, ${share(STACK_LAYERS * 40)}`, `Head_0: 50.0 µs, ${share(50)}`]);
        await stage.picture(page, "modules-graph-folded");
        await page.getByRole("button", { name: `Show each of ${STACK_LAYERS} × Layer` }).click();
        await page.getByRole("button", { name: /^Layer_2: 50\.0 µs/ }).waitFor();
        await becomes(async () => assert.equal((await labels(page)).filter((text) => text.startsWith("Layer_")).length, STACK_LAYERS));
        await page.getByRole("button", { name: "Fold those like Layer_1" }).click();
        await page.getByRole("button", { name: new RegExp(`^${STACK_LAYERS} × Layer`) }).waitFor();
        await page.getByRole("row", { name: /Head_0/ }).click();
        await page.locator(".module-graph .node.selected[aria-label^=Head_0]").waitFor();
    }],
    ["graph: from scopes in names, and from Python functions where there are no modules", async (open) => {
        const run = await open(at(stage.id(RUN), "modules", { as: "graph" }));
        await run.getByRole("button", { name: /^layer0|× layer/ }).first().waitFor();
        const page = await open(at(stage.id(FUNCTIONS), "modules", { as: "graph" }));
        await page.getByText(/From Python functions, because no nn\.Module spans were recorded/).waitFor();
        await becomes(async () => assert.deepEqual(await labels(page), ["train.py(10): step: 100 µs, 100.0 %", "net.py(20): forward: 60.0 µs, 60.0 %"]));
    }],
    ...["light", "dark"].map((theme) => [`graph fits a phone, a laptop and a large screen, ${theme}`, async (open) => {
        for (const [width, height] of [[390, 844], [1280, 800], [1920, 1080]]) {
            const page = await open(at(stage.id(STACK), "modules", { as: "graph" }), { width, height, theme });
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
            assert.ok(wide <= 0, `${width} px: ${wide} px too wide`);
            await stage.picture(page, `modules-graph-${width}-${theme}`);
        }
    }]),
];
