#!/usr/bin/env python3
"""truth_xplane.py -- events of an XPlane file per plane and line, worked out without opmeter.

  truth_xplane.py FILE      CSV: plane, line, name, count, total in ns
"""
import collections
import sys

from pbwire import message


def entry(data):
    m = message(data)
    return m.get(1, [0])[0], message(m.get(2, [b""])[0])


def text(m, number):
    return m.get(number, [b""])[0].decode("utf-8", "replace")


def main():
    count, total = collections.Counter(), collections.Counter()
    for data in message(open(sys.argv[1], "rb").read()).get(1, ()):
        plane = message(data)
        names = {k: text(v, 4) or text(v, 2) for k, v in map(entry, plane.get(4, ()))}
        for line in map(message, plane.get(3, ())):
            base = line.get(3, [0])[0] * 1000
            for event in map(message, line.get(4, ())):
                if 5 in event:
                    continue
                start = base + event.get(2, [0])[0]
                end = start + event.get(3, [0])[0]
                key = text(plane, 2), text(line, 11) or text(line, 2), names.get(event.get(1, [0])[0], "")
                count[key] += 1
                total[key] += end // 1000 - start // 1000
    for key in sorted(count):
        print("|".join(key), count[key], total[key], sep="|")


if __name__ == "__main__":
    main()
