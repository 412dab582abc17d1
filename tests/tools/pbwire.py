"""pbwire.py -- protobuf wire format, for tools that make files or check what opmeter made of them.

fields(data) gives (number, wire, value) of a message; values are ints, or bytes for wire type 2.
number() and block() give a field of a message, put_varint() a number alone.
"""
import struct


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value = struct.unpack_from("<Q", data, at)[0]
            at += 8
        elif wire == 2:
            size, at = varint(data, at)
            value = data[at:at + size]
            if len(value) < size:
                raise ValueError("cut off")
            at += size
        elif wire == 5:
            value = struct.unpack_from("<I", data, at)[0]
            at += 4
        else:
            raise ValueError(f"wire type {wire}")
        yield key >> 3, wire, value


def message(data):
    """All fields by number: lists of values."""
    out = {}
    for number, _, value in fields(data):
        out.setdefault(number, []).append(value)
    return out


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def double(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def packed(values, fixed=False):
    """Repeated numbers, whether they were packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            if fixed:
                yield struct.unpack_from("<Q", value, at)[0]
                at += 8
            else:
                number, at = varint(value, at)
                yield number


def put_varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return put_varint(field << 3) + put_varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return put_varint(field << 3 | 2) + put_varint(len(data)) + data
