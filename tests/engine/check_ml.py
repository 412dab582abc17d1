#!/usr/bin/env python3
"""Compare operators of ai.onnx.ml with what plain loops give by their definitions.

usage: check_ml.py OPMETER [--ort] [NAME...]

Models are made on the spot, results by Python and numpy. --ort runs the cases through ONNX Runtime
(OPMETER_ORT_LIB) instead, to see that the loops here and ONNX Runtime agree. Exit 77: no numpy.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

from machine import PATIENCE, instruction_sets
from make_cases import TYPES, attribute, block, number, tensor, value_info

RNG = np.random.default_rng(11)
TYPES["float64"] = 11


def attr(name, value):
    if isinstance(value, np.ndarray):
        return block(1, name) + block(5, tensor("t", value)) + number(20, 4)
    if isinstance(value, list) and value and isinstance(value[0], bool):
        value = [int(v) for v in value]
    return attribute(name, value)


def model(op, inputs, outputs, attrs, version=3):
    node = b"".join(block(1, f"x{i}") for i in range(len(inputs)))
    node += b"".join(block(2, f"y{i}") for i in range(len(outputs)))
    node += block(3, "node") + block(4, op)
    node += b"".join(block(5, attr(k, v)) for k, v in attrs.items()) + block(7, "ai.onnx.ml")
    graph = block(1, node) + block(2, "g")
    for i, x in enumerate(inputs):
        graph += block(11, value_info(f"x{i}", str(x.dtype), x.shape))
    for i, y in enumerate(outputs):
        graph += block(12, value_info(f"y{i}", str(y.dtype), y.shape))
    out = number(1, 8) + block(7, graph) + block(8, block(1, "") + number(2, 15))
    return out + block(8, block(1, "ai.onnx.ml") + number(2, version))


def f(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def floats(array):
    return [float(v) for v in np.asarray(array).ravel()]


def post(scores, how):
    s = scores.astype(np.float64)
    if how == "LOGISTIC":
        s = 1 / (1 + np.exp(-s))
    elif how == "SOFTMAX":
        e = np.exp(s - s.max(axis=1, keepdims=True))
        s = e / e.sum(axis=1, keepdims=True)
    elif how == "SOFTMAX_ZERO":
        e = np.where(np.abs(s) > 1e-7, np.exp(s - s.max(axis=1, keepdims=True)), 0)
        s = e / e.sum(axis=1, keepdims=True)
    return s.astype(np.float32)


class Trees:
    """Random trees; nodes as dictionaries, a leaf has weights: [(target, weight)]."""

    TESTS = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
             "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal}

    def __init__(self, count, depth, features, targets, modes=("BRANCH_LEQ",), positive=False,
                 ids=None, integral=False):
        self.trees, self.features, self.targets = [], features, targets
        self.modes, self.positive, self.ids, self.integral = modes, positive, ids, integral
        for _ in range(count):
            nodes = []
            self.grow(nodes, depth)
            self.trees.append(nodes)

    def grow(self, nodes, depth):
        at = len(nodes)
        nodes.append({})
        if depth == 0 or (at and RNG.random() < 0.15):
            ids = self.ids or range(self.targets)
            weights = [(t, np.float32(abs(w) / 20 if self.positive else w))
                       for t, w in zip(ids, f(len(list(ids))))]
            nodes[at] = {"weights": weights}
            return at
        split = np.float32(RNG.integers(-2, 3)) if self.integral else f(1)[0]
        node = {"feature": int(RNG.integers(self.features)), "split": split,
                "mode": str(RNG.choice(self.modes)), "nan": bool(RNG.random() < 0.5)}
        node["yes"] = self.grow(nodes, depth - 1)
        node["no"] = self.grow(nodes, depth - 1)
        nodes[at] = node
        return at

    def leaf(self, nodes, row):
        node = nodes[0]
        while "weights" not in node:
            x = row[node["feature"]]
            yes = self.TESTS[node["mode"]](x, node["split"]) or (np.isnan(x) and node["nan"])
            node = nodes[node["yes"] if yes else node["no"]]
        return node["weights"]

    def scores(self, x, how="SUM"):
        out = np.zeros((len(x), self.targets))
        for r, row in enumerate(x):
            seen = [[] for _ in range(self.targets)]
            for nodes in self.trees:
                for t, w in self.leaf(nodes, row):
                    seen[t].append(float(w))
            for t, w in enumerate(seen):
                if w:
                    out[r, t] = {"SUM": sum(w), "AVERAGE": sum(w) / len(self.trees), "MIN": min(w),
                                 "MAX": max(w)}[how]
        return out

    def attrs(self, prefix, double=False):
        rows = [(t, i, n) for t, nodes in enumerate(self.trees) for i, n in enumerate(nodes)]
        leaves = [(t, i, k, w) for t, i, n in rows for k, w in n.get("weights", [])]
        a = {"nodes_treeids": [t for t, _, _ in rows], "nodes_nodeids": [i for _, i, _ in rows],
             "nodes_featureids": [n.get("feature", 0) for _, _, n in rows],
             "nodes_modes": [n.get("mode", "LEAF") for _, _, n in rows],
             "nodes_truenodeids": [n.get("yes", 0) for _, _, n in rows],
             "nodes_falsenodeids": [n.get("no", 0) for _, _, n in rows],
             "nodes_missing_value_tracks_true": [int(n.get("nan", 0)) for _, _, n in rows],
             f"{prefix}_treeids": [t for t, _, _, _ in leaves],
             f"{prefix}_nodeids": [i for _, i, _, _ in leaves],
             f"{prefix}_ids": [k for _, _, k, _ in leaves]}
        values = np.array([n.get("split", 0) for _, _, n in rows])
        weights = np.array([w for _, _, _, w in leaves])
        if double:
            a["nodes_values_as_tensor"] = values.astype(np.float64)
            a[f"{prefix}_weights_as_tensor"] = weights.astype(np.float64)
        else:
            a["nodes_values"], a[f"{prefix}_weights"] = floats(values), floats(weights)
        return a


def regressors():
    for name, modes, how, count, rows, targets in (
            ("one", ("BRANCH_LEQ",), "SUM", 1, 1, 1), ("leq", ("BRANCH_LEQ",), "SUM", 70, 150, 1),
            ("row", ("BRANCH_LEQ",), "SUM", 900, 1, 1), ("rows", ("BRANCH_LT",), "SUM", 90, 7, 3),
            ("mixed", ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"), "SUM", 20, 33, 2),
            ("equal", ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_LEQ"), "SUM", 9, 20, 1),
            ("average", ("BRANCH_LEQ",), "AVERAGE", 12, 20, 2),
            ("min", ("BRANCH_LEQ",), "MIN", 12, 20, 2), ("max", ("BRANCH_GT",), "MAX", 12, 20, 1)):
        t = Trees(count, 6, 5, targets, modes, integral=name in ("equal", "mixed"))
        x = f(rows, 5)
        if name in ("equal", "mixed"):
            x = np.round(x).astype(np.float32)
        yield (f"tree_{name}", "TreeEnsembleRegressor", [x], [t.scores(x, how).astype(np.float32)],
               {**t.attrs("target"), "n_targets": targets, "aggregate_function": how})
    t = Trees(15, 6, 5, 2)
    x = f(40, 5)
    base = f(2)
    yield ("tree_base", "TreeEnsembleRegressor", [x], [(t.scores(x) + base).astype(np.float32)],
           {**t.attrs("target"), "n_targets": 2, "base_values": floats(base)})
    x = f(40, 5)
    x[RNG.random(x.shape) < 0.3] = np.nan
    yield ("tree_missing", "TreeEnsembleRegressor", [x], [t.scores(x).astype(np.float32)],
           {**t.attrs("target"), "n_targets": 2})
    t = Trees(15, 6, 5, 1, modes=("BRANCH_LEQ", "BRANCH_GT"))
    x = RNG.standard_normal((40, 5))
    yield ("tree_double", "TreeEnsembleRegressor", [x], [t.scores(x).astype(np.float32)],
           {**t.attrs("target", True), "n_targets": 1})
    x = RNG.integers(-3, 4, (40, 5))
    yield ("tree_int64", "TreeEnsembleRegressor", [x], [t.scores(x).astype(np.float32)],
           {**t.attrs("target"), "n_targets": 1})


def classifiers():
    for how in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        t = Trees(12, 5, 6, 4)
        x = f(50, 6)
        s = t.scores(x)
        labels = np.array([10, 20, 30, 40])
        yield (f"trees_{how.lower()}", "TreeEnsembleClassifier", [x],
               [labels[s.argmax(axis=1)], post(s, how)],
               {**t.attrs("class"), "classlabels_int64s": labels.tolist(), "post_transform": how})
    t = Trees(12, 5, 6, 2)
    x = f(50, 6)
    s = t.scores(x)
    yield ("trees_two", "TreeEnsembleClassifier", [x], [s.argmax(axis=1), post(s, "SOFTMAX")],
           {**t.attrs("class"), "classlabels_int64s": [0, 1], "post_transform": "SOFTMAX"})
    # Two classes, one of which alone has weights: a probability, or a signed score.
    for name, positive, how in (("probability", True, "NONE"), ("signed", False, "NONE"),
                                ("logistic", False, "LOGISTIC")):
        t = Trees(12, 5, 6, 2, positive=positive, ids=[0])
        x = f(50, 6)
        s = t.scores(x)[:, :1]
        y = np.hstack([1 - s if positive else -s, s])
        yield (f"trees_pair_{name}", "TreeEnsembleClassifier", [x],
               [(s[:, 0] > (0.5 if positive else 0)).astype(np.int64), post(y, how)],
               {**t.attrs("class"), "classlabels_int64s": [0, 1], "post_transform": how})


def ensemble():
    """TreeEnsemble of opset 5: two stumps and a test of membership."""
    x = np.array([[1, 2], [3, 0], [5, 2], [7, 9], [2, 2]], np.float32)
    # 0: x0 <= 2 ? leaf 0 : node 1;  1: x1 in {2, 9} ? leaf 1 : leaf 2;  2: x1 > 1 ? leaf 3 : leaf 0
    weight = np.array([1, 10, 100, 1000], np.float32)
    want = []
    for a, b in x:
        first = weight[0] if a <= 2 else weight[1] if b in (2, 9) else weight[2]
        want.append(first + (weight[3] if b > 1 else weight[0]))
    yield ("tree_ensemble", "TreeEnsemble", [x], [np.array(want, np.float32)[:, None]],
           {"n_targets": 1, "tree_roots": [0, 2], "nodes_featureids": [0, 1, 1],
            "nodes_modes": np.array([0, 6, 3], np.uint8), "nodes_splits": np.array([2, 0, 1], np.float32),
            "nodes_truenodeids": [0, 1, 3], "nodes_trueleafs": [1, 1, 1],
            "nodes_falsenodeids": [1, 2, 0], "nodes_falseleafs": [0, 1, 1],
            "leaf_targetids": [0, 0, 0, 0], "leaf_weights": weight,
            "membership_values": np.array([2, 9, np.nan], np.float32)}, 5)


def linear():
    x = f(30, 7)
    w, b = f(3, 7), f(3)
    s = x @ w.T + b
    yield ("linear_regressor", "LinearRegressor", [x], [s],
           {"coefficients": floats(w), "intercepts": floats(b), "targets": 3})
    for how in ("NONE", "SOFTMAX", "LOGISTIC"):
        yield (f"linear_{how.lower()}", "LinearClassifier", [x], [s.argmax(axis=1), post(s, how)],
               {"coefficients": floats(w), "intercepts": floats(b), "classlabels_ints": [0, 1, 2],
                "post_transform": how})
    s = x @ w[:1].T + b[:1]
    yield ("linear_pair", "LinearClassifier", [x],
           [np.where(s[:, 0] > 0, 8, 5), post(np.hstack([-s, s]), "LOGISTIC")],
           {"coefficients": floats(w[:1]), "intercepts": floats(b[:1]), "classlabels_ints": [5, 8],
            "post_transform": "LOGISTIC"})
    offset, scale = f(7), f(7)
    yield ("scaler", "Scaler", [x], [(x - offset) * scale],
           {"offset": floats(offset), "scale": floats(scale)})
    whole = RNG.integers(-9, 9, (4, 7))
    yield ("scaler_one", "Scaler", [whole], [((whole - 0.5) * 2).astype(np.float32)],
           {"offset": [0.5], "scale": [2.0]})
    positive = np.abs(x)
    for norm, d in (("MAX", positive.max(axis=1)), ("L1", positive.sum(axis=1)),
                    ("L2", np.sqrt((positive ** 2).sum(axis=1)))):
        yield (f"normalizer_{norm.lower()}", "Normalizer", [positive], [positive / d[:, None]],
               {"norm": norm})


def svm():
    x, v = f(20, 4), f(9, 4)
    kernels = {"LINEAR": x @ v.T, "POLY": (0.3 * x @ v.T + 0.7) ** 3,
               "RBF": np.exp(-0.3 * ((x[:, None] - v[None]) ** 2).sum(axis=2)),
               "SIGMOID": np.tanh(0.3 * x @ v.T + 0.7)}
    coefficient = f(9)
    for kind, k in kernels.items():
        yield (f"svm_{kind.lower()}", "SVMRegressor", [x],
               [(k @ coefficient + 0.25)[:, None].astype(np.float32)],
               {"kernel_type": kind, "kernel_params": [0.3, 0.7, 3.0], "n_supports": 9,
                "coefficients": floats(coefficient), "support_vectors": floats(v), "rho": [0.25]})
    yield ("svm_one_class", "SVMRegressor", [x],
           [np.where(kernels["RBF"] @ coefficient + 0.25 > 0, 1, -1)[:, None].astype(np.float32)],
           {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0], "n_supports": 9, "one_class": 1,
            "coefficients": floats(coefficient), "support_vectors": floats(v), "rho": [0.25]})
    per, rho, c = [2, 4, 3], f(3), f(2, 9)
    start = np.cumsum([0] + per)
    for count in (3, 2):
        n = start[count]
        k = kernels["RBF"][:, :n]
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        score, votes = np.zeros((20, len(pairs))), np.zeros((20, count), int)
        for at, (i, j) in enumerate(pairs):
            si, sj = slice(start[i], start[i + 1]), slice(start[j], start[j + 1])
            score[:, at] = rho[at] + k[:, si] @ c[j - 1, si] + k[:, sj] @ c[i, sj]
            for r in range(20):
                votes[r, i if score[r, at] > 0 else j] += 1
        if count == 2:
            score = np.hstack([-score, score])
        yield (f"svm_classes_{count}", "SVMClassifier", [x],
               [votes.argmax(axis=1), score.astype(np.float32)],
               {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0],
                "coefficients": floats(c[:count - 1, :n]), "support_vectors": floats(v[:n]),
                "vectors_per_class": per[:count], "rho": floats(rho[:len(pairs)]),
                "classlabels_ints": list(range(count))})


def features():
    x = f(5, 4)
    yield "binarizer", "Binarizer", [x], [(x > 0.25).astype(np.float32)], {"threshold": 0.25}
    holes = x.copy()
    holes[RNG.random(x.shape) < 0.4] = np.nan
    fill = f(4)
    yield ("imputer_nan", "Imputer", [holes], [np.where(np.isnan(holes), fill, holes)],
           {"imputed_value_floats": floats(fill), "replaced_value_float": float("nan")})
    whole = RNG.integers(0, 4, (5, 4))
    yield ("imputer_int", "Imputer", [whole], [np.where(whole == 2, 77, whole)],
           {"imputed_value_int64s": [77], "replaced_value_int64": 2})
    yield ("onehot", "OneHotEncoder", [whole],
           [(whole[..., None] == np.array([3, 0, 1])).astype(np.float32)],
           {"cats_int64s": [3, 0, 1], "zeros": 1})
    yield ("features", "FeatureVectorizer", [x, x[:, :2]], [np.hstack([x, x[:, :2]])],
           {"inputdimensions": [4, 2]})
    yield ("extractor", "ArrayFeatureExtractor", [x, np.array([2, 0, 2])], [x[:, [2, 0, 2]]], {})
    table = {0: 1.5, 3: -2.0}
    yield ("label_float", "LabelEncoder", [whole],
           [np.array([[table.get(int(v), 9.0) for v in row] for row in whole], np.float32)],
           {"keys_int64s": [0, 3], "values_floats": [1.5, -2.0], "default_float": 9.0})
    yield ("label_tensor", "LabelEncoder", [np.array([1.0, np.nan, 2.5], np.float64)],
           [np.array([7, 8, -5], np.int16)],
           {"keys_tensor": np.array([1.0, np.nan]), "values_tensor": np.array([7, 8], np.int16),
            "default_tensor": np.array([-5], np.int16)}, 4)


def wider():
    """Rows longer than vectors, types other than float, and what only one kind of loop takes."""
    x = f(33, 37)
    for kind in (np.float64, np.int64, np.int32):
        v = (x * 4).astype(kind)
        yield f"binarizer_{kind.__name__}", "Binarizer", [v], [(v > 1).astype(kind)], {"threshold": 1.0}
    for kind in (np.float32, np.float64):
        v = np.round(x).astype(kind)
        yield (f"imputer_{kind.__name__}", "Imputer", [v], [np.where(v == 1, kind(.5), v)],
               {"imputed_value_floats": [.5], "replaced_value_float": 1.0})
    whole = RNG.integers(-3, 9, (30, 3))
    for name, keys in (("near", [-3, 5, 2]), ("far", [-3, 1 << 40, 5]), ("last", [1 << 62, -(1 << 62), 4])):
        table = dict(zip(keys, (7, 8, 9)))
        yield (f"label_{name}", "LabelEncoder", [whole], [np.array([[table.get(int(v), -1) for v in row] for row in whole])],
               {"keys_int64s": keys, "values_int64s": [7, 8, 9]})
        yield (f"onehot_{name}", "OneHotEncoder", [whole], [(whole[..., None] == np.array(keys)).astype(np.float32)],
               {"cats_int64s": keys, "zeros": 1})
    cut = RNG.integers(-9, 9, (5, 4)).astype(np.int32)
    yield ("features_cut", "FeatureVectorizer", [f(5, 2).astype(np.float64) * 0 + 2.5, cut],
           [np.hstack([np.full((5, 2), 2.5), np.zeros((5, 1)), cut[:, :3]]).astype(np.float32)], {"inputdimensions": [3, 3]})
    wide = RNG.integers(0, 99, (7, 5)).astype(np.int32)
    yield "extractor_int32", "ArrayFeatureExtractor", [wide, np.array([4, 4, 0])], [wide[:, [4, 4, 0]]], {}
    names = {"MAX": lambda v: v.max(1, keepdims=True), "L1": lambda v: np.abs(v).sum(1, keepdims=True),
             "L2": lambda v: np.sqrt((v * v).sum(1, keepdims=True))}
    for norm, by in names.items():
        v = x.astype(np.float64)
        yield f"normalizer_wide_{norm}", "Normalizer", [x], [(v / by(v)).astype(np.float32)], {"norm": norm}
    holes = x.copy()
    holes[3, 5] = np.nan
    yield ("normalizer_nan", "Normalizer", [holes], [(holes / np.nanmax(holes, 1, keepdims=True)).astype(np.float32)], {"norm": "MAX"})
    for kind, how in ((np.float32, "NONE"), (np.float64, "SOFTMAX"), (np.float32, "LOGISTIC"), (np.int64, "NONE")):
        v = (x * 3).astype(kind)
        for targets in (1, 5, 21):
            w, b = f(targets, 37, scale=.2), f(targets)
            score = v.astype(np.float64) @ w.T.astype(np.float64) + b
            yield (f"regressor_{kind.__name__}_{how}_{targets}", "LinearRegressor", [v], [post(score, how)],
                   {"coefficients": floats(w), "intercepts": floats(b), "targets": targets, "post_transform": how})
            if targets > 1:
                yield (f"classifier_{kind.__name__}_{how}_{targets}", "LinearClassifier", [v], [score.argmax(1), post(score, how)],
                       {"coefficients": floats(w), "intercepts": floats(b), "classlabels_ints": list(range(targets)), "post_transform": how})
    vectors, weights = f(101, 37), f(101)
    near = np.exp(-.02 * ((x[:, None].astype(np.float64) - vectors[None]) ** 2).sum(-1))
    yield ("svm_wide", "SVMRegressor", [x], [(near @ weights + .25)[:, None].astype(np.float32)],
           {"kernel_type": "RBF", "kernel_params": [.02, 0.0, 3.0], "n_supports": 101, "coefficients": floats(weights),
            "support_vectors": floats(vectors), "rho": [.25]})


TYPES["int16"] = 5


def check(opmeter, sets, name, op, inputs, want, attrs, version=3):
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        (tmp / "m.onnx").write_bytes(model(op, inputs, want, attrs, version))
        arrays = {f"in_x{i}": x for i, x in enumerate(inputs)}
        arrays.update({f"out_y{i}": y for i, y in enumerate(want)})
        np.savez(tmp / "m.npz", **arrays)
        good = True
        for isa in sets:
            done = subprocess.run(
                [opmeter, "run", tmp / "m.onnx", "--check", tmp / "m.npz", "--engine", "native" if isa else "onnxruntime", "-n", "2",
                 "-w", "0", "-q", "-o", tmp / "out"], capture_output=True, text=True, timeout=120 * PATIENCE,
                env={**os.environ, **({"OPMETER_ISA": isa} if isa else {})})
            if done.returncode:
                print(f"{name} {isa}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
                good = False
    return good


def main():
    args = [a for a in sys.argv[1:] if a != "--ort"]
    sets = [""] if "--ort" in sys.argv else [
        s for s in instruction_sets(args[0]) if s not in ("amx", "dotprod", "i8mm", "bf16")]  # floats as those before
    cases = [*regressors(), *classifiers(), *ensemble(), *linear(), *svm(), *features(), *wider()]
    if args[1:]:
        cases = [c for c in cases if c[0] in args[1:]]
    passed = sum(check(args[0], sets, *c) for c in cases)
    print(f"{passed} pass, {len(cases) - passed} fail")
    return passed != len(cases) or not cases


if __name__ == "__main__":
    sys.exit(main())
