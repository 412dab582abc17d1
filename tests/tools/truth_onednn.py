#!/usr/bin/env python3
"""truth_onednn.py -- executions and creations in a oneDNN verbose log, worked out without opmeter.

  truth_onednn.py FILE      CSV: category, primitive, count, total in ns
"""
import collections
import decimal
import re
import sys

LINE = re.compile(r"(?:mkldnn|dnnl|onednn)_verbose,(?:v\d+,)?(?:\d{9,}\.\d+,)?(?:primitive,|graph,)?"
                  r"(exec|create:cache_\w+|create),(?:(?:cpu|gpu)\w*,)?(\w+),.*,([0-9.e+-]+)\s*$")


def main():
    count, total = collections.Counter(), collections.Counter()
    for line in open(sys.argv[1], errors="replace"):
        match = LINE.search(line)
        if not match:
            continue
        key = ("create" if match[1].startswith("create") else "primitive", match[2])
        count[key] += 1
        total[key] += int((decimal.Decimal(match[3]) * 1000000).quantize(0, decimal.ROUND_HALF_UP))
    for key in sorted(count):
        print(*key, count[key], total[key], sep=",")


if __name__ == "__main__":
    main()
