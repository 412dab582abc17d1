"""Inputs and outputs of models: what they are, arrays that suit them.

    sess = opmeter.session.create("model.onnx")
    sess.run(opmeter.tensor.rand(sess.input(0)))

With NumPy arrays are NumPy's; without, they are Tensor objects, and inputs may be anything with a
buffer, or nested lists.
"""
import ctypes
import itertools
import math
import struct
from typing import Any, Optional, Sequence, Tuple, Union

Shape = Tuple[Union[int, str, None], ...]

# Format characters of Python's own buffers; dtypes that have none are bytes to Python.
_FORMATS = {"float32": "f", "float64": "d", "float16": "e", "int8": "b", "uint8": "B",
            "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
            "bool": "?"}
_DTYPES = {**{code: name for name, code in _FORMATS.items()},
           "l": "int64", "L": "uint64", "c": "uint8"}
_seeds = itertools.count(1)


def _numpy():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class TensorDesc:
    """An input or output as the model declares it.

    shape is a tuple of sizes; an open one is its name, or None if it has none. shape is None where
    the model declares none.
    """

    def __init__(self, name: str, dtype: str, bits: int, shape: Optional[Shape],
                 session: Any = None, index: Optional[int] = None) -> None:
        self.name, self.dtype, self.bits, self.shape = name, dtype, bits, shape
        self._session, self._index = session, index

    @property
    def ndim(self) -> Optional[int]:
        return None if self.shape is None else len(self.shape)

    @property
    def numpy_dtype(self) -> Any:
        """The dtype of NumPy; raises TypeError where NumPy has none."""
        numpy = _numpy()
        if numpy is None:
            raise ImportError("numpy_dtype needs numpy, which is not installed")
        try:
            return numpy.dtype(self.dtype)
        except TypeError:
            raise TypeError(f"NumPy has no type {self.dtype} ('{self.name}')") from None

    def sizes(self, shape: Optional[Sequence[int]] = None, **dims: int) -> Tuple[int, ...]:
        """The shape with every open dimension decided, by name or by a whole shape."""
        if shape is not None:
            shape = tuple(int(size) for size in shape)
            if not self.accepts(shape):
                raise ValueError(f"'{self.name}' is {self._text()}, not {shape}")
            return shape
        if self.shape is None:
            raise ValueError(f"'{self.name}' has no declared shape: say shape=...")
        unknown = set(dims) - {size for size in self.shape if isinstance(size, str)}
        if unknown:
            raise ValueError(f"'{self.name}' is {self._text()}: it has no open dimension "
                             f"{', '.join(map(repr, sorted(unknown)))}")
        sizes = tuple(dims.get(size, size) if isinstance(size, str) else size
                      for size in self.shape)
        if not all(isinstance(size, int) for size in sizes):
            raise ValueError(f"'{self.name}' is {self._text()}: give its open dimensions a size, "
                             "here (batch=1 or shape=...) or when creating the session")
        return sizes

    def accepts(self, shape: Sequence[int]) -> bool:
        """Can it have this shape?"""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            not isinstance(mine, int) or mine == size for mine, size in zip(self.shape, shape))

    def _text(self):
        if self.shape is None:
            return f"{self.dtype} of any shape"
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype} ({sizes})"

    def __repr__(self):
        return f"TensorDesc({self.name!r}, {self._text()})"

    def __eq__(self, other):
        return isinstance(other, TensorDesc) and (
            (self.name, self.dtype, self.shape) == (other.name, other.dtype, other.shape))

    def __hash__(self):
        return hash((self.name, self.dtype, self.shape))


class Tensor:
    """An array that a model gave: NumPy takes it as it is, numpy() makes it one."""

    def __init__(self, name: str, dtype: str, shape: Sequence[int], data: bytearray) -> None:
        self.name, self.dtype, self.shape, self.data = name, dtype, tuple(shape), data

    def numpy(self) -> Any:
        """The values as a NumPy array, without copying."""
        numpy = _numpy()
        if numpy is None:
            raise ImportError("numpy() needs numpy, which is not installed; "
                              "tolist() and view() work without")
        if self.dtype not in _FORMATS:
            raise TypeError(f"NumPy has no type {self.dtype} ('{self.name}')")
        return numpy.frombuffer(self.data, self.dtype).reshape(self.shape)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def view(self) -> memoryview:
        """The values as a memoryview; bytes, where Python has no such type."""
        view, shape = memoryview(self.data), self.shape
        if self.dtype not in _FORMATS:
            return view
        view = view.cast(_FORMATS[self.dtype])
        # A view with a shape has at least one element.
        return view if len(shape) < 2 or 0 in shape else view.cast("B").cast(
            _FORMATS[self.dtype], shape)

    def tolist(self) -> Any:
        values = self.view().tolist()
        return values[0] if self.shape == () else values

    def __len__(self):
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __repr__(self):
        return f"Tensor({self.name!r}, {self.dtype}, {self.shape})"


