#!/usr/bin/env python3
"""train_gpu.py -- a training loop in PyTorch to look at: a small transformer on a GPU.

    opmeter record -- python3 train_gpu.py
    opmeter top opmeter.out/*.opm

The loop knows nothing of opmeter; NVTX names its parts. With --profiler it is measured by PyTorch's
own profiler instead, for comparison: cuda (device activities alone) or all (operators too). With
--emit-nvtx PyTorch tells its operators through NVTX. The last line of output is a JSON object:
seconds of the measured loops and, of PyTorch's profiler, how many kernels it saw in the first of
them and their time.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import json
import os
import tempfile
import time

import torch
from torch import nn


def build(width, depth, device):
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, depth, enable_nested_tensor=False),
                          nn.Linear(width, 10)).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4)


def train(model, optimizer, batches, targets, steps):
    criterion = nn.CrossEntropyLoss()
    for i in range(steps):
        torch.cuda.nvtx.range_push("step")
        x = batches[i % len(batches)].to("cuda", non_blocking=True)
        y = targets[i % len(targets)].to("cuda", non_blocking=True)
        torch.cuda.nvtx.range_push("forward")
        loss = criterion(model(x).mean(dim=1), y)
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_push("backward")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_push("update")
        optimizer.step()
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_pop()
    return loss


def profiler(kind):
    activities = [torch.profiler.ProfilerActivity.CUDA]
    if kind == "all":
        activities.append(torch.profiler.ProfilerActivity.CPU)
    return torch.profiler.profile(activities=activities)


def kernels_of(profile):
    """Kernels that PyTorch's profiler saw, and their time, out of the trace that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        with open(path) as f:
            events = json.load(f)["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    return len(kernels), sum(e["dur"] for e in kernels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=1, help="how often to measure the loop")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--profiler", choices=["none", "cuda", "all"], default="none")
    parser.add_argument("--emit-nvtx", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(1)
    batches = [torch.randn(args.batch, 64, args.width).pin_memory() for _ in range(4)]
    targets = [torch.randint(0, 10, (args.batch,)).pin_memory() for _ in range(4)]
    model, optimizer = build(args.width, args.depth, "cuda")
    train(model, optimizer, batches, targets, args.warmup)
    torch.cuda.synchronize()

    result = {"steps": args.steps, "seconds": []}
    for i in range(args.repeat):
        measured = contextlib.nullcontext() if args.profiler == "none" else profiler(args.profiler)
        emitted = (torch.autograd.profiler.emit_nvtx(record_shapes=True) if args.emit_nvtx
                   else contextlib.nullcontext())
        with measured as profile, emitted:
            torch.cuda.nvtx.range_push("measured")
            start = time.perf_counter()
            loss = train(model, optimizer, batches, targets, args.steps)
            torch.cuda.synchronize()
            result["seconds"].append(round(time.perf_counter() - start, 6))
            torch.cuda.nvtx.range_pop()
        if profile and i == 0:
            result["kernels"], result["kernel_us"] = kernels_of(profile)
    result["loss"] = loss.item()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
