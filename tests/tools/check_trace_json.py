#!/usr/bin/env python3
"""check_trace_json.py OPMETER FILE... -- what opmeter reads from JSON traces, computed a second time.

From the JSON itself, in exact decimals: spans and total time per category, per name, instants,
counter values. Compared with what SQL says after the import. Files that are not JSON are passed
over (other tests have them). Prints one line per file; exit status 1 if anything differs.
"""
import collections
import gzip
import json
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

INSTANT = set("iIRPOVvc(),np") | {"T"}
PAIRED = {"b": "e", "S": "F", "N": "D"}


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        text = f.read().decode("utf-8-sig", errors="replace")
    data = json.loads(text, parse_float=Decimal, parse_constant=lambda c: None)
    if isinstance(data, dict):
        if not isinstance(data.get("traceEvents"), list):
            raise ValueError("no traceEvents")
        return data["traceEvents"] + [dict(s, ph="P") for s in data.get("samples", [])]
    return data


def ns(value):
    """Microseconds as int, Decimal or text; None if it is no time."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        value = Decimal(value) * 1000
    except (InvalidOperation, TypeError, ValueError):
        return None
    if not value.is_finite() or abs(value) > 2**62:
        return None
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def text(value):
    if value is None:
        return None
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def close_pairs(points, nested):
    """Durations of begins, matched per key in order of time; -1 for what stays open."""
    result = []
    for key in points:
        open_ = []
        for _, _, name, begins, entry in sorted(points[key], key=lambda p: (p[0], p[1])):
            if begins:
                open_.append((name, entry))
                continue
            at = next((i for i in range(len(open_) - 1, -1, -1) if not name or open_[i][0] == name),
                      None)
            if at is None:
                continue
            for other in open_[at:] if nested else [open_[at]]:
                other[1][2] = entry[3] - other[1][3]
            open_ = open_[:at] if nested else open_[:at] + open_[at + 1:]
        result += [p[4] for p in points[key] if p[3]]
    return result


def compute(events, is_ort):
    spans = []  # [name, cat, dur, ts]
    threads = collections.defaultdict(list)
    chains = collections.defaultdict(list)
    samples = 0
    for i, e in enumerate(events):
        if not isinstance(e, dict):
            continue
        ph, ts = e.get("ph"), ns(e.get("ts"))
        if ph is None or ph == "M" or ph in "stf" or ts is None:
            continue
        name, cat = text(e.get("name")) or "", text(e.get("cat"))
        if is_ort and cat == "Node" and name.endswith("_kernel_time"):
            name = name[:-len("_kernel_time")]
        entry = [name, cat, -1, ts]
        if ph == "X":
            entry[2] = max(0, ns(e.get("dur")) or 0)
            spans.append(entry)
        elif ph in "BE":
            if ph == "E":
                name = text(e.get("name"))
            threads[str(e.get("pid")), str(e.get("tid"))].append((ts, i, name, ph == "B", entry))
        elif ph == "C":
            args = e.get("args")
            if isinstance(args, dict):
                samples += sum(ns(v) is not None for v in args.values())
        elif ph in PAIRED or ph in PAIRED.values():
            id2 = e.get("id2") or {}
            key = (cat, e.get("scope"), name if ph in "SFND" else None, str(e.get("id")),
                   str(id2.get("global")), str(id2.get("local")),
                   e.get("pid") if "local" in id2 else None)
            chains[key].append((ts, i, name, ph in PAIRED, entry))
        elif ph in INSTANT:
            entry[2] = 0
            spans.append(entry)
    spans += close_pairs(threads, True) + close_pairs(chains, False)
    return spans, samples


def query(opmeter, path, sql):
    out = subprocess.run([opmeter, "query", "--json", path, sql], capture_output=True, check=True)
    return json.loads(out.stdout)


def group(rows):
    result = collections.defaultdict(lambda: [0, 0, 0])
    for key, dur in rows:
        g = result[key]
        g[0] += 1
        g[1] += max(dur, 0)
        g[2] += dur < 0
    return dict(result)


def check(opmeter, path):
    try:
        events = load(path)
    except (ValueError, RecursionError) as e:
        return f"passed over: {str(e)[:60]}"
    form = query(opmeter, path, "SELECT value FROM meta WHERE key = 'source.format'")
    if not form or form[0]["value"] not in ("chrome", "kineto", "onnxruntime"):
        return "passed over: read as another format"
    is_ort = form[0]["value"] == "onnxruntime"
    spans, samples = compute(events, is_ort)
    want = {
        "category": group((s[1], s[2]) for s in spans),
        "name": group((s[0], s[2]) for s in spans),
    }
    for what, column in (("category", "cat"), ("name", "name")):
        got = {
            r["k"]: [r["n"], r["t"], r["o"]]
            for r in query(opmeter, path,
                           f"SELECT {column} AS k, count(*) AS n, sum(max(dur, 0)) AS t,"
                           f" sum(dur < 0) AS o FROM span GROUP BY 1")
        }
        for key in sorted(set(got) | set(want[what]), key=str):
            if got.get(key) != want[what].get(key):
                return (f"DIFFERS: {what} {key!r}: count, ns, open are {got.get(key)},"
                        f" should be {want[what].get(key)}")
    got = query(opmeter, path, "SELECT count(*) AS n FROM sample WHERE track IN"
                " (SELECT id FROM track WHERE unit IS NULL)")[0]["n"]
    if got != samples:
        return f"DIFFERS: {got} counter values, should be {samples}"
    total = sum(max(s[2], 0) for s in spans)
    return f"ok: {len(spans)} spans, {total} ns, {samples} counter values"


def main():
    bad = 0
    for path in sys.argv[2:]:
        try:
            verdict = check(sys.argv[1], path)
        except subprocess.CalledProcessError as e:
            verdict = "FAILED: " + e.stderr.decode(errors="replace").strip()
        bad += verdict.startswith(("DIFFERS", "FAILED"))
        print(f"{path}: {verdict}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
