#!/usr/bin/python3
"""check_chrome.py FILE -- is this a Chrome trace that every viewer shows rightly?

Strict JSON in UTF-8; times with exactly three decimals; slices of a thread nest; every B has its E
or says that it never ended; every arrow has both ends, each inside a slice. Prints what the file
holds; complaints go to stderr and make the exit status 1.
"""

import collections
import json
import re
import sys

US = re.compile(r"-?\d+\.\d{3}$")
MAX_COMPLAINTS = 20


class Number(str):
    """A number as it stands in the file."""


class Checker:
    def __init__(self):
        self.bad = 0
        self.counts = collections.Counter()

    def complain(self, what):
        self.bad += 1
        if self.bad <= MAX_COMPLAINTS:
            print(what, file=sys.stderr)

    def ns(self, event, key):
        value = event.get(key)
        if not isinstance(value, Number) or not US.match(value):
            self.complain(f"{key} is {value!r}, not microseconds with three decimals: {event}")
            return 0
        return int(value.replace(".", ""))

    def number(self, event, key):
        value = event.get(key)
        if not isinstance(value, Number) or not value.isdigit() or int(value) > 2**31 - 1:
            self.complain(f"{key} is {value!r}, not a small number: {event}")
            return -1
        return int(value)


def parse(path, check):
    """The document; every object is a dict, and keys that are there twice are complained of."""

    def constant(name):
        raise ValueError(f"{name} is no JSON")

    def pairs(items):
        made = dict(items)
        if len(made) != len(items) and "ph" in made:
            check.complain(f"a key is there twice: {items}")
        return made

    with open(path, "rb") as file:
        text = file.read().decode("utf-8", "strict")
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=constant,
                      object_pairs_hook=pairs)


def check_thread(check, thread, events):
    """Slices of one thread, as (start, end, event); B/E pairs have been matched already."""
    open_ends = []
    for start, end, event in sorted(events, key=lambda e: (e[0], -e[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            check.complain(f"thread {thread}: a slice crosses the end of another: {event}")
        open_ends.append(end)


def match_begins(check, thread, events, slices):
    stack = []
    for ts, index, event in sorted(events, key=lambda e: e[:2]):
        if event["ph"] == "B":
            stack.append((ts, event))
        elif stack:
            start, begin = stack.pop()
            slices.append((start, ts, begin))
        else:
            check.complain(f"thread {thread}: E without B: {event}")
    for start, begin in stack:
        check.counts["never ended"] += 1
        if begin.get("args", {}).get("never ended") is not True:
            check.complain(f"thread {thread}: B without E: {begin}")
        slices.append((start, float("inf"), begin))


def check_flows(check, flows, slices):
    for key, ends in flows.items():
        phases = [ph for ph, _, _, _ in ends]
        if sorted(phases) != ["f", "s"]:
            check.complain(f"arrow {key} has the ends {phases}")
            continue
        (_, start, _, _), (_, end, _, _) = sorted(ends, key=lambda e: e[0], reverse=True)
        if end < start:
            check.complain(f"arrow {key} ends before it starts")
    starts = {thread: {(s, e) for s, e, _ in found} for thread, found in slices.items()}
    begins = {thread: {s for s, _ in found} for thread, found in starts.items()}
    for key, ends in flows.items():
        for ph, ts, thread, event in ends:
            if ph == "f" and event.get("bp") != "e":
                check.complain(f"arrow {key} does not bind to the slice around it: {event}")
            if ts in begins.get(thread, ()):
                continue
            if not any(s <= ts <= e for s, e in starts.get(thread, ())):
                check.complain(f"arrow {key} hangs in the air: {event}")


def check_events(check, events):
    slices = collections.defaultdict(list)
    begins = collections.defaultdict(list)
    flows = collections.defaultdict(list)
    named = {"process_name": set(), "thread_name": set()}
    used = set()
    for index, event in enumerate(events):
        ph = event.get("ph")
        check.counts[ph] += 1
        if not isinstance(event.get("name"), str) or isinstance(event.get("name"), Number):
            check.complain(f"no name: {event}")
        if not isinstance(event.get("args", {}), dict):
            check.complain(f"args is no object: {event}")
            continue
        pid = check.number(event, "pid")
        if ph == "M":
            thread = (pid, check.number(event, "tid")) if "tid" in event else pid
            if event["name"] in named:
                if thread in named[event["name"]]:
                    check.complain(f"named twice: {event}")
                named[event["name"]].add(thread)
            continue
        ts = check.ns(event, "ts")
        if ph == "C":
            used.add(pid)
            values = list(event.get("args", {}).values())
            if not values or not all(isinstance(v, Number) for v in values):
                check.complain(f"a counter without a number: {event}")
            continue
        thread = (pid, check.number(event, "tid"))
        used.add(pid)
        used.add(thread)
        if ph == "X":
            dur = check.ns(event, "dur")
            if dur < 0:
                check.complain(f"negative duration: {event}")
            slices[thread].append((ts, ts + dur, event))
        elif ph in ("B", "E"):
            begins[thread].append((ts, index, event))
        elif ph in ("s", "f"):
            flows[event.get("cat"), event["name"], event.get("id")].append((ph, ts, thread, event))
        else:
            check.complain(f"unexpected phase: {event}")
    for thread, found in begins.items():
        match_begins(check, thread, found, slices[thread])
    for thread, found in slices.items():
        check_thread(check, thread, found)
    check_flows(check, flows, slices)
    for missing in used - named["process_name"] - named["thread_name"]:
        check.complain(f"process or thread {missing} has no name")
    check.counts["threads"] = len(slices)


def main(argv):
    if len(argv) != 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    check = Checker()
    try:
        trace = parse(argv[1], check)
    except (ValueError, RecursionError, OSError) as error:
        print(f"{argv[1]}: {error}", file=sys.stderr)
        return 1
    if list(trace)[:3] != ["displayTimeUnit", "otherData", "traceEvents"]:
        check.complain(f"members are {list(trace)}")
    check_events(check, trace["traceEvents"])
    for what, n in sorted(check.counts.items(), key=lambda item: str(item[0])):
        print(f"{what}: {n}")
    if check.bad:
        print(f"{argv[1]}: {check.bad} complaints", file=sys.stderr)
    return 1 if check.bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
