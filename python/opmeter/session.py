"""Sessions: a model that is loaded once and run often, each operator in the recording.

    with opmeter.session.create("model.onnx") as sess:
        outputs = sess.run(opmeter.tensor.rand(sess.input(0)))
        outputs[0].numpy()
"""
import os
import tempfile
import weakref
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from . import _run
from .tensor import Tensor, TensorDesc, pointer_of

Path = Union[str, "os.PathLike[str]"]
Model = Union[Path, bytes, bytearray, memoryview]

_live: "weakref.WeakSet[Session]" = weakref.WeakSet()


def create(model: Model, *, engine: Optional[str] = None, threads: int = 0, batch_size: int = 0,
           seq_len: int = 0, dims: Optional[Mapping[str, int]] = None, seed: int = 1,
           pin: bool = False, ort_lib: Optional[Path] = None, max_memory: int = 0,
           time_limit: float = 0) -> "Session":
    """Load a model and get it ready.

    model is the path of an ONNX file, its bytes, or "zoo:NAME" (see zoo()). engine is one of
    engines(); ort_lib the ONNX Runtime to load for that engine. threads 0: as many as there are
    cores. Open dimensions get their size from batch_size, seq_len and dims ({"name": size}), or
    from the arrays given to run(). max_memory: bytes that the native engine may take; 0: three
    quarters of the machine's. time_limit: seconds that each call may take, to open, run or measure;
    0: no limit. Raises opmeter.Error, with code ELIMIT for what is over a limit.
    """
    return Session(model, engine=engine, threads=threads, batch_size=batch_size or 0,
                   seq_len=seq_len or 0, dims=dims, seed=seed, pin=pin, ort_lib=ort_lib,
                   max_memory=max_memory, time_limit=time_limit)


def engines() -> List[str]:
    """Names of the engines, the default first."""
    return _run.engines()


def zoo() -> List[str]:
    """Models that are made on the spot, as "zoo:NAME"."""
    return [f"zoo:{name}" for name in _run.zoo()]


def flush() -> None:
    """Have all sessions report what they measured; for those who stop a recording."""
    for session in list(_live):
        session.flush()


class Outputs(List[Tensor]):
    """The outputs of a run in the model's order; outputs["name"] works too."""

    def __getitem__(self, key):
        if not isinstance(key, str):
            return super().__getitem__(key)
        for tensor in self:
            if tensor.name == key:
                return tensor
        raise KeyError(key)

    def numpy(self) -> List[Any]:
        """All of them as NumPy arrays."""
        return [tensor.numpy() for tensor in self]


