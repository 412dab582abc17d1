// Where the reader is: #/t/ID/PAGE?ARG=... with a server, #/fleet/ID/JOB?ARG=... for a job of many ranks, #/PAGE?ARG=... in a report. Hash routes,
// because a report is opened from disk.
import { useEffect, useState } from "preact/hooks";
import { isReport } from "./api";

export interface Route {
    trace: string | null;
    page: string | null;
    job: { fleet: string; job: string } | null; // page is the whole path then
    args: URLSearchParams;
}

export type RouteArgs = Record<string, string | number | null | undefined>;

export function parse(hash: string): Route {
    const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
    const parts = path.split("/").filter(Boolean).map(decode);
    const args = new URLSearchParams(search);
    if (isReport) return { trace: "", page: parts[0] ?? null, job: null, args };
    if (parts[0] === "fleet" && parts.length === 3) {
        return { trace: null, page: jobPath(parts[1]!, parts[2]!), job: { fleet: parts[1]!, job: parts[2]! }, args };
    }
    if (parts[0] !== "t") return { trace: null, page: parts[0] ?? null, job: null, args };
    return { trace: parts[1] ?? null, page: parts[2] ?? null, job: null, args };
}

function jobPath(fleet: string, job: string): string {
    return `fleet/${encodeURIComponent(fleet)}/${encodeURIComponent(job)}`;
}

// The address of a job of a database.
export function jobHref(fleet: string, job: string): string {
    return `#/${jobPath(fleet, job)}`;
}

function decode(text: string): string {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

export function current(): Route {
    return parse(location.hash);
}

// The address of a page of a trace (of the trace shown now, if not given).
export function href(page: string, args: RouteArgs = {}, trace = current().trace): string {
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(args)) {
        if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
    }
    const text = search.toString();
    const path = isReport || trace === null ? `#/${page}` : `#/t/${encodeURIComponent(trace)}/${page}`;
    return text ? `${path}?${text}` : path;
}

export function navigate(to: string): void {
    location.hash = to;
}

// What opens something: Back closes it again, or leads to what was open before. All other changes
// make no entry in the history, so that Back does not lead through every one of them.
const OPENS = ["span", "range", "op", "step", "queue", "with", "of", "change", "series"];

// Change arguments of the page shown; null or "" takes one away.
export function setArgs(change: RouteArgs): void {
    const route = current();
    const args: RouteArgs = Object.fromEntries(route.args);
    const to = href(route.page ?? "", { ...args, ...change });
    if (to === location.hash) return;
    const opens = OPENS.some((key) => key in change && String(change[key] ?? "") !== String(args[key] ?? ""));
    if (opens) history.pushState(null, "", to);
    else history.replaceState(null, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
    const [route, setRoute] = useState(current);
    useEffect(() => {
        const follow = () => setRoute(current());
        addEventListener("hashchange", follow);
        return () => removeEventListener("hashchange", follow);
    }, []);
    return route;
}
