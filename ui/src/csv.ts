// Rows as other programs read them.
import type { Rows, Value } from "./api";

export function csv(rows: Rows): string {
    const cell = (value: Value) => {
        const word = value === null ? "" : String(value);
        return /[",\r\n]/.test(word) ? `"${word.replaceAll('"', '""')}"` : word;
    };
    return [rows.columns, ...rows.rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
