#!/usr/bin/env python3
"""llama.py -- llama.cpp as npm ships it (@node-llama-cpp/linux-x64), in node, unchanged, under `opmeter record`: the same tokens
as without it, as many as the program counts, and operators that compute what the model has.

usage: tests/npm/llama.py --opmeter FILE --build FOLDER

The packages, about 70 MB unpacked, are fetched into FOLDER/npm-llama once; without npm, Node 20 or the network every test is
skipped. Prints TAP."""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

PACKAGES = ["node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64@3.22.1"]
HERE = pathlib.Path(__file__).resolve().parent
QUANTS = ["f32", "f16", "q8_0", "q4_0"]
# Of zoo's llama-tiny: matrices of a layer, and the one behind all; each number is multiplied and added for a token.
LAYERS, LAYER, OUTPUT = 4, 2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 704, 512 * 256
MATRICES = 7 * LAYERS + 1


def fetch(folder):
    """None, or why there are no packages."""
    if not shutil.which("npm") or not shutil.which("node"):
        return "npm is not installed"
    if not (folder / "node_modules" / "@node-llama-cpp" / "linux-x64").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        try:
            done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional",
                                   *PACKAGES], cwd=folder, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return "npm did not answer in time"
        if done.returncode != 0:
            return "npm could not fetch the packages"
    shutil.copy(HERE / "llama" / "generate.mjs", folder)
    done = subprocess.run(["node", "-e", "import('node-llama-cpp').then((m) => m.getLlama({ gpu: false, build: 'never' }))"
                           ".then((l) => l.dispose())"], cwd=folder, capture_output=True, text=True, timeout=200)
    return None if done.returncode == 0 else "this machine's Node cannot load the packages"


def run(*command):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=400)


class Model:
    def __init__(self, opmeter, packages, place, quant):
        self.opmeter, self.place = opmeter, place
        model = place / f"{quant}.gguf"
        run(opmeter, "zoo", f"llama-tiny?quant={quant}", "-o", model)
        program = ["node", packages / "generate.mjs", model]
        self.bare = json.loads(run(*program).stdout)
        record = [opmeter, "record", "--no-samples", "-o"]
        self.whole = json.loads(run(*record, place / "whole.opm", *program).stdout)
        done = run(*record, place / "nodes.opm", "--ggml-ops", *program)
        self.nodes, self.account = json.loads(done.stdout), done.stderr

    def query(self, trace, sql):
        return json.loads(run(self.opmeter, "query", "--json", self.place / f"{trace}.opm", sql).stdout)

    def same_tokens(self):
        return self.bare == self.whole == self.nodes, (self.bare, self.whole, self.nodes)

    def requests(self):
        want = sorted((d["prompt"], len(d["tokens"])) for d in self.bare)
        got = [sorted((r["tokens_in"], r["tokens_out"]) for r in self.query(t, "SELECT * FROM request"))
               for t in ("whole", "nodes")]
        return got == [want, want], (got, want)

    def sums(self):
        rows = self.query("whole", "SELECT r.dur, r.ttft, sum(g.itl_ns) AS itl, l.queue_ns + l.prefill_ns + l.host_ns AS parts"
                          " FROM request AS r JOIN token_gaps AS g ON g.request = r.id JOIN request_latency AS l ON"
                          " l.request = r.id GROUP BY r.id")
        return len(rows) == 3 and all(r["ttft"] + r["itl"] == r["dur"] and r["parts"] == r["ttft"] for r in rows), rows

    def iterations(self):
        """Every token of a prompt goes in once, and every token but the last ones."""
        want = sum(d["prompt"] + len(d["tokens"]) - 1 for d in self.bare)
        got = self.query("whole", "SELECT sum(tokens_in) AS n FROM iteration")[0]["n"]
        return got == want, (got, want)

    def operators(self):
        """One token: a node for each matrix, and twice their numbers of FLOPs."""
        rows = self.query("nodes", "SELECT count(DISTINCT o.name) AS nodes, sum(o.flops) AS flops FROM op AS o JOIN (SELECT DISTINCT op"
                          " FROM op_tensor WHERE io = 'weight') AS w ON w.op = o.id WHERE o.type = 'MUL_MAT' AND o.id IN (SELECT"
                          " op FROM op_tensor WHERE io = 'output' AND shape NOT LIKE '%x%')")[0]
        return rows == {"nodes": MATRICES, "flops": 2 * (LAYERS * LAYER + OUTPUT)}, rows

    def graphs(self):
        """As a whole they compute that, too, and the attention; the account says what single nodes cost."""
        rows = self.query("whole", "SELECT min(flops) AS flops FROM op WHERE name LIKE 'graph of % nodes, 1 token,%'")[0]
        least = 2 * (LAYERS * LAYER + OUTPUT)
        return least <= rows["flops"] <= 1.2 * least and "node by node" in self.account, (rows, least, self.account)


TESTS = ["same_tokens", "requests", "sums", "iterations", "operators", "graphs"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    packages = args.build.resolve() / "npm-llama"
    why = fetch(packages)
    print(f"1..{len(QUANTS) * len(TESTS)}")
    failed = number = 0
    for quant in QUANTS:
        with tempfile.TemporaryDirectory() as temp:
            try:
                model = None if why else Model(pathlib.Path(args.opmeter).resolve(), packages, pathlib.Path(temp), quant)
                broken = None
            except subprocess.CalledProcessError as error:
                model, broken = None, (error.stderr or error.stdout).strip()[-600:].replace("\n", "\n# ")
            for test in TESTS:
                number += 1
                ok, told = getattr(model, test)() if model else (bool(why), broken)
                failed += not ok
                print(f"{'ok' if ok else 'not ok'} {number} - {quant}: {test.replace('_', ' ')}" +
                      (f" # SKIP {why}" if why else "" if ok else f"\n# {told}"))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