class Session:
    """A model that is ready to run; made by create(). May be used from any thread, one run at a
    time: others wait."""

    def __init__(self, model: Model, *, engine: Optional[str] = None, threads: int = 0,
                 batch_size: int = 0, seq_len: int = 0, dims: Optional[Mapping[str, int]] = None,
                 seed: int = 1, pin: bool = False, ort_lib: Optional[Path] = None,
                 max_memory: int = 0, time_limit: float = 0) -> None:
        self._handle = None
        sizes = [os.fsencode(f"{name}={int(size)}") for name, size in (dims or {}).items()]
        options = (engine, None if ort_lib is None else os.fspath(ort_lib), sizes, batch_size,
                   seq_len, seed, threads, pin, max_memory or 0, round((time_limit or 0) * 1e9))
        if isinstance(model, (bytes, bytearray, memoryview)):
            with tempfile.NamedTemporaryFile(prefix="opmeter-", suffix=".onnx") as file:
                file.write(model)
                file.flush()  # the engine maps it, and has it when the name is gone
                self._handle = _run.open_session(os.fsencode(file.name), *options)
        else:
            self._handle = _run.open_session(os.fsencode(model), *options)
        facts = self._handle.describe()
        self.model, self.engine = facts["model"], facts["engine"]
        self.engine_version, self.threads = facts["version"], facts["threads"]
        self._inputs = [TensorDesc(*value, self._handle, i)
                        for i, value in enumerate(facts["inputs"])]
        self._outputs = [TensorDesc(*value) for value in facts["outputs"]]
        _live.add(self)

    @property
    def input_num(self) -> int:
        return len(self._inputs)

    @property
    def output_num(self) -> int:
        return len(self._outputs)

    def inputs(self) -> List[TensorDesc]:
        """What the model wants, in order."""
        return list(self._inputs)

    def outputs(self) -> List[TensorDesc]:
        """What the model gives, in order."""
        return list(self._outputs)

    def input(self, i: Union[int, str]) -> TensorDesc:
        """Input number i, or of that name."""
        return _pick(self._inputs, i, "input")

    def output(self, i: Union[int, str]) -> TensorDesc:
        """Output number i, or of that name."""
        return _pick(self._outputs, i, "output")

    def run(self, inputs: Any = None) -> Outputs:
        """Run once.

        inputs is an array (for models with one input), a list with one for each, or a dict by name;
        None, and inputs that a dict leaves out, are made up. Gives a list of Tensor objects, whose
        numpy() are arrays; outputs["name"] works too.
        """
        pointers, keep = self._pointers(inputs)
        outputs = self._handle.run(pointers)
        del keep
        return self._tensors(outputs)

    def measure(self, inputs: Any = None, iterations: Union[int, str] = 10,
                warmup: Union[int, str] = 5,
                receipt: bool = True) -> Tuple[Outputs, Dict[str, Any]]:
        """What `opmeter run` does: warm up, then measure, with bare iterations in between so that
        the cost of metering is known. iterations and warmup are counts, or times such as "200ms".
        Gives the outputs and a dict of latencies in ns."""
        pointers, keep = self._pointers(inputs)
        outputs, latencies = self._handle.measure(pointers, str(iterations), str(warmup), receipt)
        del keep
        return self._tensors(outputs), latencies

    def flush(self) -> None:
        """Have the engine report what it measured so far. Needed before a recording stops, where
        the engine (ONNX Runtime) knows only afterwards and the session stays open."""
        if self._handle is not None and not self._handle.closed:
            self._handle.flush()

    def close(self) -> None:
        """Free the model. More than once is fine."""
        self._handle.close()

    def _tensors(self, outputs):
        return Outputs(Tensor(desc.name, *output) for desc, output in zip(self._outputs, outputs))

    def _pointers(self, inputs):
        if inputs is None:
            return None, None
        values = self._by_number(inputs)
        both = [(None, None) if value is None else pointer_of(value, desc)
                for value, desc in zip(values, self._inputs)]
        return [pointer for pointer, _ in both], [keep for _, keep in both]

    def _by_number(self, inputs):
        names = [desc.name for desc in self._inputs]
        if isinstance(inputs, dict):
            unknown = [name for name in inputs if name not in names]
            if unknown:
                raise ValueError(f"{self.model} has no input {', '.join(map(repr, unknown))}; "
                                 f"it has {', '.join(map(repr, names))}")
            return [inputs.get(name) for name in names]
        if isinstance(inputs, (list, tuple)) and len(names) != 1:
            if len(inputs) != len(names):
                raise ValueError(f"{self.model} has {len(names)} inputs, {len(inputs)} were given")
            return inputs
        if len(names) != 1:
            raise ValueError(f"{self.model} has {len(names)} inputs: give a list or a dict "
                             f"of {', '.join(map(repr, names))}")
        # A list of one array, or a list that is the array.
        if isinstance(inputs, (list, tuple)) and len(inputs) == 1 and (
                isinstance(inputs[0], Tensor) or hasattr(inputs[0], "shape")):
            return inputs
        return [inputs]

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __repr__(self):
        return f"<opmeter session {self.model!r} on {self.engine}, {self.threads} threads>"


def _pick(values, i, what):
    if isinstance(i, str):
        for value in values:
            if value.name == i:
                return value
        raise KeyError(f"there is no {what} {i!r}, but "
                       f"{', '.join(repr(value.name) for value in values)}")
    try:
        return values[i]
    except IndexError:
        raise IndexError(f"there is no {what} {i}, the model has {len(values)}") from None
