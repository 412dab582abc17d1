// Tables: what all of them have in common.
import assert from "node:assert/strict";
import { at } from "./stage.mjs";
import { AFTER, BEFORE, GPU, MODULES, RANKS, RUN } from "./traces.mjs";

export default (stage) => [
    ["heads of columns are read whole at 1280 px", async (open) => {
        const pages = [[RANKS, "ranks"], [GPU, "kernels"], [GPU, "operators"], [RUN, "operators"], [RUN, "whatif"], [MODULES, "modules"],
                       [BEFORE, "compare", { with: stage.id(AFTER) }]];
        for (const [trace, name, args] of pages) {
            const page = await open(at(stage.id(trace), name, args), { width: 1280 });
            const heads = page.locator(".table-box th button");
            await heads.first().waitFor();
            const cut = await heads.evaluateAll((all) => all.filter((head) => head.scrollWidth > head.clientWidth + 1 ||
                head.scrollHeight > head.clientHeight + 1).map((head) => head.textContent));
            assert.deepEqual(cut, [], name);
        }
    }],
];
