"""Profiling a part of a program: `with profile(file="trace.json") as p: ...`.

The names are those of the Furiosa SDK's profiler, with the schedule and step() of PyTorch's.
"""
import enum
import functools
import inspect
import io
import os
import shutil
import tempfile
import warnings

from . import _opmeter, _reports
from ._recording import Recording
from .trace import open as open_trace

__all__ = ["ProfilerAction", "RecordFormat", "Resource", "profile", "schedule"]


class RecordFormat(enum.IntEnum):
    """What a profile leaves in its file."""
    ChromeTrace = 0
    PandasDataFrame = 1  # CSV
    Opm = 2


class Resource(enum.IntFlag):
    """What to look at."""
    CPU = 1
    NPU = 2
    ALL = 3
    All = 3


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(wait=0, warmup=0, active=1, repeat=0, skip_first=0):
    """A schedule for profile(): leave out `wait` steps, then `warmup` steps that do not count, then
    `active` ones; `repeat` times (0: till the end), after `skip_first` steps."""
    for name, value, least in (("wait", wait, 0), ("warmup", warmup, 0), ("active", active, 1),
                               ("repeat", repeat, 0), ("skip_first", skip_first, 0)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
    length = wait + warmup + active

    def action(step):
        cycle, at = divmod(step - skip_first, length)
        if cycle < 0 or (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class profile(_reports.Reports):
    """Record what happens in a `with` block or a decorated function.

    file: a path or an open file. format: a RecordFormat; without one the extension decides,
    .opm or Chrome's JSON. No file: the trace is only there for the methods below. resource: CPU,
    NPU (what accelerators did, and nothing else) or ALL. categories: of spans, names to record, or
    "-name" for all but these; one that no span had is warned of. level: 1 application, 2 and framework, 3 all.
    schedule: which steps to record, as schedule() makes it; step() says that the next one begins.
    on_trace_ready: called with this object after each cycle of the schedule; its trace is then that
    of the cycle. model: the steps' name.

    If a recording is under way already, this one takes part in it and reads its file.
    """

    def __init__(self, resource=Resource.ALL, format=None, file=None, *, categories=None,
                 level=None, schedule=None, on_trace_ready=None, model="", buffer_mb=0,
                 overflow="block"):
        self.resource = Resource(resource)
        self.file = file
        self.format = _format_of(format, file)
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.model = model
        self.step_num = 0
        if level is None and not self.resource & Resource.NPU:
            level = 2
        if isinstance(categories, (list, tuple, set)):
            categories = ",".join(categories)
        if schedule is not None and not callable(schedule):
            raise TypeError("schedule must be a function of the step, as schedule() makes it")
        self._options = {"categories": categories, "level": level, "buffer_mb": buffer_mb,
                         "overflow": overflow}
        self._recordings = []
        self._step = None
        self._action = None
        self._trace = None
        self._running = False

    # ---- running ----

    def start(self):
        if self._running:
            raise ValueError("the profile runs already")
        self._running = True
        self._trace = None
        self._recordings = []
        self.step_num = 0
        try:
            self._record()
        except BaseException:
            self._running = False
            raise
        self._action = None
        if self.schedule:
            self._begin_step()

    def stop(self):
        """End it and write the file. A step that has begun and not ended is not counted."""
        if not self._running:
            return
        self._running = False
        self._step = None
        self._recordings[-1].stop()
        if self.file is not None:
            self._write()
        self._look_for_categories()

    def _look_for_categories(self):
        """A category that nothing had is more likely a slip than meant."""
        wanted = [name.strip() for name in (self._options["categories"] or "").split(",")]
        wanted = [name for name in wanted if name and not name.startswith("-")]
        if not wanted:
            return
        found = {row[0] for row in self.trace._handle.query("SELECT DISTINCT cat FROM span")[1]}
        missing = [name for name in wanted if name not in found]
        if missing:
            warnings.warn("opmeter: categories: nothing of " + ", ".join(map(repr, missing))
                          + " was recorded; there was " + (", ".join(
                              sorted(repr(name) for name in found if name)) or "nothing else"),
                          stacklevel=4)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            self.stop()
            return
        try:
            self.stop()
        except Exception as other:  # the one that is on its way matters more
            warnings.warn(f"opmeter: the profile could not be kept: {other}", stacklevel=2)

    def __call__(self, function):
        """As a decorator: each call is a profile of its own, over the file of the one before."""
        if inspect.iscoroutinefunction(function):
            async def around(*args, **kwargs):
                with self._again():
                    return await function(*args, **kwargs)
        else:
            def around(*args, **kwargs):
                with self._again():
                    return function(*args, **kwargs)
        return functools.wraps(function)(around)

    def _again(self):
        return profile(self.resource, self.format, self.file, schedule=self.schedule,
                       on_trace_ready=self.on_trace_ready, model=self.model, **self._options)

    def _record(self):
        """Begin another recording; the first one goes right to the file if it is to be that."""
        path = None
        if (self.format == RecordFormat.Opm and _is_path(self.file) and not self._recordings
                and self.resource != Resource.NPU):
            path = self.file
        recording = Recording(path, **self._options)
        recording.start()
        self._recordings.append(recording)
        if recording.taking_part:
            warnings.warn(f"opmeter: a recording to {recording.path} is under way; the profile"
                          " takes part in it", stacklevel=4)

    # ---- saying what happens ----

    def record(self, label, warm_up=False):
        """A labelled region, a context manager. warm_up: it does not count."""
        return _opmeter.record(label, warm_up)

    def pause(self):
        """Leave out what happens until resume(). More than once is fine."""
        _opmeter.pause()

    def resume(self):
        _opmeter.resume()

    def step(self):
        """The step is over, and another one begins."""
        if not self._running:
            raise ValueError("step() of a profile that does not run")
        if self._step is not None:
            self._step.end()
            self._step = None
        ended, self.step_num = self._action, self.step_num + 1
        if ended == ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready:
            self._cycle()
        self._begin_step()

    def _begin_step(self):
        action = self.schedule(self.step_num) if self.schedule else ProfilerAction.RECORD
        self._action = action
        if action == ProfilerAction.NONE:
            _opmeter.pause()
            return
        _opmeter.resume()
        self._step = _opmeter.step(self.step_num, self.model, action == ProfilerAction.WARMUP)
        self._step.begin()

    def _cycle(self):
        """A cycle of the schedule is a trace of its own."""
        recording = self._recordings[-1]
        recording.stop()
        self._trace = self._open(recording.parts())
        try:
            self.on_trace_ready(self)
        finally:
            self._trace = None
            self._record()

    # ---- what came out ----

    @property
    def trace(self):
        """The trace (opmeter.Trace), once the profile has ended."""
        if self._trace is None:
            if self._running or not self._recordings:
                raise ValueError("there is no trace before the profile has ended")
            self._trace = self._open(part for recording in self._recordings
                                     for part in recording.parts())
        return self._trace

    def _open(self, parts):
        trace = open_trace(*parts)
        if self.resource == Resource.NPU:
            return _reports.devices_only(trace, open_trace)
        return trace

    def _write(self):
        if self.format == RecordFormat.Opm and _is_path(self.file):
            if len(self._recordings) == 1 and self.resource != Resource.NPU:
                self._recordings[0].unite(self.trace)
            else:
                self._export("opm")
        else:
            self._export({RecordFormat.Opm: "opm", RecordFormat.ChromeTrace: "chrome",
                          RecordFormat.PandasDataFrame: "furiosa-csv"}[self.format])

    def _export(self, format):
        with tempfile.TemporaryDirectory(prefix="opmeter-") as folder:
            path = os.path.join(folder, "trace")
            if _is_path(self.file):
                # Beside it, so that a file that could not be written whole takes nobody's place.
                path = os.fspath(self.file) + ".partial"
                self.trace.export(path, format)
                os.replace(path, self.file)
                return
            self.trace.export(path, format)
            if isinstance(self.file, io.TextIOBase):
                with open(path, encoding="utf-8", errors="replace") as source:
                    shutil.copyfileobj(source, self.file)
            else:
                with open(path, "rb") as source:
                    shutil.copyfileobj(source, self.file)
        self.file.flush()


def _is_path(file):
    return isinstance(file, (str, bytes, os.PathLike))


def _format_of(format, file):
    if file is not None and not _is_path(file) and not hasattr(file, "write"):
        raise TypeError(f"file must be a path or an open file, not {type(file).__name__}")
    if format is None:
        opm = _is_path(file) and os.fsdecode(file).endswith(".opm")
        format = RecordFormat.Opm if opm else RecordFormat.ChromeTrace
    format = RecordFormat(format)
    if format == RecordFormat.Opm and isinstance(file, io.TextIOBase):
        raise TypeError("a recording (RecordFormat.Opm) needs a file opened in binary mode")
    return format
