// History: a catalogue of runs with a planted change, its operators, and the traces on either side of it.
import assert from "node:assert/strict";
import { join } from "node:path";
import { makeHistory, RUNS } from "./catalogues.mjs";
import { settled } from "./stage.mjs";

// A folder beside the one that the other tests are served from.
let base = null;
async function served(stage) {
    base ??= await stage.serve([makeHistory(stage.opmeter, `${stage.folder}-history`)]);
    return base;
}

async function cells(table) {
    await table.locator("tbody tr").first().waitFor();
    return table.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].map((c) => c.textContent)));
}

export default (stage) => [
    ["a change of the series leads to its operators, and to both traces side by side", async (open) => {
        const page = await open(`${await served(stage)}/`);
        await page.getByRole("heading", { name: "History" }).waitFor();
        const changes = await cells(page.getByRole("table", { name: "Changes" }));
        assert.equal(changes.length, 1);
        assert.deepEqual(changes[0].slice(0, 2), ["c0ffee0007 … c0ffee0008", "code"]);
        assert.equal(changes[0].at(-1), "conv");
        await page.getByRole("table", { name: "Changes" }).locator("tbody tr").first().click();
        const operators = page.getByRole("table", { name: "Operators of the change" });
        const rows = await cells(operators);
        assert.deepEqual(rows.map(([name, , , , moved, , told]) => [name, moved, told]), [["conv", "+60.0 µs", "slower"], ["fc", "+0 ns", "~"]]);
        await operators.locator("tbody tr").first().click();
        await page.getByRole("img", { name: "conv in 16 runs" }).waitFor();
        await page.reload();
        await page.getByRole("img", { name: "conv in 16 runs" }).waitFor(); // it is in the address
        await page.screenshot({ path: join(stage.out, "history.png"), fullPage: true });
        await page.getByRole("button", { name: "Both traces side by side" }).click();
        await page.getByRole("region", { name: "A: " }).waitFor();
        await page.getByRole("region", { name: "B: " }).waitFor();
        await settled(page);
        await page.goBack();
        await page.getByRole("heading", { name: "History" }).waitFor();
    }],
    ["runs are filtered by label, and open their trace", async (open) => {
        const page = await open(`${await served(stage)}/#/history`);
        const table = page.getByRole("table", { name: "Runs" });
        const first = (await cells(table))[0];
        assert.equal(first[1], `c0ffee00${RUNS - 1}`);
        await page.getByRole("searchbox", { name: "Label: KEY=VALUE" }).fill("branch=none");
        await page.keyboard.press("Enter");
        await page.getByText("No run is as asked for.").waitFor();
        await page.getByRole("searchbox", { name: "Label: KEY=VALUE" }).fill("branch=main");
        await page.keyboard.press("Enter");
        await table.locator("tbody tr").first().click();
        await page.getByRole("link", { name: "Overview" }).waitFor();
        assert.match(page.url(), /#\/t\/\w+/);
    }],
];
