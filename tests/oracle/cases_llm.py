"""cases_llm.py -- requests, iterations and tokens of language models, planted."""
import json

import numpy

from planted_llm import Request, Server, any_events, chance, steady

PLANTED = "planted"
SEEDS = 24


def cases(opmeter, work):
    folder = work / "llm"
    for name, function in (("steady", plain), ("queue", queue), ("prefill", prefill),
                           ("preemption", preemption)):
        yield f"llm/{name}", lambda case, f=function, n=name: f(case, opmeter, folder / n)
    for seed in range(SEEDS):
        yield f"llm/chance {seed}", lambda case, s=seed: check(case, opmeter, chance(s), folder / f"chance{s}")
    yield "llm/any events", lambda case: add_up(case, opmeter, folder / "any")


def add_up(case, opmeter, folder):
    """Whatever events say, no time is below 0 and parts are their whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(SEEDS):
        path = folder / f"{seed}.json"
        path.write_text(json.dumps(list(any_events(seed))))
        case.check(f"{seed}", lambda p=path: opmeter.query(p, (
            "SELECT * FROM request_latency l WHERE min(ttft_ns, queue_ns, coalesce(prefill_ns, 0), coalesce(host_ns, 0)) < 0 OR"
            " min(e2e_ns, itl_ns) < 0 OR ttft_ns < 0 OR queue_ns < 0 OR e2e_ns < 0 OR preempted_ns < 0 OR tokens_in < 0 OR"
            " ttft_ns + itl_ns <> e2e_ns OR queue_ns + prefill_ns + host_ns <> ttft_ns OR"
            " itl_ns <> (SELECT sum(itl_ns) FROM token_gaps g WHERE g.request = l.request)")), [], "they add up")
        case.check(f"{seed} shares", lambda p=path: opmeter.query(p, (
            "SELECT iteration FROM (SELECT iteration, sum(time_ns) t, sum(share) s FROM request_shares GROUP BY iteration)"
            " JOIN iteration_times i USING (iteration) WHERE t <> i.dur_ns OR abs(s - 1) > 1e-9")), [], "they add up")


def check(case, opmeter, server, folder):
    path = folder / "trace.json"
    server.write(path)
    truth = server.truth()
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    columns = list(next(iter(truth.values())))
    case.check("requests", lambda: {row["name"]: {c: row[c] for c in columns} for row in query(
        "SELECT * FROM request_latency")}, truth, PLANTED)
    case.check("ttft and itl", lambda: query(
        "SELECT count(*) n FROM request_latency WHERE ttft_ns + itl_ns <> e2e_ns OR ttft_ns <> "
        "queue_ns + prefill_ns + host_ns OR host_ns < 0 OR itl_ns <> (SELECT sum(itl_ns) FROM "
        "token_gaps g WHERE g.request = request_latency.request)"), [{"n": 0}], "they add up")
    case.check("tokens", lambda: query("SELECT count(*) n FROM token"),
               [{"n": sum(t["tokens_out"] for t in truth.values())}], PLANTED)
    case.check("iterations", lambda: [
        (r["kind"], r["dur_ns"], r["device_ns"], r["batch"], r["tokens_in"], r["tokens_out"])
        for r in query("SELECT * FROM iteration_times ORDER BY num")],
        [(i["kind"], i["dur"], i["device"], i["batch"], i["in"], i["out"])
         for i in server.iterations], PLANTED)
    case.check("shares", lambda: query(
        "SELECT count(*) n FROM (SELECT iteration, sum(device_ns) d, sum(time_ns) t, sum(share) s "
        "FROM request_shares GROUP BY iteration) JOIN iteration_times i USING (iteration) WHERE "
        "d <> i.device_ns OR t <> i.dur_ns OR abs(s - 1) > 1e-9"), [{"n": 0}],
        "members of an iteration add up to it")
    case.check("device", lambda: query("SELECT sum(device_ns) ns FROM request_latency"),
               [{"ns": sum(i["device"] for i in server.iterations)}], PLANTED)
    gaps = numpy.concatenate([numpy.diff(r.times) for r in server.all]) * 1000.0
    figures = lambda: {r["metric"]: r for r in opmeter.json("llm", "--json", path)}  # noqa: E731
    case.check("percentiles", lambda: [figures()["between tokens (ITL)"][k] for k in (
        "count", "mean_ns", "median_ns", "p90_ns", "p99_ns", "max_ns")],
        [len(gaps), gaps.mean(), *(numpy.percentile(gaps, p) for p in (50, 90, 99)), gaps.max()],
        "numpy", within=1e-6)
    limit_ns = 900_000
    good = sum(t["ttft_ns"] <= 2_000_000 and (numpy.diff(r.times) * 1000 <= limit_ns).all()
               for r, t in zip(server.all, truth.values()))
    case.check("goodput", lambda: opmeter.json(
        "llm", "--json", path, "--ttft", "2ms", "--itl", "900us")[0]["within"], good, PLANTED)
    case.check("saved", lambda: again(opmeter, path, folder / "saved.opm"),
               sorted((t["e2e_ns"], t["ttft_ns"]) for t in truth.values()), PLANTED)
    return query


def again(opmeter, path, saved):
    opmeter.text("import", path, "-o", saved, "--force")
    return sorted((r["e2e_ns"], r["ttft_ns"]) for r in opmeter.query(
        saved, "SELECT e2e_ns, ttft_ns FROM request_latency"))


def causes(query):
    return {r["name"]: r["cause"] for r in query(
        "SELECT name, cause FROM request_latency WHERE slow")}


def stalled(server, name):
    """Those that made tokens while the prompt of another was being read, for long."""
    long = next(r for r in server.all if r.name == name)
    median = sorted(r.times[-1] - r.arrival for r in server.all)[len(server.all) // 2]
    return [r.name for r in server.all if r is not long and r.times[-1] - r.arrival > 1.5 * median
            and r.times[0] < long.times[0] and r.times[-1] > long.scheduled]


def plain(case, opmeter, folder):
    query = check(case, opmeter, Server(steady()).run(), folder)
    case.check("slow", lambda: causes(query), {}, "none is")


def queue(case, opmeter, folder):
    """A burst for which there is no place."""
    burst = [Request(f"burst{i}", 41_000, 100, 10) for i in range(12)]
    server = Server(steady() + burst).run()
    query = check(case, opmeter, server, folder)
    truth = server.truth()
    worst = sorted(truth, key=lambda n: truth[n]["queue_ns"])[-6:]
    case.check("cause", lambda: [causes(query).get(n) for n in worst], ["queue"] * 6, PLANTED)


def prefill(case, opmeter, folder):
    """One long prompt, which is read in pieces."""
    server = Server(steady(gap=9000) + [Request("long", 60_500, 9000, 10)]).run()
    query = check(case, opmeter, server, folder)
    case.check("cause", lambda: causes(query), {"long": "prefill", **{
        name: "prefill of others" for name in stalled(server, "long")}}, PLANTED)


def preemption(case, opmeter, folder):
    """One is set aside for 20 ms in the middle of its tokens."""
    for number in range(1000):
        server = Server(steady(), {number: ("r12", 20_000)}).run()
        if any(r.preemptions and max(b - a for a, b in zip(r.times, r.times[1:])) > 20_000
               and r.times[4] - r.times[0] < 20_000 for r in server.all):
            break
    query = check(case, opmeter, server, folder)
    case.check("cause", lambda: causes(query).get("r12"), "preemption", PLANTED)
