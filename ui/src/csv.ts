// Rows as other programs read them, and files to take along.
import type { Rows, Value } from "./api";

export function csv(rows: Rows): string {
    const cell = (value: Value) => {
        const word = value === null ? "" : String(value);
        return /[",\r\n]/.test(word) ? `"${word.replaceAll('"', '""')}"` : word;
    };
    return [rows.columns, ...rows.rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

// As a file in the reader's downloads.
export function download(name: string, content: string): void {
    const url = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    URL.revokeObjectURL(url);
}
