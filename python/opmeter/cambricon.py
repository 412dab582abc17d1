"""The profiler of Cambricon's TensorFlow models: one object, switched on by the environment.

    profiler = Profiler()
    profiler.activity_start("decode", step, "what it is")
    ...
    profiler.activity_end("decode", step, "what it is")
    profiler.finalize()

TENSORFLOW_MODELS_TRACE_LEVEL says what to collect: 0 nothing, 1 software, 2 hardware, 3 all.
finalize() leaves profile/ with timeline/, step_stats/, summary.json and summary.md.
"""
import os
import sys
import tempfile
import threading
import warnings

from . import _opmeter
from ._need import need
from ._recording import Recording
from .trace import open as open_trace

LEVEL = "TENSORFLOW_MODELS_TRACE_LEVEL"
LEVELS = {0: 0, 1: 2, 2: 3, 3: 3}  # as TensorFlow's RunOptions.TraceLevel; ours
SESSION_RUN = "Session Run"


def _level():
    try:
        return min(max(int(os.environ.get(LEVEL) or 0), 0), 3)
    except ValueError:
        return 0


class Profiler:
    """The one profiler of the process: Profiler() is always the same object until finalize()."""

    _instance = None
    _instance_lock = threading.Lock()

    def __new__(cls, logdir="profile"):
        with cls._instance_lock:
            if cls._instance is None:
                instance = super().__new__(cls)
                instance._begin(logdir)
                cls._instance = instance
            return cls._instance

    def _begin(self, logdir):
        self.logdir = os.path.abspath(os.fspath(logdir))
        self.level = _level()
        self._lock = threading.Lock()
        self._open = {}       # (name, step) -> spans that have begun
        self._metadata = {}   # graph -> RunMetadata of the step that runs
        self._collected = []  # (graph, step, text of StepStats)
        self._statistics = False  # TensorFlow is asked for them: its steps come with them
        self._recording = None
        if self.level:
            _end_automatic()
            self._recording = Recording(level=LEVELS[self.level])
            self._recording.start()

    # ---- application ----

    def activity_start(self, activity_name, step=-1, meta=None):
        if not self.level:
            return
        self._begin_span((activity_name, step), _opmeter.activity(activity_name, step, meta))

    def activity_end(self, activity_name, step=-1, meta=None):
        """meta counts as said by activity_start() if both are given."""
        if self.level:
            self._end_span((activity_name, step), "activity", meta)

    # ---- framework ----

    def get_tf_trace_level(self):
        """For tf.compat.v1.RunOptions(trace_level=...)."""
        self._statistics = bool(self.level)
        return self.level

    def get_tf_runmetadata(self, graph_name):
        """The object that TensorFlow fills with the statistics of a step; None if off."""
        if not self.level:
            return None
        self._statistics = True
        with self._lock:
            if graph_name not in self._metadata:
                tensorflow = need("tensorflow", "RunMetadata")
                self._metadata[graph_name] = tensorflow.compat.v1.RunMetadata()
            return self._metadata[graph_name]

    def step_start(self, graph_name, step):
        if not self.level:
            return
        if not self._statistics:
            self._begin_span((graph_name, step, "step"), _opmeter.step(step, graph_name))
        self.activity_start(SESSION_RUN, step, graph_name)

    def step_end(self, graph_name, step):
        if not self.level:
            return
        self.activity_end(SESSION_RUN, step)
        if (graph_name, step, "step") in self._open:
            self._end_span((graph_name, step, "step"), "step")
        self._collect(graph_name, step)

    def get_collect_runmetadata_callback(self, graph_name):
        """For Keras: model.fit(..., callbacks=[...]). Each batch is a step."""
        keras = getattr(sys.modules.get("tensorflow"), "keras", None)
        base = keras.callbacks.Callback if keras else object
        profiler = self

        class CollectRunMetadata(base):
            step = -1

            def on_train_batch_begin(self, batch, logs=None):
                self.step += 1
                profiler.step_start(graph_name, self.step)

            def on_train_batch_end(self, batch, logs=None):
                profiler.step_end(graph_name, self.step)

        return CollectRunMetadata()

    # ---- the end ----

    def finalize(self):
        """End the recording and write the folder. The next Profiler() begins anew."""
        with self._instance_lock:
            if Profiler._instance is self:
                Profiler._instance = None
        if self._recording is None:
            return
        recording, self._recording, self.level = self._recording, None, 0
        recording.stop()
        with tempfile.TemporaryDirectory(prefix="opmeter-") as folder:
            parts = recording.parts()
            if self._collected:
                parts.append(self._write_statistics(folder))
            with open_trace(*parts) as trace:
                trace.export(self.logdir, "cambricon")

    # ---- how it is done ----

    def _begin_span(self, key, span):
        span.begin()
        with self._lock:
            self._open.setdefault(key, []).append(span)

    def _end_span(self, key, what, meta=None):
        with self._lock:
            spans = self._open.get(key)
            span = spans.pop() if spans else None
            if spans == []:
                del self._open[key]
        if span is None:
            warnings.warn(f"opmeter: end of {what} {key[0]!r} of step {key[1]}, which has not"
                          " begun", stacklevel=3)
            return
        if meta is not None:
            span.set(meta_at_end=meta)
        span.end()

    def _collect(self, graph_name, step):
        with self._lock:
            metadata = self._metadata.get(graph_name)
            if metadata is None:
                return
            # The text form of the message, which is what step_stats/ holds.
            text = str(metadata.step_stats)
            if text:
                self._collected.append((graph_name, step, text))
            # It is the program's as well: emptied, not replaced.
            metadata.Clear()

    def _write_statistics(self, folder):
        """What TensorFlow said, as files that opmeter reads: a folder of steps."""
        statistics = os.path.join(folder, "step_stats")
        os.mkdir(statistics)
        for graph_name, step, text in self._collected:
            name = f"{graph_name.replace(os.sep, '_')}_step_{step}"
            with open(os.path.join(statistics, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder


def _end_automatic():
    """The library records by itself if the environment says so, for programs that only link it. It
    would write the same folder at exit, without what TensorFlow says."""
    if os.environ.get("OPMETER_OUTPUT") or not _opmeter.recording():
        return
    try:
        _opmeter.stop()
    except _opmeter.Error as error:
        warnings.warn(f"opmeter: {error}", stacklevel=4)
