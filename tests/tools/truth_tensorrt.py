#!/usr/bin/env python3
"""truth_tensorrt.py -- what a JSON file of trtexec says, worked out without opmeter.

  truth_tensorrt.py FILE      names with count and total in ns, or layers with their tensors
"""
import collections
import decimal
import json
import sys


def ns(ms):
    return int((ms * 1000000).quantize(0, decimal.ROUND_HALF_UP))


def main():
    data = json.load(open(sys.argv[1]), parse_float=decimal.Decimal, parse_int=decimal.Decimal)
    if isinstance(data, dict):
        for layer in data["Layers"]:
            print(layer["Name"], len(layer["Inputs"]), len(layer["Outputs"]), sep="|")
        return
    count, total = collections.Counter(), collections.Counter()
    for entry in data:
        spans = [(entry["name"], ns(entry["averageMs"]))] if "averageMs" in entry else []
        if "startComputeMs" in entry:
            spans = [("compute", ns(entry["endComputeMs"]) - ns(entry["startComputeMs"])),
                     ("enqueue", ns(entry["endEnqMs"]) - ns(entry["startEnqMs"]))]
            if entry["h2dMs"]:
                spans.append(("host to device", ns(entry["endH2dMs"]) - ns(entry["startH2dMs"])))
            if entry["d2hMs"]:
                spans.append(("device to host", ns(entry["endD2hMs"]) - ns(entry["startD2hMs"])))
        for name, dur in spans:
            count[name] += 1
            total[name] += dur
    for name in sorted(count):
        print(name, count[name], total[name], sep="|")


if __name__ == "__main__":
    main()
