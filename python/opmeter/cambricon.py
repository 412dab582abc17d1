"""The profiler of Cambricon's TensorFlow models: one object, switched on by the environment.

    profiler = Profiler()
    profiler.activity_start("decode", step, "what it is")
    ...
    profiler.activity_end("decode", step, "what it is")
    profiler.finalize()

TENSORFLOW_MODELS_TRACE_LEVEL says what to collect: 0 nothing, 1 software, 2 hardware, 3 all.
finalize() leaves profile/ with timeline/, step_stats/, summary.json and summary.md; a program that
ends without it, also by an exception, leaves the same and is told.

Both versions of its calls are here. Of the second one, step_start() takes nothing, step_end() the
number of the step and maybe its RunMetadata, and finalize() a batch size for the throughput.
"""
import atexit
import json
import os
import statistics
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
LOGDIR = "TF_PROFILE_LOGDIR"
MODEL = "model"  # of those who name none


def _level():
    try:
        return min(max(int(os.environ.get(LEVEL) or 0), 0), 3)
    except ValueError:
        return 0


class Profiler:
    """The one profiler of the process: Profiler() is always the same object until finalize()."""

    _instance = None
    _instance_lock = threading.Lock()

    def __new__(cls, logdir=None, options=None):
        if logdir is None:
            logdir = os.environ.get(LOGDIR) or "profile"
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
        self._without = 0     # steps that TensorFlow was to say something of, and did not
        self._statistics = False  # TensorFlow is asked for them: its steps come with them
        self._recording = None
        if self.level:
            _end_automatic()
            self._recording = Recording(level=LEVELS[self.level])
            self._recording.start()
            atexit.register(self._at_exit)

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

    def get_trace_level(self):
        return self.get_tf_trace_level()

    def get_run_metadata(self):
        return self.get_tf_runmetadata(MODEL)

    def step_start(self, graph_name=None, step=None):
        if not self.level:
            return
        if graph_name is None:
            self.activity_start(SESSION_RUN)  # step_end() says which it was
            return
        if not self._statistics:
            self._begin_span((graph_name, step, "step"), _opmeter.step(step, graph_name))
        self.activity_start(SESSION_RUN, step, graph_name)

    def step_end(self, graph_name, step=None, run_metadata=None):
        """step_end(graph_name, step), or of the second version step_end(step, run_metadata)."""
        if not self.level:
            return
        if not isinstance(graph_name, str):
            if step is not None:
                run_metadata = step
            graph_name, step = MODEL, graph_name
            self._end_span((SESSION_RUN, -1), "activity", step=step)
        else:
            self.activity_end(SESSION_RUN, step)
        if (graph_name, step, "step") in self._open:
            self._end_span((graph_name, step, "step"), "step")
        self._collect(graph_name, step, run_metadata)

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

    def get_keras_profile_callback(self, start_step=0, end_step=None):
        """For Keras: batches from start_step on and before end_step are steps."""
        keras = getattr(sys.modules.get("tensorflow"), "keras", None)
        base = keras.callbacks.Callback if keras else object
        profiler = self

        class ProfileCallback(base):
            step = -1

            def begin(self, batch, logs=None):
                self.step += 1
                if _within(self.step, start_step, end_step):
                    profiler.step_start(MODEL, self.step)

            def end(self, batch, logs=None):
                if _within(self.step, start_step, end_step):
                    profiler.step_end(MODEL, self.step)

            on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = begin
            on_train_batch_end = on_test_batch_end = on_predict_batch_end = end

        return ProfileCallback()

    def get_estimator_profile_hook(self, start_step=0, end_step=None):
        """For an Estimator: estimator.train(..., hooks=[...]). Runs from start_step on and before
        end_step are steps."""
        train = getattr(getattr(getattr(sys.modules.get("tensorflow"), "compat", None), "v1", None),
                        "train", None)
        base = train.SessionRunHook if train else object
        profiler = self

        class ProfileHook(base):
            step = -1

            def before_run(self, run_context):
                self.step += 1
                if not profiler.level or not _within(self.step, start_step, end_step):
                    return None
                profiler.step_start()
                v1 = need("tensorflow", "an estimator's hook").compat.v1
                return v1.train.SessionRunArgs(
                    None, options=v1.RunOptions(trace_level=profiler.get_trace_level()))

            def after_run(self, run_context, run_values):
                if profiler.level and _within(self.step, start_step, end_step):
                    profiler.step_end(self.step, run_values.run_metadata)

        return ProfileHook()

    # ---- the end ----

    def _at_exit(self):
        if self._recording is None:
            return
        try:
            self.finalize()
            print(f"opmeter: the program ended without finalize(); {self.logdir} was written all"
                  " the same", file=sys.stderr)
        except Exception as error:  # the program is over: nobody is there to catch it
            print(f"opmeter: the program ended without finalize(), and {self.logdir} could not be"
                  f" written: {error}", file=sys.stderr)

    def finalize(self, analyze=True, batch_size=0, **extra):
        """End the recording and write the folder. The next Profiler() begins anew.

        batch_size: inputs of a step, for the throughput in overall_stats of summary.json, which
        has what else is given, too."""
        atexit.unregister(self._at_exit)
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
                if batch_size or extra:
                    self._add_overall(trace, batch_size, extra)
        if self._without:
            warnings.warn(f"opmeter: TensorFlow said nothing of {self._without} steps: pass"
                          " run_metadata=profiler.get_tf_runmetadata(graph_name) and options with"
                          " trace_level=profiler.get_tf_trace_level() to what runs them",
                          stacklevel=2)

    def _add_overall(self, trace, batch_size, extra):
        """What Analyzer.generate_summary() of the second version puts there, seconds."""
        times = [row[0] / 1e9 for row in trace._handle.query(
            "SELECT dur FROM step WHERE dur > 0 AND warmup = 0")[1]]
        times = times or [row[0] / 1e9 for row in trace._handle.query(
            f"SELECT dur FROM span WHERE name = '{SESSION_RUN}' AND dur > 0")[1]]
        path = os.path.join(self.logdir, "summary.json")
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
        rates = [batch_size / time for time in times]
        summary["overall_stats"] = {
            "batch_size": batch_size, "total_time": sum(times),
            **_spread("latency", times), **_spread("throughput", rates if batch_size else [])}
        summary.update(extra)
        with open(path + ".partial", "w", encoding="utf-8") as file:
            json.dump(summary, file)
        os.replace(path + ".partial", path)

    # ---- how it is done ----

    def _begin_span(self, key, span):
        span.begin()
        with self._lock:
            self._open.setdefault(key, []).append(span)

    def _end_span(self, key, what, meta=None, step=None):
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
        if step is not None:
            span.set(step=step)
        span.end()

    def _collect(self, graph_name, step, metadata=None):
        with self._lock:
            if metadata is None:
                metadata = self._metadata.get(graph_name)
            # Asked for under another name: what was filled since the last step is of this one.
            if metadata is None or not str(metadata.step_stats):
                metadata = next((other for other in self._metadata.values()
                                 if str(other.step_stats)), metadata)
            self._without += self._statistics and (metadata is None
                                                   or not str(metadata.step_stats))
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


def _within(step, start, end):
    return step >= start and (end is None or step < end)


def _spread(name, values):
    """"N/A" where there is nothing; a percentile is a value that was there, the lower one."""
    if not values:
        return {f"{name}_{what}": "N/A"
                for what in ("min", "mean", "median", "max", "99th_percentile")}
    ordered = sorted(values)
    return {f"{name}_min": ordered[0], f"{name}_mean": statistics.fmean(values),
            f"{name}_median": statistics.median(values), f"{name}_max": ordered[-1],
            f"{name}_99th_percentile": ordered[int(0.99 * (len(ordered) - 1))]}


def _end_automatic():
    """The library records by itself if the environment says so, for programs that only link it. It
    would write the same folder at exit, without what TensorFlow says."""
    if os.environ.get("OPMETER_OUTPUT") or not _opmeter.recording():
        return
    try:
        _opmeter.stop()
    except _opmeter.Error as error:
        warnings.warn(f"opmeter: {error}", stacklevel=4)
