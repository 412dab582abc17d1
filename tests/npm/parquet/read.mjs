// read.mjs -- tables that opmeter exported, as others read them: node read.mjs LAKE RANKS ARROW. Lies where the packages are.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { tableFromIPC } from "apache-arrow";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const [lake, ranks, arrow] = process.argv.slice(2);
const db = await (await DuckDBInstance.create(":memory:")).connect();
const ask = async (sql) => (await db.runAndReadAll(sql)).getRows();

const answer = { DuckDB: {}, hyparquet: {}, "Apache Arrow": {} };
for (const table of readdirSync(lake)) {
    const path = join(lake, table, "part-0.parquet");
    const result = await db.runAndReadAll(`SELECT * FROM '${path}'`);
    answer.DuckDB[table] = result.getRowObjects();
    answer.hyparquet[table] = await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors });
    answer["Apache Arrow"][table] = tableFromIPC(readFileSync(join(arrow, `${table}.arrow`))).toArray().map((row) => row.toJSON());
}
const from = `'${ranks}/span/**/*.parquet'`;
answer.names = await ask(`SELECT name, sum(dur) FROM ${from} WHERE job = '8211' GROUP BY ALL`);
answer.ranks = (await ask(`SELECT DISTINCT span.rank FROM ${from} span JOIN '${ranks}/track/**/*.parquet' track
    ON track.job = span.job AND track.rank = span.rank AND track.id = span.track ORDER BY 1`)).map((r) => r[0]);
answer.limits = (await ask(`SELECT min(stats_min_value::BIGINT), max(stats_max_value::BIGINT), sum(stats_null_count)::BIGINT
    FROM parquet_metadata('${lake}/span/part-0.parquet') WHERE path_in_schema = 'ts'`))[0];
process.stdout.write(JSON.stringify(answer, (_, v) =>
    typeof v !== "bigint" ? v : Number.isSafeInteger(Number(v)) ? Number(v) : JSON.rawJSON ? JSON.rawJSON(String(v)) : String(v)));
