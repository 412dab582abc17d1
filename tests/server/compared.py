"""compared.py -- two traces of a server side by side."""
import json

from http_client import Server, expect, span


def changed(folder, name, dur, rest):
    """Ten steps of a model; conv takes `dur` us, more and less by 2 in turns, then there is `rest`."""
    events = []
    for i in range(10):
        at = 1000 * i
        events.append(span("net", at, 900, cat="step", args={
            "layer": "app", "step": {"id": i, "num": i, "model": "net", "warmup": 0}}))
        for k, (op, us) in enumerate((("conv", dur + (2 if i % 2 else -2)), (rest, 50))):
            events.append(span(op, at + 400 * k, us, tid=2, args={
                "layer": "hardware", "step": {"id": i}, "op": {"id": k, "name": op, "type": op.title()}}))
    path = folder / name
    path.write_text(json.dumps({"displayTimeUnit": "ns", "otherData": {"opmeter.export": "1"}, "traceEvents": events},
                               separators=(",", ":")))
    return path


def two_traces(opmeter, folder):
    changed(folder, "a.json", 300, "old")
    changed(folder, "b.json", 330, "new")
    with Server(opmeter, folder) as server:
        ids = {trace["path"]: trace["id"] for trace in server.json("/api/traces")}
        a, b = (f"/api/trace/{ids[name]}" for name in ("a.json", "b.json"))
        answer = server.json(f"{a}/diff?with={ids['b.json']}")
        expect("columns", answer["columns"], ["name", "type", "a_ns", "b_ns", "state", "a_op", "b_op"])
        expect("rows", sorted(answer["rows"], key=str), [["conv", "Conv", 300000, 330000, "slower", "conv", "conv"],
                                                         ["new", "New", None, 50000, "only B", None, "new"],
                                                         ["old", "Old", 50000, None, "only A", "old", None]])
        expect("total", answer["total"][2:5], [350000, 380000, "slower"])
        expect("without a counterpart", answer["alone"], [50000 / 350000, 50000 / 380000])
        expect("tail of ten steps", answer["tail"], "cannot tell")
        expect("iterations", answer["iterations"], [10, 10])
        expect("operators", answer["spans"], False)
        back = server.json(f"{b}/diff?with={ids['a.json']}&by=type")
        expect("the other way", [row for row in back["rows"] if row[0] == "Conv"],
               [["Conv", "Conv", 330000, 300000, "faster", "conv", "conv"]])
        for wrong in ("", f"?with={ids['a.json']}", f"?with={ids['b.json']}&by=name"):
            expect(f"status of '{wrong}'", server.get(f"{a}/diff{wrong}").status, 400)
        expect("no such trace", server.get(f"{a}/diff?with=0123").status, 404)


TESTS = [two_traces]
