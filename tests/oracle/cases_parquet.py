"""cases_parquet.py -- what `opmeter export -f parquet` writes, read by parquet.py beside: the rows of a trace that is
written here, with numbers that take every way of being packed, NULLs, and texts of all kinds."""
import json
import random

import parquet

SOURCE = "the values that were written into the trace"
SPANS = 140_000  # more than a row group


def cases(opmeter, work):
    yield "parquet/planted", lambda case: planted(case, opmeter, work / "parquet")


def planted_spans():
    """(ts, dur, name, args) in ns, by start."""
    rng = random.Random(5)
    names = ["conv", "", "naïve ✓ 𝔘", "x" * 200, "quote\"'`", "tab\tnew\nline", "MatMul"] + [f"op{i}" for i in range(300)]
    at = 0
    for i in range(SPANS):
        at += rng.choice((0, 1, 7, 1000, 5_000_000)) + 10
        dur = rng.choice((1, 3, 9))
        args = {"i": i, "note": "n" * rng.randrange(40)} if i % 3 == 0 else None
        # Names far apart in number and, for a while, all different ones.
        name = f"unique {i}" if 50_000 < i < 60_000 else names[rng.randrange(len(names)) if i % 5 else 0]
        yield at, dur, name, args


def planted(case, opmeter, folder):
    folder.mkdir(parents=True, exist_ok=True)
    spans = list(planted_spans())
    rng = random.Random(6)
    values = [(i * 1000, rng.choice((0.0, -0.0, 1.5, -2.25, 1e300, rng.randrange(1 << 20) / 1024))) for i in range(5000)]
    events = [{"ph": "X", "pid": 7, "tid": 8, "ts": ts / 1000, "dur": dur / 1000, "name": name, "cat": "c",
               **({"args": args} if args else {})} for ts, dur, name, args in spans]
    events += [{"ph": "C", "pid": 7, "ts": ts / 1000, "name": "load", "args": {"value": value}} for ts, value in values]
    trace = folder / "trace.json"
    trace.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    place = folder / "lake"
    opmeter.text("export", trace, "-f", "parquet", "-o", place, "--job", "a/b=c d", "--rank", "3", "--force")

    def table(name):
        paths = list((place / name).glob("job=a%2Fb%3Dc d/rank=3/*.parquet"))
        if len(paths) != 1:
            raise ValueError(f"{len(paths)} files of table {name} where one should be")
        return parquet.read(paths[0])

    rows, facts = table("span")
    case.check("row groups", lambda: facts["groups"], 2, "131072 rows each")
    case.check("encodings", lambda: sorted(facts["encodings"]), [0, 5, 8], "plain, differences, dictionaries")
    case.check("what the footer says of the values", lambda: facts["wrong"], [], "the values beside it")
    case.check("table", lambda: facts["facts"]["opmeter.table"], "span", "the folder")
    case.check("id", lambda: rows["id"] == list(range(SPANS)), True, SOURCE)
    case.check("ts", lambda: rows["ts"] == [s[0] - rows_start(spans, values) for s in spans], True, SOURCE)
    case.check("dur", lambda: rows["dur"] == [s[1] for s in spans], True, SOURCE)
    case.check("name", lambda: rows["name"] == [s[2] for s in spans], True, SOURCE)
    case.check("args", lambda: [json.loads(a) if a else None for a in rows["args"]] == [s[3] for s in spans], True, SOURCE)
    case.check("no phase", lambda: sorted({repr(v) for v in rows["phase"]}), ["None"], SOURCE)
    samples, facts = table("sample")
    case.check("samples: footer", lambda: facts["wrong"], [], "the values beside it")
    case.check("samples", lambda: [repr(v) for v in samples["value"]], [repr(v) for _, v in values], SOURCE)


def rows_start(spans, values):
    """Where the trace begins: its earliest time becomes 0."""
    return min(spans[0][0], values[0][0])
