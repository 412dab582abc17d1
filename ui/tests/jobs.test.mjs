// Jobs of many ranks: what is planted in one is what its page says, down to the timeline of a rank.
import assert from "node:assert/strict";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { CLEAN, makeJobs, RANKS, STEPS, TWICE } from "./catalogues.mjs";
import { becomes, settled } from "./stage.mjs";

let made = null;

async function served(stage) {
    made ??= stage.serve([makeJobs(stage.opmeter, stage.root, join(stage.work, "jobs"))]);
    return made;
}

async function rows(page, table) {
    return page.locator(`[aria-label="${table}"] [role=row], [aria-label="${table}"] tr`).allInnerTexts();
}

export default (stage) => [
    ["a database opens with its jobs and machines", async (open) => {
        const page = await open(`${await served(stage)}/`);
        const text = await page.locator("main").innerText();
        assert.ok(text.includes("train-7") && text.includes(CLEAN), text);
        assert.match(text, /node000/);
        await stage.picture(page, "jobs");
        await page.getByRole("link", { name: CLEAN }).click();
        await page.getByRole("heading", { name: `Job ${CLEAN}` }).waitFor();
        await settled(page);
        assert.match(await page.locator(".verdict").innerText(), /^No rank holds up the job/);
    }],
    ["a job says who is late, and what else is planted", async (open) => {
        const page = await open(`${await served(stage)}/#/fleet/0/train-7`);
        const verdict = await page.locator(".verdict").innerText();
        assert.match(verdict, /^Rank 4 on node001 holds up the job/);
        const late = (await rows(page, "Late ranks"))[1];
        assert.match(late, /late\s*4/);
        assert.match((await rows(page, "Links"))[1], /rank 1 → 2.*slow/s);
        assert.match((await rows(page, "Outliers")).join(" "), /0\s+node000\s+layer1\/matmul/);
        assert.match((await rows(page, "Memory"))[1], /^\s*3\s/);
        assert.equal((await rows(page, "Ranks")).length, RANKS + 1);
        await stage.picture(page, "job");
    }],
    ["ranks that are missing or there twice are said", async (open) => {
        const page = await open(`${await served(stage)}/#/fleet/0/${encodeURIComponent(TWICE)}`);
        const said = (await page.locator("main").innerText()).replaceAll("\u00a0", " ");
        assert.match(said, /2 of the job’s 4 ranks \(1, 3\) are not here/);
        assert.match(said, /1 rank \(2\) recorded the same steps more than once.* 1 is left out/);
    }],
    ["a field of the map leads to that step of that rank", async (open) => {
        const page = await open(`${await served(stage)}/#/fleet/0/train-7`);
        const map = page.getByRole("application", { name: /rank and step/ });
        assert.match(await map.getAttribute("aria-label"), new RegExp(`${RANKS} ranks, ${STEPS} steps`));
        const box = await map.locator("canvas").boundingBox();
        await page.mouse.click(box.x + (5.5 * box.width) / STEPS, box.y + (4.5 * box.height) / RANKS);
        await becomes(async () => assert.match(await map.getAttribute("aria-label"), /rank 4, step 5: /));
        await map.focus();
        await page.keyboard.press("ArrowRight");
        await becomes(async () => assert.match(await map.getAttribute("aria-label"), /rank 4, step 6: /));
        await page.getByRole("button", { name: "Open in the timeline" }).click();
        await becomes(() => assert.match(page.url(), /#\/t\/[0-9a-f]+\/timeline\?.*range=/));
        await settled(page);
        assert.match(await page.locator(".head-path").innerText(), /rank00004/);
        // The range that is marked is the step.
        const id = /#\/t\/([0-9a-f]+)\//.exec(page.url())[1];
        const [from, to] = /range=(\d+)-(\d+)/.exec(page.url()).slice(1).map(Number);
        const step = await stage.get(`/api/trace/${id}/sql?q=${encodeURIComponent("SELECT ts, ts + dur FROM step WHERE num = 6")}`, await made);
        assert.deepEqual(step.rows[0], [from, to]);
    }],
    ["a recording that is gone is said", async (open) => {
        const base = await served(stage);
        const trace = join(stage.work, "jobs/late/rank00002.json");
        renameSync(trace, `${trace}.away`);
        try {
            const page = await open(`${base}/#/fleet/0/train-7?at=2-3`);
            page.faults.length = 0;
            await page.getByRole("button", { name: "Open in the timeline" }).click();
            await page.getByText(/the trace of rank 2 lies on node000.*is not here/).waitFor();
            // The browser itself writes that an answer was 404.
            assert.ok(page.faults.every((fault) => fault.includes("404")), String(page.faults));
            page.faults.length = 0;
        } finally {
            renameSync(`${trace}.away`, trace);
        }
    }],
    ["a job that is not there, and a phone", async (open) => {
        const base = await served(stage);
        const page = await open(`${base}/#/fleet/0/nothing`);
        assert.match(await page.locator("main").innerText(), /has no job 'nothing'/);
        page.faults.length = 0;
        const small = await open(`${base}/#/fleet/0/train-7`, { width: 390, theme: "dark" });
        assert.ok(await small.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than the screen");
        await stage.picture(small, "job-phone");
    }],
];
