"""A trace as a notebook shows it: latency and the ranking of operators."""
from html import escape

_TOP = 12
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


def duration(ns):
    """Nanoseconds for people: three digits and a unit."""
    if ns is None:
        return "N/A"
    for size, unit in _UNITS:
        if abs(ns) >= size:
            break
    value = ns / size
    digits = 0 if abs(value) >= 100 or unit == "ns" else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def _table(heads, rows):
    """rows are lists of HTML; the first column is text, the others are numbers."""
    def cells(tag, row):
        return "".join(f'<{tag} style="text-align:{"right" if i else "left"}">{cell}</{tag}>'
                       for i, cell in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _bar(share):
    if share is None:
        return "N/A"
    return (f'<span style="display:inline-block;width:{60 * max(0, min(share, 1)):.0f}px;'
            f'height:.7em;background:#4878d0"></span> {100 * share:.1f} %')


def _latency(trace):
    rows = trace.rows("SELECT scope, name, count, min_ns, median_ns, mean_ns, p95_ns, p99_ns, "
                      "max_ns FROM latency WHERE count > 0")
    return _table(
        ["latency", "count", "min", "median", "mean", "95 %", "99 %", "max"],
        [[escape(f"{row['name'] or 'steps'}"
                 + (" (region)" if row["scope"] == "record" else "")), str(row["count"])]
         + [duration(row[key]) for key in ("min_ns", "median_ns", "mean_ns", "p95_ns", "p99_ns",
                                           "max_ns")]
         for row in rows]) if rows else ""


def _ranking(trace):
    count = trace.value("SELECT count(*) FROM op_stats")
    if count:
        rows = trace.rows("SELECT name, type, count, mean_ns, self_ns, share FROM op_stats "
                          f"ORDER BY self_ns DESC LIMIT {_TOP}")
        head, noun = "operator", "operators"
    else:
        count = trace.value("SELECT count(*) FROM span_stats")
        rows = trace.rows("SELECT name, cat AS type, count, mean_ns, self_ns, NULL AS share "
                          f"FROM span_stats ORDER BY self_ns DESC LIMIT {_TOP}")
        head, noun = "span", "kinds of spans"
    if not rows:
        return "<p>Nothing was recorded.</p>"
    table = _table([head, "type", "count", "mean", "total", "share"],
                   [[escape(row["name"] or ""), escape(row["type"] or ""), str(row["count"]),
                     duration(row["mean_ns"]), duration(row["self_ns"]), _bar(row["share"])]
                    for row in rows])
    more = f"<p>{count - len(rows)} more {noun}</p>" if count > len(rows) else ""
    return table + more


def _trouble(trace):
    rows = trace.rows("SELECT name, count, description FROM import_stat WHERE severity = 'loss'")
    return "".join(f"<p>lost: {escape(str(row['count']))} × {escape(row['name'])}: "
                   f"{escape(row['description'] or '')}</p>" for row in rows)


def page(trace):
    """The whole display of a trace."""
    title = escape(trace.value("SELECT value FROM meta WHERE key = 'model.name'")
                   or ", ".join(map(str, trace.paths)))
    spans = trace.value("SELECT count(*) FROM span")
    return (f"<div><p><b>{title}</b>: {spans:,} spans</p>{_latency(trace)}{_ranking(trace)}"
            f"{_trouble(trace)}</div>")
