// A table of any length: only the rows in sight are in the document. Sorted by any column, searched
// as one types; arrow keys move, Enter opens. With urlKey its state is part of the address.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Value } from "../api";
import { csv, download } from "../csv";
import { count, text } from "../format";
import { matcher } from "../fuzzy";
import { Icon } from "../icons";
import { current, setArgs } from "../router";
import { Middle } from "./Middle";

export interface Column<T> {
    key: string;
    title: string;
    value: (row: T) => Value; // sorted by this
    show?: (row: T) => ComponentChildren; // else the value as text
    doc?: string; // shown when pointed at
    numeric?: boolean; // right-aligned; the first click sorts downwards
    width?: string; // CSS width; columns without one share what is left
    search?: boolean; // the search box looks here
}

interface DataTableProps<T> {
    label: string;
    columns: Column<T>[];
    rows: T[];
    rowKey: (row: T) => string | number;
    sort?: string; // key, "-key" downwards; "" keeps the given order
    urlKey?: string; // prefix of its arguments in the address
    onOpen?: (row: T) => void;
    selected?: string | number | null;
    maxHeight?: string; // CSS; without it the table is as high as its container allows
    children?: ComponentChildren; // controls beside the search box
    searchLabel?: string;
    file?: string; // name of what is downloaded; else its label
    nested?: (row: T) => T[] | null; // rows that unfold below one; null: it has none
}

const ROW_PX = 30;
const BEYOND = 12; // rows kept above and below those in sight

function compare(a: Value, b: Value): number {
    if (a === b) return 0;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
}

export function sorted<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
    const down = sort.startsWith("-");
    const column = columns.find(({ key }) => key === (down ? sort.slice(1) : sort));
    if (!column) return rows;
    return rows.map((row) => ({ row, value: column.value(row) })).sort((a, b) => {
        // What is not known comes last, whichever way.
        if (a.value === null || b.value === null) {
            return Number(a.value === null) - Number(b.value === null);
        }
        return down ? compare(b.value, a.value) : compare(a.value, b.value);
    }).map(({ row }) => row);
}

function useUrlState(name: string | null, initial: string): [string, (value: string) => void] {
    const [value, setValue] = useState(() => (name && current().args.get(name)) ?? initial);
    return [value, (next) => {
        setValue(next);
        if (name) setArgs({ [name]: next === initial ? null : next });
    }];
}

const LEAST_PX = { text: 150, number: 100 }; // of a column that has no width of its own

// Where there is less room the table is scrolled, not squeezed.
function leastWidth<T>(columns: Column<T>[]): number {
    let px = 0;
    let share = 0; // of columns whose width is a part of the whole
    for (const { width, numeric } of columns) {
        if (width?.endsWith("%")) share += parseFloat(width) / 100;
        else px += width?.endsWith("px") ? parseInt(width, 10) : LEAST_PX[numeric ? "number" : "text"];
    }
    return Math.ceil(px / Math.max(1 - share, 0.2));
}

