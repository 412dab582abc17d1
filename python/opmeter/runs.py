"""run(): a model, measured, as a trace with outputs."""
import os
import tempfile
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from . import _opmeter, trace


class Run(trace.Trace):
    """A model that was run: a trace, with the outputs and the latencies.

    outputs: the model's outputs by name, of the last iteration. latency: "metered" (with recording
    on) and "bare" latencies in ns, and what metering cost.
    """

    def __init__(self, handle: Any, paths: Sequence[str], outputs: Dict[str, Any],
                 latency: Dict[str, Any]) -> None:
        super().__init__(handle, paths)
        self.outputs, self.latency = outputs, latency

    def __repr__(self):
        best = self.latency["bare"] or self.latency["metered"]
        return (f"<opmeter run {self.value(_MODEL)!r}: median {best['median'] / 1e6:.3f} ms "
                f"of {best['count']}>")


_MODEL = "SELECT value FROM meta WHERE key = 'model.name'"


def run(model: Any, inputs: Any = None, iterations: Union[int, str] = 10,
        warmup: Union[int, str] = 5, *, engine: Optional[str] = None, threads: int = 0,
        batch_size: int = 0, seq_len: int = 0, dims: Optional[Mapping[str, int]] = None,
        seed: int = 1, pin: bool = False, ort_lib: Any = None, receipt: bool = True,
        output: Any = None, max_memory: int = 0, time_limit: float = 0) -> Run:
    """Run a model and measure every operator.

    model, engine, threads, batch_size, seq_len, dims, max_memory (bytes), time_limit (seconds, for
    opening and for all iterations): as in session.create(). inputs: arrays by
    name, or as in Session.run(); those not given are made up. iterations and warmup are counts, or
    times such as "200ms". output: keep the trace in this file (.opm). receipt: alternate with bare
    iterations, so that the cost of metering is known.

    Gives a Run: a trace with .outputs and .latency. Where a recording is under way already, the
    model's operators go into that one, and the Run is all of it so far.
    """
    from . import session

    folder = None
    recording = _opmeter.recording()
    if recording:
        path = _opmeter.path()
    elif output is not None:
        path = os.fspath(output)
    else:
        folder = tempfile.TemporaryDirectory(prefix="opmeter-")
        path = os.path.join(folder.name, "run.opm")
    try:
        if not recording:
            _opmeter.start(path)
        try:
            with session.create(model, engine=engine, threads=threads, batch_size=batch_size,
                                seq_len=seq_len, dims=dims, seed=seed, pin=pin,
                                ort_lib=ort_lib, max_memory=max_memory,
                                time_limit=time_limit) as sess:
                outputs, latency = sess.measure(inputs, iterations, warmup, receipt)
        finally:
            if not recording:
                _opmeter.stop()
        handle = _opmeter.open_trace([path])
    finally:
        if folder is not None:
            folder.cleanup()  # the trace is in memory
    return Run(handle, [path], {tensor.name: tensor for tensor in outputs}, latency)
