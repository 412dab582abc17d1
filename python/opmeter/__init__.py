"""opmeter measures every operator of a neural network.

    with opmeter.profile(file="trace.opm") as p:
        with p.record("warm up", warm_up=True):
            ...
        with opmeter.span("load"):
            ...
    p.print_summary()

    trace = opmeter.open("trace.opm")
    trace.rows("SELECT name, dur FROM span ORDER BY dur DESC LIMIT 5")
"""
from ._opmeter import (Error, Span, activity, counter, enabled, meta, op, path, pause, phase,
                       queue, record, recording, resume, span, start, stats, step, stop,
                       thread_name, track)
from . import _later, _tool, _wrap  # noqa: F401: spans are complete with the second
from ._opmeter import version as __version__
from .fleet import connect
from .llm import iteration, request
from .mindinsight import Profiler
from .profiler import ProfilerAction, RecordFormat, Resource, profile, schedule
from .runs import run
from .trace import Trace, open

__all__ = ["Error", "Profiler", "ProfilerAction", "RecordFormat", "Resource", "Span", "Trace",
           "activity", "connect", "counter", "enabled", "iteration", "meta", "op", "open", "path", "pause", "phase",
           "profile", "queue", "record", "recording", "request", "resume", "run", "schedule", "session",
           "span", "start", "stats", "step", "stop", "tensor", "thread_name", "torch", "track"]

if recording():
    _tool.provide()

# Loaded by who uses them: an engine is behind the first. A module's own __getattr__() would do, but
# makes every opmeter.span() slower by a sixth.
session, tensor, torch = map(_later.Module, ("session", "tensor", "torch"))
