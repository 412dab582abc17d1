"""parquet.py -- read Parquet files as the format's document has them; of zstd, the system's library. Only what
flat tables of numbers and texts need: pages of version 1, dictionaries, plain values and differences."""
import ctypes
import ctypes.util
import struct

TYPES = {2: "int", 5: "real", 6: "text"}


def unzstd(data, size):
    lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    lib.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(size or 1)
    if lib.ZSTD_decompress(out, size, data, len(data)) != size:
        raise ValueError("a page that is not as long as it says")
    return out.raw[:size]


class Bytes:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError("ends too early")
        self.at += n
        return self.data[self.at - n:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    # -- thrift's compact protocol: a struct is a dict by field number --

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return struct.unpack("b", self.take(1))[0]
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            return struct.unpack("<d", self.take(8))[0]
        if kind == 8:
            return self.take(self.varint())
        if kind in (9, 10):
            head = self.take(1)[0]
            n = self.varint() if head >> 4 == 15 else head >> 4
            return [self.value(head & 15) for _ in range(n)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"thrift type {kind}")

    def struct(self):
        fields, last = {}, 0
        while True:
            head = self.take(1)[0]
            if head & 15 == 0:
                return fields
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            fields[last] = self.value(head & 15)

    # -- encodings --

    def packed(self, n, width, padded):
        """n numbers of `width` bits, and the rest of the `padded` ones that are there."""
        bits = int.from_bytes(self.take(padded * width // 8), "little")
        return [bits >> i * width & (1 << width) - 1 for i in range(n)]

    def hybrid(self, n, width):
        out = []
        while len(out) < n:
            head = self.varint()
            if head & 1:
                out += self.packed((head >> 1) * 8, width, (head >> 1) * 8)
            else:
                out += [int.from_bytes(self.take((width + 7) // 8), "little")] * (head >> 1)
        return out[:n]

    def delta(self, n):
        block, minis, total = self.varint(), self.varint(), self.varint()
        out = [self.zigzag()]
        if total != n:
            raise ValueError("another number of differences")
        while len(out) < n:
            least, widths = self.zigzag(), self.take(minis)
            for width in widths:
                size = block // minis
                if len(out) >= n:
                    break
                for add in self.packed(size, width, size)[:n - len(out)]:
                    out.append((out[-1] + least + add + (1 << 63)) % (1 << 64) - (1 << 63))
        return out

    def plain(self, n, kind):
        if kind == "text":
            return [self.take(struct.unpack("<I", self.take(4))[0]).decode("utf-8") for _ in range(n)]
        return list(struct.unpack(f"<{n}{'q' if kind == 'int' else 'd'}", self.take(8 * n)))


def column(data, meta, kind, seen):
    """All values of a column chunk, None where there is none."""
    out, dictionary = [], None
    at = meta.get(11) or meta[9]
    while len(out) < meta[5]:
        source = Bytes(data, at)
        head = source.struct()
        page = Bytes(unzstd(source.take(head[3]), head[2]))
        at = source.at
        if head[1] == 2:
            dictionary = page.plain(head[7][1], kind)
            continue
        n, encoding = head[5][1], head[5][2]
        levels = Bytes(page.take(struct.unpack("<I", page.take(4))[0])).hybrid(n, 1)
        there = sum(levels)
        seen.add(encoding)
        if encoding == 8:
            width = page.take(1)[0]
            values = [dictionary[i] for i in page.hybrid(there, width)]
        elif encoding == 5:
            values = page.delta(there) if there else []
        elif encoding == 0:
            values = page.plain(there, kind)
        else:
            raise ValueError(f"encoding {encoding}")
        if page.at != len(page.data):
            raise ValueError("bytes behind the values of a page")
        values = iter(values)
        out += [next(values) if level else None for level in levels]
    if at != (meta.get(11) or meta[9]) + meta[7]:
        raise ValueError("a column chunk that does not end where it says")
    return out


def read(path):
    """Columns by name, and what the footer and the pages are like."""
    data = path.read_bytes()
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ValueError("no Parquet file")
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = Bytes(data[-8 - size:-8]).struct()
    schema = [(e[4].decode(), TYPES[e[1]], e[3]) for e in footer[2][1:]]
    columns, seen, wrong = {name: [] for name, _, _ in schema}, set(), []
    for group in footer.get(4, []):
        for (name, kind, _), chunk in zip(schema, group[1]):
            meta = chunk[3]
            if meta[3] != [name.encode()]:
                wrong.append(f"{name}: the chunk is of {meta[3]}")
            values = column(data, meta, kind, seen)
            columns[name] += values
            wrong += [f"{name}: {e}" for e in statistics(values, kind, meta.get(12, {}))]
        if any(len(columns[name]) != len(columns[schema[0][0]]) for name in columns):
            wrong.append("columns of different lengths")
        for order in group.get(4, []):
            name = schema[order[1]][0]
            part = columns[name][-group[3]:]
            if part != sorted(part):
                wrong.append(f"{name}: said to be sorted")
    if footer[3] != len(columns[schema[0][0]]):
        wrong.append(f"{footer[3]} rows, by the footer")
    facts = {f[1].decode(): f[2].decode() for f in footer.get(5, [])}
    return columns, {"schema": schema, "groups": len(footer.get(4, [])), "encodings": seen, "wrong": wrong, "facts": facts}


def statistics(values, kind, said):
    there = [v.encode() if kind == "text" else v for v in values if v is not None]
    if said.get(3) != len(values) - len(there):
        yield f"{said.get(3)} NULLs are said"
    if 5 not in said:
        if there and not (kind == "text" and max(map(len, there)) > 128):
            yield "no limits"
        return
    least, greatest = ((said[6], said[5]) if kind == "text" else
                       struct.unpack("<qq" if kind == "int" else "<dd", said[6] + said[5]))
    if least != min(there) or greatest != max(there):
        yield f"limits {least!r} and {greatest!r}, of {min(there)!r} to {max(there)!r}"
