#!/usr/bin/python3
"""check_perfetto.py [--wire] FILE -- is this a Perfetto trace that holds together?

Decoded with code that protoc makes from perfetto_subset.proto, if protoc and Python's protobuf are
there, otherwise (or with --wire) by a small decoder of its own. Every interned number resolves,
every track is described before it is used, slices of a track are balanced in order of time but for
those that say they never ended, arrows have both ends. Prints what the file holds; complaints go to
stderr and make the exit status 1.
"""

import collections
import importlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "perfetto_subset.proto")
MAX_COMPLAINTS = 20
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDS_STATE = 1, 2


def read_schema():
    """{message: {number: (repeated, type, name)}} of the .proto file."""
    schema, stack = {}, []
    with open(PROTO, encoding="utf-8") as file:
        for line in file:
            line = line.split("//")[0].strip()
            field = re.match(r"(optional|repeated) (\w+) (\w+) = (\d+);$", line)
            if line.startswith("message "):
                stack.append(line.split()[1])
                schema[stack[-1]] = {}
            elif line == "}":
                stack.pop()
            elif field:
                label, kind, name, number = field.groups()
                schema[stack[-1]][int(number)] = (label == "repeated", kind, name)
    return schema


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value & (2**64 - 1), at
        if shift >= 70:
            raise ValueError(f"varint too long at {at}")


def decode(schema, message, data):
    """One message as a dict; repeated fields are lists."""
    fields, made, at = schema[message], {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = data[at:at + 8], at + 8
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError(f"{message}: ends early")
        else:
            raise ValueError(f"{message}: wire type {wire}")
        if tag >> 3 not in fields:
            raise ValueError(f"{message}: no field {tag >> 3}")
        repeated, kind, name = fields[tag >> 3]
        want = {"double": 1, "fixed64": 1, "string": 2}.get(kind, 2 if kind in schema else 0)
        if wire != want:
            raise ValueError(f"{message}.{name}: wire type {wire}")
        if kind in schema:
            value = decode(schema, kind, value)
        elif kind == "string":
            value = bytes(value).decode("utf-8", "strict")
        elif kind == "double":
            value = struct.unpack("<d", value)[0]
        elif kind == "fixed64":
            value = struct.unpack("<Q", value)[0]
        elif kind in ("int32", "int64") and value >= 2**63:
            value -= 2**64
        elif kind == "bool":
            value = bool(value)
        if repeated:
            made.setdefault(name, []).append(value)
        else:
            made[name] = value
    return made


def packets_by_wire(data):
    schema, at = read_schema(), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag != 1 << 3 | 2:
            raise ValueError(f"tag {tag} between packets at {at}")
        size, at = varint(data, at)
        if at + size > len(data):
            raise ValueError("the last packet ends early")
        yield decode(schema, "TracePacket", data[at:at + size])
        at += size


def to_dict(message):
    if len(message.UnknownFields()):
        raise ValueError(f"{message.DESCRIPTOR.name}: unknown field")
    made = {}
    for field, value in message.ListFields():
        nested = field.type == field.TYPE_MESSAGE
        if field.label == field.LABEL_REPEATED:
            made[field.name] = [to_dict(v) if nested else v for v in value]
        else:
            made[field.name] = to_dict(value) if nested else value
    return made


def packets_by_protoc(data):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"-I{os.path.dirname(PROTO)}", f"--python_out={folder}", PROTO],
                       check=True)
        sys.path.insert(0, folder)
        module = importlib.import_module("perfetto_subset_pb2")
    trace = module.Trace()
    try:
        trace.ParseFromString(data)
    except importlib.import_module("google.protobuf.message").DecodeError as error:
        raise ValueError(str(error)) from error
    for packet in trace.packet:
        yield to_dict(packet)


def has_protobuf():
    try:
        importlib.import_module("google.protobuf")
    except ImportError:
        return False
    return shutil.which("protoc") is not None


