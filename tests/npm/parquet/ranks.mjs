// ranks.mjs -- ranks of jobs that opmeter exported from a database, as others read them: node ranks.mjs LAKE. Lies where the
// packages are. Every cell is a text: numbers of 64 bits are no numbers of JavaScript.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const lake = process.argv[2];
const db = await (await DuckDBInstance.create(":memory:")).connect();
const text = (row) => Object.fromEntries(Object.entries(row).map(([k, v]) => [k, v === null || v === undefined ? null : String(v)]));
const value = (folder) => decodeURIComponent(folder.slice(folder.indexOf("=") + 1));

const answer = { DuckDB: {}, hyparquet: {} };
for (const table of readdirSync(lake)) {
    const rows = await db.runAndReadAll(`SELECT * FROM read_parquet('${join(lake, table)}/*/*/*.parquet', hive_partitioning = true,
        hive_types_autocast = false)`);
    answer.DuckDB[table] = rows.getRowObjects().map(text);
    answer.hyparquet[table] = [];
    for (const job of readdirSync(join(lake, table)))
        for (const rank of readdirSync(join(lake, table, job)))
            for (const part of readdirSync(join(lake, table, job, rank))) {
                const file = await asyncBufferFromFile(join(lake, table, job, rank, part));
                for (const row of await parquetReadObjects({ file, compressors }))
                    answer.hyparquet[table].push(text({ ...row, job: value(job), rank: value(rank) }));
            }
}
process.stdout.write(JSON.stringify(answer));
