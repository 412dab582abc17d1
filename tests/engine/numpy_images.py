"""Families of check_numpy.py: picture files, written here bit by bit, for ImageDecoder."""
import base64
import pathlib
import struct
import sys
import zlib

import numpy as np

from ops_cases import Case, c

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from loadable import loads  # noqa: E402

RNG = np.random.default_rng(31)


def picture(height, width, channels=3):
    """Smooth with some noise, so that every filter has something to do."""
    y, x = np.mgrid[:height, :width]
    planes = [(x * (3 + k) + y * (7 - k) + RNG.integers(0, 9, (height, width))) % 256 for k in range(channels)]
    return np.stack(planes, -1).astype(np.uint8)


def luma(rgb):
    return ((rgb @ np.array([19595, 38470, 7471]) + 32768) >> 16).astype(np.uint8)[..., None]


def case(data, rgb, pixel_format="RGB", constant=False):
    data = np.frombuffer(data, np.uint8)
    want = rgb if pixel_format == "RGB" else rgb[..., ::-1] if pixel_format == "BGR" else luma(rgb.astype(int))
    return Case("ImageDecoder", "", [c(data) if constant else data], opset=20, pixel_format=pixel_format), [want]


# -- PNG --

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_bits(samples, depth):
    """Rows of samples as rows of bytes."""
    if depth == 16:
        return np.stack([samples >> 8, samples & 255], -1).reshape(len(samples), -1).astype(np.uint8)
    if depth == 8:
        return samples.astype(np.uint8)
    bit = (samples[..., None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bit.reshape(len(samples), -1).astype(np.uint8), axis=1)


def filtered(rows, step):
    """Every row by another filter."""
    out, above = b"", np.zeros(rows.shape[1], int)
    for i, row in enumerate(rows.astype(int)):
        left, corner = (np.concatenate([np.zeros(step, int), r[:-step]])[:len(row)] for r in (row, above))
        p = left + above - corner
        near = np.stack([abs(p - left), abs(p - above), abs(p - corner)])
        guess = np.choose(near.argmin(0), [left, above, corner])
        told = [0, left, above, (left + above) // 2, guess][i % 5]
        out += bytes([i % 5]) + ((row - told) % 256).astype(np.uint8).tobytes()
        above = row
    return out


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(samples, depth, colour, interlaced=False, palette=None, pieces=1):
    height, width, n = samples.shape
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    raw = b"".join(filtered(pack_bits(p.reshape(p.shape[0], -1), depth), max(n * depth // 8, 1)) for p in parts if p.size)
    raw = zlib.compress(raw)
    cut = [raw[i * len(raw) // pieces:(i + 1) * len(raw) // pieces] for i in range(pieces)]
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)) +
            chunk(b"tEXt", b"Title\0x") + (chunk(b"PLTE", palette.tobytes()) if palette is not None else b"") +
            b"".join(chunk(b"IDAT", p) for p in cut) + chunk(b"IEND", b""))


def pngs():
    for (height, width), interlaced in (((9, 14), False), ((13, 11), True), ((1, 1), True), ((3, 2), True), ((40, 5), False)):
        rgb = picture(height, width)
        for pixel_format in ("RGB", "BGR", "Grayscale"):
            yield case(png(rgb.astype(int), 8, 2, interlaced, pieces=3), rgb, pixel_format)
        alpha = RNG.integers(0, 256, (height, width, 1))
        yield case(png(np.concatenate([rgb, alpha], -1).astype(int), 8, 6, interlaced), rgb, constant=True)
        deep = rgb.astype(int) * 256 + RNG.integers(0, 256, rgb.shape)
        yield case(png(deep, 16, 2, interlaced), rgb)
        yield case(png(np.concatenate([deep, alpha], -1), 16, 6, interlaced), rgb)
        for depth in (1, 2, 4, 8, 16):
            top = 2 ** depth - 1
            gray = RNG.integers(0, top + 1, (height, width, 1))
            byte = gray >> 8 if depth == 16 else gray * 255 // top
            yield case(png(gray, depth, 0, interlaced), np.repeat(byte, 3, -1).astype(np.uint8))
            if depth >= 8:
                yield case(png(np.concatenate([gray, gray ^ 5], -1), depth, 4, interlaced), np.repeat(byte, 3, -1).astype(np.uint8))
            if depth <= 8:
                palette = RNG.integers(0, 256, (top + 1, 3)).astype(np.uint8)
                yield case(png(gray, depth, 3, interlaced, palette), palette[gray[..., 0]], "BGR")


# -- BMP, PNM, TIFF --

def bmp(width, height, bits, rows, packing=0, palette=b"", masks=b"", size=40):
    head = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, packing, len(rows), 0, 0, len(palette) // 4, 0)
    at = 14 + len(head) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + head + masks + palette + rows


def bmp_rows(rows):
    return b"".join(r.tobytes() + b"\0" * (-len(r.tobytes()) % 4) for r in rows)


def bmps():
    rgb = picture(7, 13)
    yield case(bmp(13, 7, 24, bmp_rows(rgb[::-1, :, ::-1])), rgb)
    yield case(bmp(13, -7, 24, bmp_rows(rgb[:, :, ::-1])), rgb, "Grayscale")
    four = np.concatenate([rgb[..., ::-1], np.full((7, 13, 1), 9, np.uint8)], -1)
    yield case(bmp(13, 7, 32, bmp_rows(four[::-1])), rgb)
    masks = struct.pack("<III", 0xff, 0xff00, 0xff0000)
    yield case(bmp(13, 7, 32, bmp_rows(four[::-1, :, [2, 1, 0, 3]]), 3, masks=masks), rgb)
    five = rgb >> np.array([3, 2, 3], np.uint8)
    word = (five[..., 0].astype("<u2") << 11 | five[..., 1].astype("<u2") << 5 | five[..., 2]).astype("<u2")
    want = (five * np.array([255, 255, 255]) // np.array([31, 63, 31])).astype(np.uint8)
    yield case(bmp(13, 7, 16, bmp_rows(word[::-1]), 3, masks=struct.pack("<III", 0xf800, 0x7e0, 0x1f)), want)
    for bits in (1, 4, 8):
        palette = RNG.integers(0, 256, (2 ** bits, 4)).astype(np.uint8)
        index = RNG.integers(0, 2 ** bits, (7, 13))
        want = palette[index][..., 2::-1]
        yield case(bmp(13, 7, bits, bmp_rows(pack_bits(index[::-1], bits)), palette=palette.tobytes()), want, "BGR")
    # Runs, literals with padding, the end of a line, a jump, the end.
    palette = RNG.integers(0, 256, (16, 4)).astype(np.uint8)
    index = np.zeros((4, 10), int)
    index[0, :6], index[0, 6:9] = 3, (1, 2, 4)
    index[1, :4] = (7, 5, 7, 5)
    index[3, 2:] = 9
    rows = b"\x06\x03\x00\x03\x01\x02\x04\x00\x00\x00" + b"\x00\x04\x07\x05\x07\x05\x00\x00" + b"\x00\x02\x02\x01" + b"\x08\x09\x00\x01"
    yield case(bmp(10, 4, 8, rows, 1, palette.tobytes()), palette[index[::-1]][..., 2::-1])
    rows = b"\x06\x33\x00\x03\x12\x40\x00\x00" + b"\x04\x75\x00\x00" + b"\x00\x02\x02\x01" + b"\x08\x99\x00\x01"
    yield case(bmp(10, 4, 4, rows, 2, palette.tobytes()), palette[index[::-1]][..., 2::-1])


def pnms():
    rgb, gray = picture(5, 9), picture(5, 9, 1)
    threes = np.repeat(gray, 3, -1)
    yield case(b"P6\n# a remark\n9 5\n255\n" + rgb.tobytes(), rgb)
    yield case(b"P6 9 5 255 " + rgb.tobytes(), rgb, "BGR")
    yield case(b"P5\n9 5\n255\n" + gray.tobytes(), threes)
    yield case(b"P5\n9 5\n255\n" + gray.tobytes(), threes, "Grayscale")[0], [gray]
    few = gray // 16
    yield case(b"P5\n9 5\n15\n" + few.tobytes(), np.repeat(few * 17, 3, -1))
    yield case(b"P5\n9 5\n65535\n" + (gray.astype(">u2") * 257).tobytes(), threes)
    yield case(("P3\n9 5\n255\n" + "\n".join(map(str, rgb.flatten()))).encode(), rgb)
    yield case(("P2\n9 5 255 " + " ".join(map(str, gray.flatten()))).encode(), threes)
    bit = RNG.integers(0, 2, (5, 9))
    want = np.repeat(((1 - bit) * 255).astype(np.uint8)[..., None], 3, -1)
    yield case(b"P4\n9 5\n" + np.packbits(bit.astype(np.uint8), axis=1).tobytes(), want)
    yield case(("P1\n9 5\n" + "".join(map(str, bit.flatten()))).encode(), want)


def tiff(samples, order="<", packed=False, rows=3):
    height, width, n = samples.shape
    strips = [samples[i:i + rows].tobytes() for i in range(0, height, rows)]
    strips = [zlib.compress(s) if packed else s for s in strips]
    data, at, where = b"", 8, []
    for s in strips:
        where.append(at + len(data))
        data += s
    data += b"\0" * (len(data) % 2)
    extra = at + len(data)
    depth = struct.pack(order + f"{n}H", *[8] * n) if n > 2 else b""
    lists = depth + struct.pack(order + f"{len(where)}I", *where) + struct.pack(order + f"{len(strips)}I", *map(len, strips))
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, n, extra if n > 2 else 8), (259, 3, 1, 8 if packed else 1),
            (262, 3, 1, 2 if n > 1 else 1), (273, 4, len(where), extra + len(depth)), (277, 3, 1, n), (278, 4, 1, rows),
            (279, 4, len(strips), extra + len(depth) + 4 * len(where))]
    entries = b"".join(struct.pack(order + "HHI", t, kind, count) + (struct.pack(order + "HH", v, 0) if kind == 3 and count == 1 else struct.pack(order + "I", v))
                       for t, kind, count, v in tags)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", extra + len(lists))
    return head + data + lists + struct.pack(order + "H", len(tags)) + entries + b"\0\0\0\0"


def tiffs():
    rgb, gray = picture(8, 11), picture(9, 6, 1)
    yield case(tiff(rgb), rgb)
    yield case(tiff(rgb, ">", True), rgb, "BGR")
    yield case(tiff(gray, packed=True), np.repeat(gray, 3, -1))
    yield case(tiff(rgb, rows=1), rgb, "Grayscale")


# -- WebP without loss: all prefix codes have eight bits --

class Bits:
    def __init__(self):
        self.value = self.n = 0

    def put(self, value, n):
        self.value |= value << self.n
        self.n += n

    def code(self, value):
        self.put(int(f"{value:08b}"[::-1], 2), 8)

    def bytes(self):
        return self.value.to_bytes((self.n + 7) // 8, "little")


def webp(rgb):
    b = Bits()
    b.put(0x2f, 8)
    b.put(rgb.shape[1] - 1, 14)
    b.put(rgb.shape[0] - 1, 14)
    b.put(0, 1 + 3 + 1 + 1 + 1)  # alpha, version; transforms, cache, several codes: none
    lengths = (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8)
    for extra in (24, 0, 0):  # green with 24 lengths of copies, which have no code; red; blue
        b.put(0, 1)
        b.put(len(lengths) - 4, 4)
        for kind in lengths:
            b.put(int(kind == 8 or (extra and kind == 0)), 3)
        b.put(0, 1)
        if extra:
            b.put((1 << 256) - 1, 256)
            b.put(0, extra)
    for value in (255, 0):  # opacity, distances: one symbol
        b.put(1, 1)
        b.put(0, 1)
        b.put(1, 1)
        b.put(value, 8)
    for r, g, bl in rgb.reshape(-1, 3).tolist():
        b.code(g)
        b.code(r)
        b.code(bl)
    data = b.bytes()
    chunk_ = b"VP8L" + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunk_)) + b"WEBP" + chunk_


def webps():
    for shape in ((6, 9), (1, 1), (33, 20)):
        rgb = picture(*shape)
        yield case(webp(rgb), rgb)
    yield case(webp(rgb), rgb, "Grayscale")


# -- JPEG: blocks of 8 x 8 that have one colour each, where the transform gives whole numbers --

def dc_bits(difference):
    size = int(abs(difference)).bit_length()
    extra = difference if difference > 0 else difference + (1 << size) - 1
    return f"{size:04b}" + (f"{extra:0{size}b}" if size else "") + "0"


def jpeg(planes, factors, height, width):
    """planes: a number from -128 to 127 for each block; factors: (across, down) of each."""
    def segment(kind, data):
        return bytes([0xff, kind]) + struct.pack(">H", len(data) + 2) + data

    n = len(planes)
    parts = b"".join(bytes([i + 1, h << 4 | v, 0]) for i, (h, v) in enumerate(factors))
    # Differences by size, a code of four bits each; of the rest only "end of block".
    tables = bytes([0, 0, 0, 0, 12] + [0] * 12) + bytes(range(12)) + bytes([0x10, 1] + [0] * 15) + b"\0"
    head = (b"\xff\xd8" + segment(0xe0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + segment(0xdb, b"\0" + bytes([8] * 64)) +
            segment(0xc0, struct.pack(">BHHB", 8, height, width, n) + parts) + segment(0xc4, tables) +
            segment(0xda, bytes([n]) + b"".join(bytes([i + 1, 0]) for i in range(n)) + b"\0\x3f\0"))
    last, text = [0] * n, ""
    down = planes[0].shape[0] // factors[0][1] if n > 1 else planes[0].shape[0]
    across = planes[0].shape[1] // factors[0][0] if n > 1 else planes[0].shape[1]
    for y in range(down):
        for x in range(across):
            for k, (h, v) in enumerate(factors if n > 1 else [(1, 1)]):
                for dy in range(v):
                    for dx in range(h):
                        value = int(planes[k][y * v + dy, x * h + dx])
                        text += dc_bits(value - last[k])
                        last[k] = value
    text += "1" * (-len(text) % 8)
    data = bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
    return head + data.replace(b"\xff", b"\xff\0") + b"\xff\xd9"


def smooth(plane, axis):
    """ONNX's words: quarters of the neighbour, three quarters of the pixel; .5 down and up by turns."""
    before = np.concatenate([plane.take([0], axis), plane], axis).take(range(plane.shape[axis]), axis)
    after = np.concatenate([plane, plane.take([-1], axis)], axis).take(range(1, plane.shape[axis] + 1), axis)
    out = np.stack([before + 3 * plane, after + 3 * plane], axis + 1)
    shape = list(plane.shape)
    shape[axis] *= 2
    return out.reshape(shape)


def colours(y, cb, cr):
    y, cb, cr = (p.astype(float) for p in (y, cb - 128, cr - 128))
    rgb = np.stack([y + 1.402 * cr, y - .34414 * cb - .71414 * cr, y + 1.772 * cb], -1)
    return np.clip(np.floor(rgb + .5), 0, 255).astype(np.uint8)


def jpegs():
    def blocks(h, w, low=-100, high=100):
        return RNG.integers(low, high, (h, w))

    def wide(plane):
        return np.repeat(np.repeat(plane + 128, 8, 0), 8, 1)

    gray = blocks(3, 4)
    want = np.repeat(wide(gray)[:21, :30, None], 3, -1).astype(np.uint8)
    yield case(jpeg([gray], [(1, 1)], 21, 30), want)
    yield case(jpeg([gray], [(1, 1)], 21, 30), want, "Grayscale")
    y, cb, cr = blocks(2, 3), blocks(2, 3, -40, 40), blocks(2, 3, -40, 40)
    want = colours(wide(y), wide(cb), wide(cr))[:15, :23]
    for pixel_format in ("RGB", "BGR", "Grayscale"):
        yield case(jpeg([y, cb, cr], [(1, 1)] * 3, 15, 23), want, pixel_format)
    y, cb, cr = blocks(2, 4), blocks(2, 2, -40, 40), blocks(2, 2, -40, 40)
    odd = np.arange(32) % 2
    want = colours(wide(y), *[(smooth(wide(p), 1) + 1 + odd) >> 2 for p in (cb, cr)])
    yield case(jpeg([y, cb, cr], [(2, 1), (1, 1), (1, 1)], 16, 32), want)
    y = blocks(4, 4)
    want = colours(wide(y), *[(smooth(smooth(wide(p), 0), 1) + 8 - odd) >> 4 for p in (cb, cr)])
    yield case(jpeg([y, cb, cr], [(2, 2), (1, 1), (1, 1)], 32, 32), want)


# 6 x 5 pixels of (x * 40, y * 60, 7 * (x + y)), packed without loss by OpenJPEG's opj_compress.
JPEG_2000 = {
    "jp2": """
AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAAAtanAyaAAAABZpaGRyAAAABQAAAAYAAwcHAAAAAAAPY29scgEAAAAAABAAAADUanAyY/9P/1EA
LwAAAAAABgAAAAUAAAAAAAAAAAAAAAYAAAAFAAAAAAAAAAAAAwcBAQcBAQcBAf9SAAwAAAABAQEEBAAB/1wAB0BASEhQ/2QAJQABQ3JlYXRlZCBieSBPcGVu
SlBFRyB2ZXJzaW9uIDIuNS4w/5AACgAAAAAAWQAB/5PfgFgGn9N+elqnPAkCf9+AWA470v0C+EtHRSx734BgDiu8rZti0HkWyuA/wPkCwBFACIAVjCfg6wt/
Cr/AfCGAFYt/w+oEABWSnbv/2Q==""",
    "j2k": """
/0//UQAvAAAAAAAGAAAABQAAAAAAAAAAAAAABgAAAAUAAAAAAAAAAAADBwEBBwEBBwEB/1IADAAAAAEBAQQEAAH/XAAHQEBISFD/ZAAlAAFDcmVhdGVkIGJ5
IE9wZW5KUEVHIHZlcnNpb24gMi41LjD/kAAKAAAAAABZAAH/k9+AWAaf0356Wqc8CQJ/34BYDjvS/QL4S0dFLHvfgGAOK7ytm2LQeRbK4D/A+QLAEUAIgBWM
J+DrC38Kv8B8IYAVi3/D6gQAFZKdu//Z""",
}


def jpeg2000s():
    y, x = np.mgrid[:5, :6]
    rgb = np.stack([x * 40, y * 60, 7 * (x + y)], -1).astype(np.uint8)
    for text in JPEG_2000.values():
        yield case(base64.b64decode(text), rgb)
        yield case(base64.b64decode(text), rgb, "BGR")


# -- what is no picture gives an empty one --

def nothing():
    good = png(picture(5, 6).astype(int), 8, 2)
    broken = [b"", b"P", b"GIF89a and more", good[:40], good[:-20], good.replace(b"IDAT", b"IDAX"), b"\x89PNG\r\n\x1a\n",
              bmp(13, 7, 24, b"\0" * 100), bmp(0, 7, 24, b""), bmp(5, 5, 17, b"\0" * 99), b"BM", b"P6\n9 5\n255\n123",
              b"P5\n0 5\n255\n", b"P2\n2 2\n255\n1 2 x 4", b"P9\n1 1\n255\n1"]
    for data in broken:
        yield case(data, np.zeros((0, 0, 3), np.uint8))
    yield case(good[:40], np.zeros((0, 0, 3), int), "Grayscale")
    for data, family in ((b"\xff\xd8\xff\xe0", jpegs), (b"RIFF\0\0\0\0WEBPVP8L", webps), (b"II*\0\x08\0\0\0", tiffs),
                         (b"\xff\x4f\xff\x51\0", jpeg2000s)):
        if there(*LIBRARIES[family]):
            yield case(data, np.zeros((0, 0, 3), np.uint8))


def there(*names):
    """A library is on this machine, by any of its names, and the program under test can load it."""
    return names == (None,) or any(loads(sys.argv[1], name) for name in names)


LIBRARIES = {tiffs: ("libtiff.so.6", "libtiff.so.5"), webps: ("libwebp.so.7", "libwebp.so.6"), jpegs: ("libturbojpeg.so.0",),
             jpeg2000s: ("libopenjp2.so.7",)}
FAMILIES = {family: 20 for family in (pngs, bmps, pnms, tiffs, webps, jpegs, jpeg2000s, nothing) if there(*LIBRARIES.get(family, [None]))}
