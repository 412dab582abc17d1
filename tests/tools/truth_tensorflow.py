#!/usr/bin/env python3
"""truth_tensorflow.py -- nodes of a StepStats or RunMetadata file, worked out without opmeter.

  truth_tensorflow.py FILE [run]      CSV: device, node, start in ns since 1970, duration in ns
"""
import sys

from pbwire import message, signed


def main():
    data = open(sys.argv[1], "rb").read()
    if len(sys.argv) > 2:
        data = message(data)[1][0]
    devices = [message(d) for d in message(data).get(1, ())]
    single = any(b"stream:" in d[1][0] and d[1][0].split(b"stream:")[1][:1].isdigit() for d in devices)
    for device in devices:
        name = device[1][0].decode()
        if single and "stream:all" in name:
            continue
        for node in map(message, device.get(2, ())):
            start = signed(node.get(13, [0])[0]) or signed(node.get(2, [0])[0]) * 1000
            end = signed(node.get(16, [0])[0]) or signed(node.get(5, [0])[0]) * 1000
            print(name, node[1][0].decode(), start, end, sep=",")


if __name__ == "__main__":
    main()