def empty(desc: TensorDesc, shape: Optional[Sequence[int]] = None, **dims: int) -> Tensor:
    """An array of zeros for an input."""
    shape = desc.sizes(shape, **dims)
    size = math.prod(shape) * desc.bits // 8
    if not desc.bits:
        raise TypeError(f"'{desc.name}': arrays of {desc.dtype} cannot be made")
    return Tensor(desc.name, desc.dtype, shape, bytearray(size))


def zeros(desc: TensorDesc, shape: Optional[Sequence[int]] = None, **dims: int) -> Any:
    """An array of zeros for an input; of NumPy, if it is installed."""
    return _friendly(empty(desc, shape, **dims))


def rand(desc: TensorDesc, shape: Optional[Sequence[int]] = None, seed: Optional[int] = None,
         **dims: int) -> Any:
    """Random values that suit an input: images from 0 to 1, indices inside their table, ...

    Other ones each time, unless seed says which. Open dimensions get their size by name,
    rand(desc, batch=8), or from shape.
    """
    tensor = empty(desc, shape, **dims)
    if desc._session is None:
        raise ValueError(f"{desc!r} does not come from a session")
    pointer, keep = pointer_of(tensor, desc)
    if tensor.data:
        desc._session.random(desc._index, next(_seeds) if seed is None else seed, pointer)
    del keep
    return _friendly(tensor)


def _friendly(tensor):
    if _numpy() is None or tensor.dtype not in _FORMATS:
        return tensor
    return tensor.numpy()


# ---- from whatever the user has to addresses ----

def pointer_of(value, desc):
    """(dtype, shape, address, bytes) of a value for an input, and what keeps it alive."""
    numpy = _numpy()
    if isinstance(value, Tensor):
        pointer, keep = _of_buffer(value.data, value.dtype, value.shape)
    elif numpy is not None:
        pointer, keep = _of_numpy(numpy, value, desc)
    else:
        pointer, keep = _of_plain(value, desc)
    if not desc.accepts(pointer[1]):
        raise ValueError(f"'{desc.name}' is {desc._text()}, but the given one has shape "
                         f"{pointer[1]}")
    return pointer, keep


def _of_buffer(data, dtype, shape):
    size = len(data)
    keep = (ctypes.c_char * max(size, 1)).from_buffer(data if size else bytearray(1))
    return (dtype, tuple(shape), ctypes.addressof(keep), size), keep


def _of_numpy(numpy, value, desc):
    typed = hasattr(value, "dtype") or hasattr(value, "__array_interface__")
    if not typed:
        try:
            typed = bool(memoryview(value).format)
        except TypeError:
            typed = False
    try:
        array = numpy.asarray(value) if typed else numpy.asarray(value, desc.numpy_dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"'{desc.name}' is {desc._text()}: {error}") from None
    if array.dtype.hasobject or array.dtype.kind not in "fiubc":
        raise TypeError(f"'{desc.name}' is {desc._text()}, not an array of {array.dtype}")
    # ascontiguousarray() would make an array of a scalar.
    array = numpy.require(array, array.dtype.newbyteorder("="), "C").reshape(array.shape)
    return (array.dtype.name, array.shape, array.ctypes.data, array.nbytes), array


def _flatten(value, depth, shape, out):
    if not isinstance(value, (list, tuple)):
        if depth != len(shape):
            raise ValueError("lists of different depth")
        out.append(value)
        return
    if depth == len(shape):
        if out:
            raise ValueError("lists of different depth")
        shape.append(len(value))
    elif shape[depth] != len(value):
        raise ValueError("lists of different length")
    for item in value:
        _flatten(item, depth + 1, shape, out)


def _of_plain(value, desc):
    if isinstance(value, (list, tuple, int, float, bool)):
        if desc.dtype not in _FORMATS:
            raise TypeError(f"'{desc.name}' is {desc._text()}: Python has no such numbers")
        shape, flat = [], []
        try:
            _flatten(value, 0, shape, flat)
            data = bytearray(struct.pack(f"={len(flat)}{_FORMATS[desc.dtype]}", *flat))
        except (struct.error, ValueError) as error:
            raise ValueError(f"'{desc.name}' is {desc._text()}: {error}") from None
        return _of_buffer(data, desc.dtype, shape)
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"'{desc.name}': an array is needed, not {type(value).__name__}") from None
    dtype = _DTYPES.get(view.format)
    if dtype is None:
        raise TypeError(f"'{desc.name}': arrays of format {view.format!r} are not supported")
    return _of_buffer(bytearray(view.tobytes()), dtype, view.shape)
