"""cases_diff.py -- what `opmeter diff` says of several recordings, computed again: trimmed means of
logarithms, Yuen's test for two samples, Benjamini and Hochberg's rule, an interval by bootstrap; and
operators that one side fuses."""
import json
import math
import random

SOURCE = "computed from the durations that were written"
STEPS = 120
MIN_EFFECT = 0.01
FALSE = 0.01


def cases(opmeter, work):
    folder = work / "diff"
    yield "diff/recordings", lambda case: recordings(case, opmeter, folder / "recordings")
    yield "diff/one_each", lambda case: one_each(case, opmeter, folder / "one_each")
    yield "diff/instances", lambda case: instances(case, opmeter, folder / "instances")


# -- traces --

def write(path, steps, ops):
    """steps: durations in ns; ops: (name, type, nodes, durations of its execution in each step)."""
    events, at = [], 1_000_000
    for i, dur in enumerate(steps):
        events.append({"ph": "X", "pid": 1, "tid": 1, "ts": at / 1000, "dur": dur / 1000, "name": "net", "cat": "step",
                       "args": {"layer": "app", "step": {"id": i, "num": i, "model": "net", "warmup": 0}}})
        start = at
        for k, (name, kind, nodes, durs) in enumerate(ops):
            events.append({"ph": "X", "pid": 1, "tid": 2, "ts": start / 1000, "dur": durs[i] / 1000, "name": name, "cat": "op",
                           "args": {"layer": "hardware", "step": {"id": i},
                                    "op": {"id": k, "name": name, "type": kind, "nodes": json.dumps(nodes)}}})
            start += durs[i]
        at += dur + 1_000_000
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"displayTimeUnit": "ns", "otherData": {"opmeter.export": "1"}, "traceEvents": events}))


# -- statistics --

def median(values):
    v = sorted(values)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def quantile(values, q):
    v, at = sorted(values), q * (len(values) - 1)
    low = math.floor(at)
    return v[low] + (at - low) * (v[min(low + 1, len(v) - 1)] - v[low])


def trimmed(values):
    g = int(0.2 * len(values))
    kept = sorted(values)[g:len(values) - g]
    return sum(kept) / len(kept)


def error(values):
    """Of the trimmed mean, and its degrees of freedom."""
    n, g, v = len(values), int(0.2 * len(values)), sorted(values)
    drawn = [v[g]] * g + v[g:n - g] + [v[n - 1 - g]] * g
    mean = sum(drawn) / n
    variance = sum((x - mean) ** 2 for x in drawn) / (n - 1)
    return math.sqrt(variance / n) / (1 - 2 * g / n), n - 2 * g - 1


def student_above(x, freedom):
    """By Simpson's rule over the density, with t = tan(angle)."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    first, last, n = math.atan(x), math.pi / 2, 20000

    def density(angle):
        if angle >= last:
            return 0.0
        t = math.tan(angle)
        return scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2) * (1 + t * t)
    h = (last - first) / n
    total = sum(density(first + i * h) * (1 if i in (0, n) else 4 if i % 2 else 2) for i in range(n + 1))
    return total * h / 3


def estimate(a, b):
    """Change, p."""
    a, b = [math.log(v) for v in a], [math.log(v) for v in b]
    d = trimmed(b) - trimmed(a)
    (ea, fa), (eb, fb) = error(a), error(b)
    both = ea ** 2 + eb ** 2
    freedom = both ** 2 / (ea ** 4 / fa + eb ** 4 / fb)
    return math.expm1(d), min(1, 2 * student_above((abs(d) - math.log1p(MIN_EFFECT)) / math.sqrt(both), freedom))


def found(ps):
    """The largest p that counts."""
    ranked = sorted(ps)
    return max([p for i, p in enumerate(ranked) if p <= FALSE * (i + 1) / len(ranked)], default=-1)


# -- cases --

def planted(rng, side):
    """One recording: steps, and operators as this side's engine has them."""
    luck = math.exp(rng.gauss(0, 0.004))
    conv = round(400_000 * luck * (1.08 if side else 1))
    durs = {"conv": [], "relu": [], "fc": [], "norm": []}
    steps = []
    for _ in range(STEPS):
        durs["conv"].append(round(conv * (1 + 0.01 * rng.random())))
        durs["relu"].append(round(50_000 * luck * (1 + 0.01 * rng.random())))
        durs["fc"].append(round(100_000 * (1 + 0.05 * rng.random())))
        durs["norm"].append(30_000)
        steps.append(sum(d[-1] for d in durs.values()) + 20_000 + (300_000 if side and rng.random() < 0.03 else 0))
    if not side:
        fused = [c + r for c, r in zip(durs["conv"], durs["relu"])]
        ops = [("conv1", "Conv", ["conv1", "relu1"], fused), ("fc", "Gemm", ["fc"], durs["fc"]),
               ("norm", "LayerNormalization", ["norm"], durs["norm"])]
    else:
        ops = [("conv1", "Conv", ["conv1"], durs["conv"]), ("relu1", "Relu", ["relu1"], durs["relu"]),
               ("fc_gemm", "FusedGemm", ["fc"], durs["fc"]), ("reorder", "Reorder", [], durs["norm"])]
    return steps, ops


