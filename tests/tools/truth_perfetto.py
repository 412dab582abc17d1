#!/usr/bin/env python3
"""truth_perfetto.py -- what a Perfetto trace says, worked out without opmeter.

  truth_perfetto.py FILE      names with how many spans and ns in all, samples per counter, arrows

Prints CSV lines: span,NAME,COUNT,TOTAL_NS / sample,COUNT,SUM / flow,COUNT. Clocks are not converted: durations
do not need it.
"""
import collections
import sys
import zlib

from pbwire import double, fields, message, packed, signed


def packets(data):
    for number, wire, value in fields(data):
        if number != 1 or wire != 2:
            continue
        m = message(value)
        if 50 in m:
            yield from packets(zlib.decompress(m[50][0]))
        else:
            yield m


class Sequence:
    def __init__(self):
        self.clear()

    def clear(self):
        self.names = {}
        self.track = 0
        self.extra, self.extra_double = [], []
        self.counter = collections.Counter()


def main():
    data = open(sys.argv[1], "rb").read()
    sequences = collections.defaultdict(Sequence)
    tracks, counters = {}, {}
    for m in packets(data):
        for d in m.get(60, ()):
            t = message(d)
            tracks[t.get(1, [0])[0]] = t
            if 8 in t:
                c = message(t[8][0])
                counters[t[1][0]] = (c.get(4, [1])[0], bool(c.get(5, [0])[0]))
    events = []
    samples = []
    flows = collections.defaultdict(list)
    about = {u for u, t in tracks.items() if t.get(2) == [b"about this trace"] and 5 not in t}

    def sample(seq, uuid, value, integer):
        unit, incremental = counters.get(uuid, (1, False))
        if integer and incremental:
            seq.counter[uuid] += value
            value = seq.counter[uuid]
        samples.append(value * unit)

    for order, m in enumerate(packets(data)):
        seq = sequences[m.get(10, [0])[0]]
        if m.get(41, [0])[0] or m.get(13, [0])[0] & 1:
            seq.clear()
        for d in m.get(12, ()):
            for number, _, value in fields(d):
                if number == 2:
                    n = message(value)
                    seq.names[n[1][0]] = n[2][0].decode("utf-8", "replace")
        for d in m.get(59, ()):
            seq.track, seq.extra, seq.extra_double = 0, [], []
            for e in message(d).get(11, ()):
                e = message(e)
                seq.track = e.get(11, [0])[0]
                seq.extra = list(packed(e.get(31, ())))
                seq.extra_double = list(packed(e.get(45, ())))
        for d in m.get(11, ()):
            e = message(d)
            ts = m.get(8, [0])[0]
            uuid = e.get(11, [seq.track])[0]
            kind = e.get(9, [0])[0]
            name = e[23][0].decode("utf-8", "replace") if 23 in e else seq.names.get(e.get(10, [None])[0], "")
            legacy = message(e[6][0]) if 6 in e else {}
            lane = ("track", uuid)
            dur = None
            for track, value in zip(list(packed(e.get(31, ()))) or seq.extra, packed(e.get(12, ()))):
                sample(seq, track, signed(value), True)
            for track, value in zip(list(packed(e.get(45, ()))) or seq.extra_double, packed(e.get(46, ()), True)):
                sample(seq, track, double(value), False)
            if kind == 4:
                if 30 in e:
                    sample(seq, uuid, signed(e[30][0]), True)
                elif 44 in e:
                    sample(seq, uuid, double(e[44][0]), False)
                continue
            if kind == 0:
                phase = chr(legacy.get(2, [0])[0])
                kind = {"B": 1, "S": 1, "b": 1, "E": 2, "F": 2, "e": 2, "i": 3, "I": 3, "R": 3, "X": 3, "T": 3,
                        "p": 3, "n": 3}.get(phase, 0)
                if phase in "SFTpben":
                    lane = ("async", tuple(e.get(22, ())), tuple(legacy.get(i, [0])[0] for i in (6, 10, 11)))
                if phase in "Tp":
                    for a in e.get(4, ()):
                        a = message(a)
                        if a.get(10) == [b"step"]:
                            name += ":" + a[6][0].decode()
                if phase == "X":
                    dur = legacy.get(3, [0])[0] * 1000
            if 18 in legacy or 19 in legacy:
                lane = ("thread", legacy.get(18, [0])[0], legacy.get(19, [0])[0])
            if kind == 0 or uuid in about:
                continue
            ids = [(i, "step") for i in packed(e.get(47, ()), True)] + [(i, "end") for i in packed(e.get(48, ()), True)]
            direction = legacy.get(13, [0])[0]
            if direction:
                ids.append((("bind", legacy[8][0]), [None, "in", "out", "step"][direction]))
            events.append((lane, ts, order, kind, name, dur, ids))

    total, count = collections.Counter(), collections.Counter()
    events.sort(key=lambda e: (str(e[0]), e[1], e[2]))
    stack, last, span_id = [], None, 0

    def done(name, dur, span, ids, ts, order):
        count[name] += 1
        total[name] += dur
        for i, mode in ids:
            flows[i].append((ts, order, span, mode))

    open_flows = []
    for lane, ts, order, kind, name, dur, ids in events:
        if lane != last:
            for s in stack:
                done(s[0], 0, s[2], [], 0, 0)
            stack, last = [], lane
        if kind == 1:
            span_id += 1
            stack.append((name, ts, span_id))
            open_flows += [(i, ts, order, span_id, mode) for i, mode in ids]
        elif kind == 2 and stack:
            s = stack.pop()
            done(s[0], ts - s[1], s[2], [], 0, 0)
            open_flows += [(i, ts, order, s[2], mode) for i, mode in ids]
        elif kind == 3:
            span_id += 1
            done(name, dur or 0, span_id, [], 0, 0)
            open_flows += [(i, ts, order, span_id, mode) for i, mode in ids]
    for s in stack:
        done(s[0], 0, s[2], [], 0, 0)
    for i, ts, order, span, mode in open_flows:
        flows[i].append((ts, order, span, mode))
    arrows = 0
    for chain in flows.values():
        source = None
        for _, _, span, mode in sorted(chain):
            if mode != "out" and source not in (None, span):
                arrows += 1
            source = None if mode == "end" else source if mode == "in" else span
    for name in sorted(count):
        print(f"span,{name},{count[name]},{total[name]}")
    if samples:
        print(f"sample,{len(samples)},{sum(samples):.3f}")
    print(f"flow,{arrows}")


if __name__ == "__main__":
    main()
