"""mock_train.py -- plays resnet50.py for tests/gpu/cost.py: opmeter-mock-gpu is what runs on the GPU.

What PyTorch's profiler would say of it is known: twenty steps of three kernels, 200, 200 and 5 us long; as a graph
of 10, 30 and 5 us, twenty replays of each of two clones.
"""
import json
import os
import subprocess
import sys

graph = "--graph" in sys.argv
subprocess.run([os.environ["MOCK_GPU"], "graphs" if graph else "train", "20"], check=True)
result = {"median_ms": 1.0}
if "--profiler" in sys.argv and "--no-count" not in sys.argv:
    result.update({"kernels": 120, "kernel_ms": 1.8} if graph else {"kernels": 60, "kernel_ms": 8.1})
print(json.dumps(result))