export function DataTable<T>(props: DataTableProps<T>) {
    const { rows, urlKey } = props;
    const [widths, setWidths] = useState<Record<string, number>>({});
    const columns = props.columns.map((c) => (widths[c.key] === undefined ? c : { ...c, width: `${widths[c.key]}px` }));
    const [sort, setSort] = useUrlState(urlKey === undefined ? null : `${urlKey}sort`, props.sort ?? "");
    const [needle, setNeedle] = useUrlState(urlKey === undefined ? null : `${urlKey}q`, "");
    const [scroll, setScroll] = useState(0);
    const [height, setHeight] = useState(600);
    const [active, setActive] = useState(-1);
    const box = useRef<HTMLDivElement>(null);

    const searched = columns.filter((column) => column.search);
    const values = columns.filter((column) => column.title); // others hold what is to be pressed
    const found = useMemo(() => {
        if (!needle.trim()) return rows;
        const matches = matcher(needle);
        return rows.filter((row) => matches(searched.map((c) => c.value(row) ?? "").join("\n")));
    }, [rows, needle]);
    const [open, setOpen] = useState<ReadonlySet<string | number>>(new Set());
    const { nested, rowKey } = props;
    const shown = useMemo(() => sorted(found, columns, sort).flatMap((row) => {
        const below = open.has(rowKey(row)) ? nested?.(row) : null;
        return below ? [row, ...sorted(below, columns, sort)] : [row];
    }), [found, sort, open]);
    const unfold = (row: T) => {
        const next = new Set(open);
        if (!next.delete(rowKey(row))) next.add(rowKey(row));
        setOpen(next);
    };
    const act = (row: T) => (nested?.(row) ? unfold(row) : props.onOpen?.(row));

    useEffect(() => {
        const element = box.current!;
        const observer = new ResizeObserver(() => setHeight(element.clientHeight));
        observer.observe(element);
        return () => observer.disconnect();
    }, []);

    const first = Math.max(0, Math.floor(scroll / ROW_PX) - BEYOND);
    const end = Math.min(shown.length, Math.ceil((scroll + height) / ROW_PX) + BEYOND);

    const move = (to: number) => {
        const row = Math.max(0, Math.min(shown.length - 1, to));
        setActive(row);
        const element = box.current!;
        const top = row * ROW_PX;
        if (top < element.scrollTop) element.scrollTop = top;
        else if (top + 2 * ROW_PX > element.scrollTop + element.clientHeight) {
            element.scrollTop = top + 2 * ROW_PX - element.clientHeight;
        }
    };
    const onKeyDown = (event: KeyboardEvent) => {
        const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
        const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page,
                     PageUp: active - page, Home: 0, End: shown.length - 1 }[event.key];
        if (to !== undefined) {
            event.preventDefault();
            move(to);
        } else if (event.key === "Enter" && shown[active] && event.target === box.current) {
            event.preventDefault();
            act(shown[active]);
        }
    };

    return (
        <div class="table-frame">
            {(searched.length > 0 || props.children || rows.length > 0) && (
                <div class="table-bar">
                    {searched.length > 0 && (
                        <input type="search" class="search" value={needle} data-search
                               placeholder={props.searchLabel ?? "Search"}
                               aria-label={`${props.searchLabel ?? "Search"} in ${props.label}`}
                               onInput={(event) => setNeedle(event.currentTarget.value)} />
                    )}
                    {props.children}
                    <span class="table-end">
                    <button class="icon-button" aria-label={`${props.label} as CSV`} title="Download as CSV" disabled={!shown.length}
                            onClick={() => download(`${(props.file ?? props.label).replace(/[^\w.-]+/g, "_")}.csv`, csv({
                                columns: values.map((c) => c.title), types: [], truncated: false,
                                rows: shown.map((row) => values.map((c) => c.value(row))) }))}><Icon name="download" /></button>
                    <span class="table-count" aria-live="polite">
                        {found.length === rows.length ? count(rows.length)
                            : `${count(found.length)} of ${count(rows.length)}`}
                        {rows.length === 1 ? " row" : " rows"}
                    </span>
                    </span>
                </div>
            )}
            <div class="table-box" ref={box} tabIndex={0} role="group" aria-label={props.label}
                 style={props.maxHeight ? { maxHeight: props.maxHeight } : {}}
                 onKeyDown={onKeyDown} onScroll={(event) => setScroll(event.currentTarget.scrollTop)}>
                <table aria-rowcount={shown.length + 1} aria-label={props.label}
                       style={{ minWidth: `${leastWidth(columns)}px` }}>
                    <colgroup>
                        {columns.map((column) => (
                            <col key={column.key} style={column.width ? { width: column.width } : {}} />
                        ))}
                    </colgroup>
                    <thead>
                        <tr>
                            {columns.map((column) => (
                                <Head key={column.key} column={column} sort={sort} onSort={setSort}
                                      onWidth={(px) => setWidths((all) => ({ ...all, [column.key]: px }))} />
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        {first > 0 && <tr style={{ height: `${first * ROW_PX}px` }} aria-hidden="true" />}
                        {shown.slice(first, end).map((row, i) => {
                            const key = props.rowKey(row);
                            const index = first + i;
                            return (
                                <tr key={key} aria-rowindex={index + 2}
                                    class={(props.onOpen || nested ? "opens" : "") +
                                        (index === active ? " active" : "") +
                                        (key === props.selected ? " selected" : "")}
                                    aria-expanded={nested?.(row) ? open.has(key) : undefined}
                                    onClick={() => { setActive(index); act(row); }}>
                                    {columns.map((column) => <Cell key={column.key} {...{ column, row }} />)}
                                </tr>
                            );
                        })}
                        {end < shown.length && (
                            <tr style={{ height: `${(shown.length - end) * ROW_PX}px` }} aria-hidden="true" />
                        )}
                    </tbody>
                </table>
                {shown.length === 0 && (
                    <div class="state empty">{needle ? `Nothing matches “${needle}”.` : "No rows."}</div>
                )}
            </div>
        </div>
    );
}

interface HeadProps<T> {
    column: Column<T>;
    sort: string;
    onSort: (sort: string) => void;
    onWidth: (px: number) => void;
}

const LEAST_COLUMN_PX = 48;

function Head<T>({ column, sort, onSort, onWidth }: HeadProps<T>) {
    const { key } = column;
    const order = sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
    const next = order === "none" ? (column.numeric ? `-${key}` : key)
        : order === "ascending" ? `-${key}` : key;
    return (
        <th scope="col" aria-sort={order} class={column.numeric ? "num" : ""}>
            <button onClick={() => onSort(next)} title={column.doc ?? `Sort by ${column.title}`}>
                {column.title}
                <span class="sort-mark" aria-hidden="true">
                    {order === "ascending" ? "▲" : order === "descending" ? "▼" : ""}
                </span>
            </button>
            <span class="col-edge" aria-hidden="true" onPointerDown={(event) => {
                const edge = event.currentTarget;
                const start = edge.parentElement!.getBoundingClientRect().width - event.clientX;
                event.preventDefault();
                edge.setPointerCapture(event.pointerId);
                const onMove = (move: PointerEvent) => onWidth(Math.max(LEAST_COLUMN_PX, Math.round(start + move.clientX)));
                const onUp = () => edge.removeEventListener("pointermove", onMove);
                edge.addEventListener("pointermove", onMove);
                edge.addEventListener("pointerup", onUp, { once: true });
                edge.addEventListener("pointercancel", onUp, { once: true });
            }} />
        </th>
    );
}

function Cell<T>({ column, row }: { column: Column<T>; row: T }) {
    const value = column.value(row);
    const shown = column.show ? column.show(row) : text(value);
    const words = typeof shown === "string" && !column.numeric ? <Middle of={shown} /> : shown;
    return (
        <td class={(column.numeric ? "num" : "") + (value === null ? " na" : "")}
            title={typeof shown === "string" ? shown : String(value ?? "")}>
            {words}
        </td>
    );
}
