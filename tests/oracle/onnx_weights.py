"""onnx_weights.py -- the weights of an ONNX file by name, as numpy arrays. Knows as much of protobuf
and of onnx.proto as that takes."""
import numpy

TYPES = {1: numpy.float32, 2: numpy.uint8, 3: numpy.int8, 6: numpy.int32, 7: numpy.int64,
         10: numpy.float16, 11: numpy.float64}
GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW = 1, 2, 8, 9


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a message; value is an integer or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            length = 8 if key & 7 == 1 else 4
            value, at = data[at:at + length], at + length
        yield key >> 3, value


def tensor(data):
    dims, kind, name, raw = [], 0, "", b""
    for number, value in fields(data):
        if number == DIMS:
            dims.append(value)
        elif number == DATA_TYPE:
            kind = value
        elif number == NAME:
            name = bytes(value).decode()
        elif number == RAW:
            raw = value
    return name, numpy.frombuffer(raw, TYPES[kind]).reshape(dims)


def weights(path):
    data = memoryview(path.read_bytes())
    graph = next(value for number, value in fields(data) if number == GRAPH)
    return dict(tensor(value) for number, value in fields(graph) if number == INITIALIZER)
