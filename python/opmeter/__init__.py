"""opmeter measures every operator of a neural network.

    with opmeter.profile(file="trace.opm") as p:
        with p.record("warm up", warm_up=True):
            ...
        with opmeter.span("load"):
            ...
    p.print_summary()

    trace = opmeter.open("trace.opm")
    trace.sql("SELECT name, dur FROM span ORDER BY dur DESC LIMIT 5")
"""
from ._opmeter import (Error, Span, activity, counter, enabled, meta, op, path, pause, phase,
                       queue, record, recording, resume, span, start, stats, step, stop,
                       thread_name, track)
from ._opmeter import version as __version__
from .trace import Trace, open

__all__ = ["Error", "Span", "Trace", "activity", "counter", "enabled", "meta", "op", "open",
           "path", "pause", "phase", "queue", "record", "recording", "resume", "span", "start",
           "stats", "step", "stop", "thread_name", "track"]