class Checker:
    def __init__(self):
        self.bad = 0
        self.counts = collections.Counter()
        self.interned = collections.defaultdict(dict)
        self.tracks = {}
        self.stacks = collections.defaultdict(list)
        self.last_ts = collections.defaultdict(int)
        self.flows = collections.defaultdict(list)
        self.processes = set()
        self.threads = set()
        self.clocks = set()
        self.default_clock = None

    def complain(self, what):
        self.bad += 1
        if self.bad <= MAX_COMPLAINTS:
            print(what, file=sys.stderr)

    def packet(self, index, packet):
        flags = packet.get("sequence_flags", 0)
        if not packet.get("trusted_packet_sequence_id"):
            self.complain(f"packet {index} is of no sequence")
        if bool(flags & CLEARED) != (index == 0):
            self.complain(f"packet {index} has the flags {flags}")
        if index and not flags & NEEDS_STATE:
            self.complain(f"packet {index} does not need the state of the sequence")
        defaults = packet.get("trace_packet_defaults", {})
        self.default_clock = defaults.get("timestamp_clock_id", self.default_clock)
        if "clock_snapshot" in packet:
            snapshot = packet["clock_snapshot"]
            self.clocks = {clock["clock_id"] for clock in snapshot["clocks"]}
            if snapshot["primary_trace_clock"] not in self.clocks:
                self.complain("the primary clock is not in the snapshot")
        for kind, entries in packet.get("interned_data", {}).items():
            for entry in entries:
                if not entry.get("iid") or entry["iid"] in self.interned[kind]:
                    self.complain(f"{kind}: number {entry.get('iid')} is 0 or taken")
                self.interned[kind][entry.get("iid")] = entry.get("name", "")
                self.counts["interned"] += 1
        if "track_descriptor" in packet:
            self.track(packet["track_descriptor"])
        if "track_event" in packet:
            self.event(packet, packet["track_event"])

    def track(self, track):
        self.counts["tracks"] += 1
        if not track.get("uuid") or track["uuid"] in self.tracks:
            self.complain(f"uuid is 0 or taken: {track}")
        if "parent_uuid" in track and track["parent_uuid"] not in self.tracks:
            self.complain(f"unknown parent: {track}")
        for key, taken, number in (
                ("process", self.processes, lambda d: d.get("pid")),
                ("thread", self.threads, lambda d: (d.get("pid"), d.get("tid")))):
            if key in track:
                self.counts[f"{key} tracks"] += 1
                if number(track[key]) in taken:
                    self.complain(f"number taken: {track}")
                taken.add(number(track[key]))
        if "thread" in track and track["thread"]["pid"] not in self.processes:
            self.complain(f"a thread of an unknown process: {track}")
        self.tracks[track.get("uuid")] = track

    def resolve(self, kind, iid):
        if iid not in self.interned[kind]:
            self.complain(f"{kind}: nothing is interned as {iid}")
        return self.interned[kind].get(iid)

    def annotation(self, note):
        """Its name."""
        name = note.get("name")
        if "name_iid" in note:
            name = self.resolve("debug_annotation_names", note["name_iid"])
        if "string_value_iid" in note:
            self.resolve("debug_annotation_string_values", note["string_value_iid"])
        for nested in note.get("dict_entries", []) + note.get("array_values", []):
            self.annotation(nested)
        self.counts["annotations"] += 1
        return name

    def event(self, packet, event):
        uuid, kind, ts = event.get("track_uuid"), event.get("type"), packet.get("timestamp", 0)
        clock = packet.get("timestamp_clock_id", self.default_clock)
        if clock not in self.clocks:
            self.complain(f"time of an unknown clock: {packet}")
        if uuid not in self.tracks:
            self.complain(f"no such track: {packet}")
            return
        if ts < self.last_ts[uuid]:
            self.complain(f"goes back in time: {packet}")
        self.last_ts[uuid] = ts
        if (kind == COUNTER) != ("counter" in self.tracks[uuid]):
            self.complain(f"wrong kind of track: {packet}")
        if "name_iid" in event:
            self.resolve("event_names", event["name_iid"])
        for iid in event.get("category_iids", []):
            self.resolve("event_categories", iid)
        notes = [self.annotation(note) for note in event.get("debug_annotations", [])]
        for key in ("flow_ids", "terminating_flow_ids"):
            for flow in event.get(key, []):
                self.flows[flow].append((key, ts))
        self.counts[{BEGIN: "begins", END: "ends", INSTANT: "instants",
                     COUNTER: "counter values"}.get(kind, "unknown events")] += 1
        if kind == BEGIN:
            self.stacks[uuid].append((ts, "never ended" in notes, event))
        elif kind == END:
            if not self.stacks[uuid]:
                self.complain(f"END without BEGIN: {packet}")
            elif self.stacks[uuid].pop()[1]:
                self.complain(f"ends a slice that says it never ended: {packet}")
        elif kind == COUNTER:
            if not {"counter_value", "double_counter_value"} & set(event):
                self.complain(f"a counter without a value: {packet}")
        elif kind != INSTANT:
            self.complain(f"unknown type: {packet}")

    def finish(self):
        for uuid, stack in self.stacks.items():
            for ts, never_ended, event in stack:
                self.counts["never ended"] += 1
                if not never_ended:
                    self.complain(f"track {uuid}: BEGIN without END at {ts}: {event}")
        for flow, ends in self.flows.items():
            self.counts["flows"] += 1
            if [key for key, _ in ends] != ["flow_ids", "terminating_flow_ids"]:
                self.complain(f"flow {flow} has the ends {ends}")


def main(argv):
    args = [arg for arg in argv[1:] if arg != "--wire"]
    if len(args) != 1:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    check = Checker()
    by_protoc = "--wire" not in argv and has_protobuf()
    try:
        with open(args[0], "rb") as file:
            data = file.read()
        packets = packets_by_protoc(data) if by_protoc else packets_by_wire(data)
        for index, packet in enumerate(packets):
            check.packet(index, packet)
            check.counts["packets"] += 1
        check.finish()
    except (ValueError, KeyError, IndexError, OSError, subprocess.CalledProcessError) as error:
        print(f"{args[0]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("decoded by", "protoc" if by_protoc else "wire decoder")
    for what, n in sorted(check.counts.items()):
        print(f"{what}: {n}")
    if check.bad:
        print(f"{args[0]}: {check.bad} complaints", file=sys.stderr)
    return 1 if check.bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
