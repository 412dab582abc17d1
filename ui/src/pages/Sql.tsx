// Any question about the trace, in SQL, with the tables beside it.
import { useMemo, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { DataTable, type Column } from "../components/DataTable";
import { Failed, Loaded, Loading } from "../components/States";
import { count, text } from "../format";
import { useData, useLoad, useTrace, type Loadable } from "../hooks";
import { matcher } from "../fuzzy";
import type { SchemaColumn } from "../queries";
import { setArgs, useRoute } from "../router";
import { groupBy } from "../stats";

const EXAMPLE = `SELECT name, type, count, total_ns / 1e6 AS total_ms, median_ns / 1e3 AS median_us
FROM op_stats
ORDER BY total_ns DESC
LIMIT 20`;

const LIMIT = 10000;

type Row = { index: number; values: api.Value[] };

function number(value: number): string {
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(8)));
}

function Result({ rows }: { rows: api.Rows }) {
    const trace = useTrace();
    const columns = useMemo(
        () =>
            rows.columns.map((title, i): Column<Row> => {
                const numeric =
                    rows.types[i] === "integer" ||
                    rows.types[i] === "real" ||
                    rows.rows.some((row) => typeof row[i] === "number");
                return {
                    key: String(i),
                    title,
                    value: (row) => row.values[i] ?? null,
                    numeric,
                    search: true,
                    show: (row) => {
                        const v = row.values[i] ?? null;
                        return typeof v === "number" ? number(v) : text(v);
                    },
                };
            }),
        [rows]
    );
    const body = useMemo(() => rows.rows.map((values, index) => ({ index, values })), [rows]);
    return (
        <DataTable
            label="Result"
            columns={columns}
            rows={body}
            rowKey={(row) => row.index}
            searchLabel="Search the result"
            file={trace.name}
        >
            {rows.truncated && <span class="muted">Only the first {count(rows.rows.length)} rows.</span>}
        </DataTable>
    );
}

const KINDS = ["table", "analysis", "view"];

function Schema({ columns, onPick }: { columns: SchemaColumn[]; onPick: (word: string) => void }) {
    const [needle, setNeedle] = useState("");
    const matches = matcher(needle);
    const tables = [...groupBy(columns, (c) => c.table_name)]
        .filter(([name, of]) => matches(`${name} ${of.map((c) => c.column_name).join(" ")}`))
        .sort((a, b) => KINDS.indexOf(a[1][0]!.kind) - KINDS.indexOf(b[1][0]!.kind));
    return (
        <aside class="schema" aria-label="Tables and columns">
            <input
                type="search"
                class="search"
                placeholder="Search tables and columns"
                aria-label="Search tables and columns"
                value={needle}
                onInput={(event) => setNeedle(event.currentTarget.value)}
            />
            <div class="schema-list">
                {tables.map(([name, of]) => (
                    <details key={name} open={needle.trim().length > 2 || undefined}>
                        <summary title={of[0]!.table_doc}>
                            <code>{name}</code>{" "}
                            <span class="muted">{of[0]!.kind === "table" ? "" : of[0]!.kind}</span>
                        </summary>
                        <p class="note">{of[0]!.table_doc}</p>
                        <ul>
                            {of.map((c) => (
                                <li key={c.column_name} title={c.doc}>
                                    <button class="word" onClick={() => onPick(c.column_name)}>
                                        <code>{c.column_name}</code>
                                    </button>
                                    <span class="muted">{c.doc}</span>
                                </li>
                            ))}
                        </ul>
                    </details>
                ))}
            </div>
        </aside>
    );
}

function Console() {
    const trace = useTrace();
    const { args } = useRoute();
    const schema = useData<SchemaColumn>("schema");
    const asked = args.get("q") ?? EXAMPLE;
    const [draft, setDraft] = useState(asked);
    const [again, setAgain] = useState(0);
    const editor = useRef<HTMLTextAreaElement>(null);
    const last = useRef(asked);
    if (last.current !== asked) {
        last.current = asked;
        if (asked !== draft) setDraft(asked);
    }
    const [took, setTook] = useState<number | null>(null);
    const result: Loadable<api.Rows> = useLoad(
        async (signal) => {
            const start = performance.now();
            const rows = await api.sql(trace.id, asked, LIMIT, signal);
            setTook(performance.now() - start);
            return rows;
        },
        [trace.id, trace.stamp, asked, again]
    );
    const run = () => {
        last.current = draft;
        if (draft === asked) setAgain(again + 1);
        else setArgs({ q: draft });
    };
    const insert = (word: string) => {
        const box = editor.current!;
        const { selectionStart: from, selectionEnd: to } = box;
        setDraft(draft.slice(0, from) + word + draft.slice(to));
        box.focus();
    };
    return (
        <div class="sql">
            <div class="sql-main">
                <textarea
                    ref={editor}
                    class="editor"
                    aria-label="SQL"
                    spellcheck={false}
                    value={draft}
                    data-search
                    rows={Math.max(4, Math.min(14, draft.split("\n").length + 1))}
                    onInput={(event) => setDraft(event.currentTarget.value)}
                    onKeyDown={(event) => {
                        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
                            event.preventDefault();
                            run();
                        }
                    }}
                />
                <div class="page-head">
                    <button class="button primary" onClick={run}>
                        Run <kbd>Ctrl+Enter</kbd>
                    </button>
                    <span class="muted" aria-live="polite">
                        {result.state === "ready" && took !== null
                            ? `${count(result.value.rows.length)} rows in ${took < 1000 ? `${took.toFixed(0)} ms` : `${(took / 1000).toFixed(1)} s`}`
                            : ""}
                    </span>
                </div>
                {result.state === "loading" ? (
                    <Loading what="Asking" />
                ) : result.state === "failed" ? (
                    <Failed error={result.error} />
                ) : (
                    <Result rows={result.value} />
                )}
            </div>
            <Loaded of={schema}>{(columns) => <Schema columns={columns} onPick={insert} />}</Loaded>
        </div>
    );
}

export function Sql() {
    return (
        <div class="page fill">
            <h1>SQL</h1>
            {api.isReport ? (
                <p class="state empty">
                    A report is one file without a server, so it cannot answer SQL.{" "}
                    <code>opmeter serve TRACE</code> does, and so does <code>opmeter query TRACE SQL</code>.
                </p>
            ) : (
                <Console />
            )}
        </div>
    );
}
