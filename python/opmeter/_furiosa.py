"""The Furiosa SDK's DataFrame of spans, straight from the columns of a trace.

What a row is follows the exporter furiosa-csv: ids are row numbers behind the recording's own, a step
has a trace id of its own that all inside share, hardware is of category NPU, steps are called Inference, and an operator has
an index where it executes, not where it is prepared.
"""
from . import _opmeter
from ._need import need
from .frames import columns_of

ORIGIN = """
    SELECT sum(CAST(value AS INTEGER)) FROM meta
    WHERE key IN ('clock.start_realtime_ns', 'trace.start_ns')"""


RECORDINGS = "SELECT value FROM meta WHERE key = 'recording.id' OR key GLOB '*.recording.id'"


def frame(trace):
    """A row per span, without warm-up; None where spans came with ids of the SDK, which its file
    has."""
    np, pd = need("numpy", "a DataFrame"), need("pandas", "a DataFrame")
    n, (ts, dur, track, parent, step, record, name, cat, layer, op, phase, args) = columns_of(
        np, trace._handle, "SELECT ts, dur, track, parent, step, record, name, cat, layer, op,"
        " phase, args FROM span")
    if any('"span_id"' in text for text in args.words):
        return None
    _, (tid,) = columns_of(np, trace._handle, "SELECT tid FROM track")
    start = ts.values + (trace.value(ORIGIN) or 0)
    ended = dur.values >= 0
    length = dur.values if ended.all() else np.where(
        ended, dur.values, (ts.values + np.maximum(dur.values, 0)).max(initial=0) - ts.values)
    hardware = _is(np, layer, n, "hardware")
    none = np.zeros(n, np.int64)
    element, is_element = _elements(np, track.values, hardware)
    op_null = _nulls(np, op, n)
    executes = _nulls(np, phase, n) | _is(np, phase, n, "forward")

    def indexes(values, null):
        return pd.arrays.IntegerArray(values, null)

    df = pd.DataFrame({
        **_ids(np, parent, _is(np, cat, n, "step"), n, _run(trace)),
        "start": start,
        "end": start + length,
        "cat": _category(np, cat, hardware, n),
        "name": _name(np, pd, name, cat, ended, n),
        "thread.id": _thread(np, pd, tid, track, n),
        "dram_base": indexes(none, np.ones(n, bool)),
        "pe_index": indexes(element, ~is_element),
        "execution_index": indexes(step.values, ~hardware | _nulls(np, step, n)),
        "instruction_index": indexes(op.values, ~hardware | op_null),
        "operator_index": indexes(op.values, hardware | op_null | ~executes),
        "dur": length,
    }, copy=False)
    warm_up = _is_warm_up(np, trace, "step", step, n) | _is_warm_up(np, trace, "record", record, n)
    return df[~warm_up] if warm_up.any() else df


def _is_warm_up(np, trace, table, column, n):
    """Where spans belong to a step or region that does not count."""
    _, (warm,) = columns_of(np, trace._handle, f"SELECT warmup FROM {table}")
    if not warm.values.any():
        return np.zeros(n, bool)
    flags = np.append(warm.values == 1, False)
    return flags[np.where(_nulls(np, column, n), len(warm.values), column.values)]


def _nulls(np, column, n):
    return np.zeros(n, bool) if column.null is None else column.null


def _is(np, column, n, word):
    """Where a text column has this text."""
    hit = np.array([text == word for text in column.words] + [False])
    return hit[np.where(_nulls(np, column, n), len(column.words), column.values)]


def _hex(np, numbers, width):
    numbers = np.ascontiguousarray(numbers, np.int64)
    texts = np.empty(len(numbers), object)
    _opmeter.hex_numbers(numbers.ctypes.data, texts.ctypes.data, len(numbers), width)
    return texts


def _run(trace):
    """Sixteen digits of the id of the one recording that the trace was read from, else zeros."""
    ids = [row["value"] for row in trace.rows(RECORDINGS)]
    return ids[0][:16] if len(ids) == 1 and len(ids[0]) == 32 else "0" * 16


def _ids(np, parent, is_step, n, run):
    outermost = _nulls(np, parent, n)
    top = outermost | is_step
    root = np.where(top, np.arange(n), parent.values)
    while not top[root].all():  # each turn goes twice as far up
        root = root[root]
    numbers = np.arange(1, n + 1) + ((int(run[:8], 16) & 0x7fffffff) << 32)
    spans = np.append(_hex(np, numbers, 16), "0" * 16)
    traces = run + _hex(np, np.flatnonzero(top) + 1, 16)
    number = np.cumsum(top) - 1  # of a root, among all roots
    return {"trace_id": traces[number[root]],
            "parent_span_id": spans[np.where(outermost, n, parent.values)],
            "span_id": spans[:n]}


def _elements(np, track, hardware):
    """Lines with hardware on them, numbered as they come."""
    element = np.zeros(len(track), np.int64)
    lines, first, which = np.unique(track[hardware], return_index=True, return_inverse=True)
    order = np.empty(len(lines), np.int64)
    order[np.argsort(first)] = np.arange(len(lines))
    element[hardware] = order[which]
    return element, hardware


def _category(np, cat, hardware, n):
    words = np.array(["Runtime", "NPU"], object)[hardware.astype(np.int8)]
    for word in ("NPU", "Nux", "Runtime"):
        if word in cat.words:
            words[_is(np, cat, n, word)] = word
    return words


def _name(np, pd, name, cat, ended, n):
    names = name.series(np, pd, n)
    if name.null is not None:
        names[name.null] = ""
    if "step" in cat.words:
        step = _is(np, cat, n, "step")
        names[step] = "Inference"
        names[step & ~ended] = "Inference (unfinished)"
    return names


def _thread(np, pd, tid, track, n):
    values = np.append(tid.values, 0)
    null = np.append(_nulls(np, tid, len(tid.values)), True)
    at = np.where(_nulls(np, track, n), len(tid.values), track.values)
    if not null[at].any():
        return values[at]
    return pd.arrays.IntegerArray(values[at], null[at])
