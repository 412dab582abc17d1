// write.mjs -- tables that opmeter exported, written again by others: node write.mjs LAKE OUT. Lies where the packages are.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import * as arrow from "apache-arrow";
import { parquetWriteBuffer } from "hyparquet-writer";
import * as wasm from "parquet-wasm/node";

const [lake, out] = process.argv.slice(2);
const db = await (await DuckDBInstance.create(":memory:")).connect();

// DuckDB: both versions of pages, every way to pack, row groups of odd size, Hive's folders.
const ways = {
    snappy: "COMPRESSION snappy",
    gzip: "COMPRESSION gzip",
    lz4: "COMPRESSION lz4_raw",
    plain: "COMPRESSION uncompressed",
    v2: "PARQUET_VERSION V2, COMPRESSION zstd, ROW_GROUP_SIZE 2048",
};
const tables = readdirSync(lake).sort();
for (const table of tables) {
    const from = `read_parquet('${lake}/${table}/**/*.parquet', hive_partitioning = false)`;
    for (const [name, options] of Object.entries(ways)) {
        mkdirSync(join(out, `duckdb-${name}`), { recursive: true });
        await db.run(`COPY (SELECT * FROM ${from}) TO '${out}/duckdb-${name}/${table}.parquet'` +
                     ` (FORMAT parquet, ${options})`);
    }
    // Narrow and unsigned numbers, a dictionary's index of types that others choose, and booleans.
    mkdirSync(join(out, "duckdb-types"), { recursive: true });
    const types = (await db.runAndReadAll(`SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM ${from})`))
        .getRows().map(([name]) =>
            name === "warmup" || name === "sparse_support" ? `"${name}"::BOOLEAN AS "${name}"`
            : ["id", "track", "op", "depth", "slot"].includes(name) ? `"${name}"::UINTEGER AS "${name}"`
            : name === "pid" || name === "tid" ? `"${name}"::DOUBLE AS "${name}"`
            : `"${name}"`);
    await db.run(`COPY (SELECT ${types.join(", ")} FROM ${from}) TO '${out}/duckdb-types/${table}.parquet' (FORMAT parquet)`);

    const folder = join(out, "duckdb-hive", table);
    mkdirSync(folder, { recursive: true });
    await db.run(`COPY (SELECT *, 'a b' AS job FROM ${from}) TO '${folder}'` +
                 ` (FORMAT parquet, PARTITION_BY (job), OVERWRITE_OR_IGNORE)`);

    // hyparquet-writer: columns as plain JavaScript.
    const result = await db.runAndReadAll(`SELECT * FROM ${from}`);
    const columns = result.getColumns();
    const names = result.columnNames();
    const columnTypes = result.columnTypes().map(String);
    const kind = { BIGINT: "INT64", DOUBLE: "DOUBLE", VARCHAR: "STRING" };
    const columnData = names.map((name, i) => ({ name, data: columns[i], type: kind[columnTypes[i]], nullable: true }));
    mkdirSync(join(out, "hyparquet"), { recursive: true });
    writeFileSync(join(out, "hyparquet", `${table}.parquet`), Buffer.from(parquetWriteBuffer({ columnData })));

    // arrow-rs, by way of Arrow: dictionaries, zstd and data pages of version 2.
    const vectors = {};
    names.forEach((name, i) => {
        const type = { BIGINT: new arrow.Int64(), DOUBLE: new arrow.Float64(), VARCHAR: new arrow.Utf8() }[columnTypes[i]];
        vectors[name] = arrow.vectorFromArray(columns[i], type);
    });
    const ipc = arrow.tableToIPC(new arrow.Table(vectors), "stream");
    for (const [name, version, pack] of [["arrow-v1", wasm.WriterVersion.V1, wasm.Compression.ZSTD],
                                         ["arrow-v2", wasm.WriterVersion.V2, wasm.Compression.SNAPPY]]) {
        const properties = new wasm.WriterPropertiesBuilder().setWriterVersion(version).setCompression(pack)
            .setDictionaryEnabled(version === wasm.WriterVersion.V1).build();
        mkdirSync(join(out, name), { recursive: true });
        writeFileSync(join(out, name, `${table}.parquet`), wasm.writeParquet(wasm.Table.fromIPCStream(ipc), properties));
    }
}
