#!/usr/bin/env python3
"""gpu_machine.py -- frameworks as they are on this machine, recorded without a change.

usage: gpu_machine.py MODEL.onnx RESULTS

Runs small programs bare and recorded, and prints what came of each: exit code, what was said, what
is in the trace, how much longer a step took. See gpu_machine.sh.
"""
import importlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import opmeter

HOOK = os.path.join(os.path.dirname(opmeter.__file__), "hook")

TRAIN = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
device, workers, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
layers = [m for _ in range(6) for m in (torch.nn.Linear(512, 512), torch.nn.GELU())]
net = torch.nn.Sequential(*layers, torch.nn.Linear(512, 1)).to(device)
if len(sys.argv) > 4:
    net = torch.compile(net)
best = torch.optim.AdamW(net.parameters())
data = TensorDataset(torch.randn(64 * steps, 512), torch.randn(64 * steps, 1))
times = []
begun = time.perf_counter()
for x, y in DataLoader(data, batch_size=64, num_workers=workers, pin_memory=device == "cuda"):
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = torch.nn.functional.mse_loss(net(x), y)
    best.zero_grad()
    loss.backward()
    best.step()
    value = loss.item()
    now = time.perf_counter()
    times.append(now - begun)
    begun = now
times = sorted(times[len(times) // 2:])
print("step_us", round(times[len(times) // 2] * 1e6, 1))
"""

ORT = """
import sys, numpy, onnxruntime as ort
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
for _ in range(20):
    out = session.run(None, {name: numpy.ones((1, 784), numpy.float32)})
print("sum", round(float(out[0].sum()), 3))
"""

FACTS = (
    ("spans", "SELECT count(*) FROM span"),
    ("operators", "SELECT count(*) FROM op"),
    ("steps", "SELECT count(*) FROM step"),
    ("split by", "SELECT group_concat(DISTINCT split_by) FROM step_trace"),
    ("hardware spans", "SELECT count(*) FROM span WHERE layer = 'hardware'"),
    ("backward", "SELECT count(*) FROM span WHERE name LIKE '%Backward0'"),
    ("queue samples", "SELECT count(*) FROM sample JOIN track ON track.id = sample.track "
                      "WHERE track.kind = 'queue'"),
    ("processes", "SELECT count(DISTINCT pid) FROM track"),
    ("repaired or lost", "SELECT group_concat(name || ' ' || count, ', ') FROM import_stat"),
)


def version(name):
    try:
        return getattr(importlib.import_module(name), "__version__", "?")
    except Exception as error:
        return f"not here ({error})"


def once(folder, code, words, env):
    script = os.path.join(folder, "program.py")
    with open(script, "w") as file:
        file.write(code)
    start = time.monotonic()
    done = subprocess.run([sys.executable, script, *map(str, words)], text=True,
                          capture_output=True, env={**os.environ, **env}, timeout=120)
    return done, time.monotonic() - start


def recorded(parts, **more):
    path = os.pathsep.join([HOOK, os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path, "OPMETER_RECORD_DIR": parts,
            "OPMETER_OUTPUT": os.path.join(parts, "%p.opm"), **more}


def step_us(done):
    found = re.search(r"step_us ([\d.]+)", done.stdout)
    return float(found[1]) if found else None


def check(results, name, code, words, keep=False, **more):
    """Twice bare and twice recorded, in turns; what the last recording has."""
    folder = os.path.join(results, "work")
    times = {"bare": [], "recorded": []}
    print(f"\n== {name}")
    for turn in range(4):
        how = ("bare", "recorded")[turn % 2]
        parts = os.path.join(folder, "parts")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(parts)
        done, wall = once(folder, code, words, recorded(parts, **more) if turn % 2 else {})
        times[how].append((step_us(done), wall))
        if done.returncode or done.stderr.strip():
            print(f"{how}: exit {done.returncode}\n{done.stderr.strip()[-1500:]}")
    for how, pairs in times.items():
        steps = [step for step, _ in pairs if step]
        print(f"{how}: step {min(steps) if steps else 'N/A'} us, "
              f"program {statistics.mean(wall for _, wall in pairs):.2f} s")
    names = sorted(os.listdir(parts))
    print("parts:", ", ".join(f"{part} ({os.path.getsize(os.path.join(parts, part))})"
                              for part in names))
    if not names:
        return
    try:
        with opmeter.open(parts) as trace:
            for fact, sql in FACTS:
                print(f"  {fact}: {trace.value(sql)}")
            if keep:
                trace.export(os.path.join(results, f"{keep}.opm"), "opm")
    except opmeter.Error as error:
        print("  cannot be opened:", error)


def arrow(results):
    """Who takes our Arrow stream here."""
    print("\n== Arrow")
    result = opmeter.run("zoo:mlp", iterations=5)
    answer = result.arrow("SELECT ts, dur, name, args, op FROM span")
    want = [row["name"] for row in result.rows("SELECT name FROM span")]
    for name, take in (
            ("pyarrow", lambda m: _pyarrow(m, answer)),
            ("polars", lambda m: m.DataFrame(answer)["name"].to_list()),
            ("duckdb", lambda m: [row[0] for row in m.sql("SELECT name FROM answer").fetchall()]),
            ("pandas", lambda m: list(answer.df()["name"]))):
        try:
            got = take(importlib.import_module(name))
            print(f"  {name}: {'the same' if got == want else 'DIFFERENT'}")
        except ImportError:
            print(f"  {name}: not here")
        except Exception as error:
            print(f"  {name}: FAILED {type(error).__name__}: {error}")


def _pyarrow(pyarrow, answer):
    table = pyarrow.table(answer)
    table.validate(full=True)
    return table.column("name").to_pylist()


def main():
    model, results = sys.argv[1], sys.argv[2]
    print(sys.version.replace("\n", " "))
    for name in ("torch", "onnxruntime", "numpy", "pandas", "pyarrow", "polars", "duckdb",
                 "tensorflow"):
        print(f"{name}: {version(name)}")
    arrow(results)
    check(results, "ONNX Runtime", ORT, [model], keep="ort")
    check(results, "PyTorch, CPU", TRAIN, ["cpu", 0, 40], keep="torch-cpu")
    check(results, "PyTorch, CPU, two workers", TRAIN, ["cpu", 2, 40])
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        check(results, "PyTorch, CUDA", TRAIN, ["cuda", 2, 200], keep="torch-cuda")
        check(results, "PyTorch, CUDA, NVTX for opmeter's CUDA library", TRAIN, ["cuda", 0, 100],
              OPMETER_CUDA="1")
        check(results, "PyTorch, CUDA, compiled", TRAIN, ["cuda", 0, 60, "compile"])
    shutil.rmtree(os.path.join(results, "work"), ignore_errors=True)


if __name__ == "__main__":
    main()