def recordings(case, opmeter, folder):
    rng = random.Random(20)
    made = {0: [], 1: []}
    for side, count in ((0, 7), (1, 6)):
        for i in range(count):
            steps, ops = planted(rng, side)
            write(folder / f"{'ab'[side]}{i}.json", steps, ops)
            made[side].append((steps, {name: median(durs) for name, _, _, durs in ops}))
    answer = opmeter.json("diff", "--json", folder / "a*.json", "--", folder / "b*.json")
    by = {op["name"]: op for op in answer["operators"]}

    groups = {"conv1 + relu1": (["conv1"], ["conv1", "relu1"]), "fc": (["fc"], ["fc_gemm"])}
    truth = {"latency": estimate(*([median(steps) for steps, _ in made[s]] for s in (0, 1)))}
    for name, members in groups.items():
        truth[name] = estimate(*([sum(ops[m] for m in members[s]) for _, ops in made[s]] for s in (0, 1)))
    limit = found([p for _, p in truth.values()])
    ours = {"latency": answer["latency"], **{name: by.get(name, {}) for name in groups}}
    for name, (change, p) in truth.items():
        case.check(f"{name}/change", lambda: ours[name]["change"], change, SOURCE, 1e-9)
        case.check(f"{name}/p", lambda: ours[name]["p"], p, SOURCE, 1e-6)
        case.check(f"{name}/found", lambda: ours[name]["verdict"] in ("slower", "faster"), p <= limit, SOURCE)
    case.check("planted", lambda: ours["conv1 + relu1"]["verdict"], "slower", "made 7 % longer")
    case.check("alone", lambda: [(a["operators"], a["share"]) for a in answer["alone"]],
               [(1, share(made[0], ["norm"])), (1, share(made[1], ["reorder"]))], "no node in common", 0.002)

    tail = estimate(*([quantile(steps, 0.99) for steps, _ in made[s]] for s in (0, 1)))
    case.check("p99/change", lambda: answer["p99"]["change"], tail[0], SOURCE, 1e-9)
    case.check("p99/p", lambda: answer["p99"]["p"], tail[1], SOURCE, 1e-6)
    low, high = bootstrap(random.Random(3), *([median(steps) for steps, _ in made[s]] for s in (0, 1)))
    case.check("latency/interval", lambda: [answer["latency"]["low"], answer["latency"]["high"]], [low, high],
               "another bootstrap, over processes alone", 0.35 * (high - low))


def share(made, names):
    """Of the medians of all recordings: those of the names among all."""
    all_names = made[0][1]
    of = {name: median([ops[name] for _, ops in made]) for name in all_names}
    return sum(of[n] for n in names) / sum(of.values())


def bootstrap(rng, a, b):
    a, b = [math.log(v) for v in a], [math.log(v) for v in b]
    drawn = sorted(trimmed(rng.choices(b, k=len(b))) - trimmed(rng.choices(a, k=len(a))) for _ in range(4000))
    return math.expm1(drawn[20]), math.expm1(drawn[-21])  # about as far out as so few processes demand


def one_each(case, opmeter, folder):
    """The tail of one recording each, by Fisher's exact test: 1 in 20 steps of B takes three times as long."""
    rng, steps = random.Random(4), {}
    for side in "ab":
        steps[side] = [round(1_000_000 * (1 + 0.02 * rng.random())) * (3 if side == "b" and i % 20 == 3 else 1)
                       for i in range(400)]
        write(folder / f"{side}.json", steps[side], [("conv1", "Conv", ["conv1"], [1000] * 400)])
    answer = opmeter.json("diff", "--json", folder / "a.json", folder / "b.json")
    limit = quantile(steps["a"] + steps["b"], 0.99)
    k = [sum(v > limit for v in steps[s]) for s in "ab"]
    p = sum(math.comb(400, i) * math.comb(400, sum(k) - i) for i in range(k[1], sum(k) + 1)) / math.comb(800, sum(k))
    case.check("tail", lambda: answer["tail"]["state"], "slower" if 2 * p <= FALSE else "~", "Fisher's exact test")
    case.check("p99", lambda: [answer["tail"]["a_ns"], answer["tail"]["b_ns"]], [quantile(steps[s], 0.99) for s in "ab"], SOURCE)


def instances(case, opmeter, folder):
    """Two runs at once are two files of a folder: an operator's time is the mean of theirs, not the sum."""
    made = {}
    for name, conv in (("a/one", 400_000), ("b/one", 400_000), ("b/two", 440_000)):
        write(folder / f"{name}.json", [conv + 100_000] * 10, [("conv1", "Conv", ["conv1"], [conv] * 10)])
        made[name] = conv
    answer = opmeter.json("diff", "--json", folder / "a", folder / "b")
    case.check("conv1", lambda: [(op["name"], op["a_ns"], op["b_ns"]) for op in answer["operators"]],
               [("conv1", 400_000, 420_000)], "planted")
