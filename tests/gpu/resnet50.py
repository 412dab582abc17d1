#!/usr/bin/env python3
"""resnet50.py -- training of a ResNet-50, of which it is known what runs.

usage: resnet50.py [--mark nvtx|record_function|opmeter|none] [--amp] [--graph] [--tell] ...

PyTorch alone; knows nothing of opmeter but with --mark opmeter. The first iterations warm up and are
not marked; each of the others is a range of the program's own, called as people call them. The last
line of output is a JSON object: seconds of the marked iterations, and what ran. How often each
module was called is counted by --tell, in a process that nobody else measures; --profiler has
PyTorch's own profiler count instead. With --graph an iteration is captured once, and replayed.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import contextlib
import json
import time

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inner, width, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.short = nn.Sequential()
        if stride != 1 or inner != 4 * width:
            self.short = nn.Sequential(nn.Conv2d(inner, 4 * width, 1, stride, bias=False),
                                       nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu(self.branch(x) + self.short(x))


def resnet50(classes=1000):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inner, width, stride if block == 0 else 1))
            inner = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes)]
    return nn.Sequential(*layers)


@contextlib.contextmanager
def mark(kind, number):
    if kind == "nvtx":
        torch.cuda.nvtx.range_push(f"step {number}")
        yield
        torch.cuda.nvtx.range_pop()
    elif kind == "record_function":
        with torch.profiler.record_function(f"iteration {number}"):
            yield
    elif kind == "opmeter":
        import opmeter
        with opmeter.step(number, "resnet50"):
            yield
    else:
        yield


def captured(iterate):
    """The same iteration as a graph, after some outside of it as PyTorch wants them."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            iterate()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        iterate()
    return graph.replay


def tell(net, calls):
    for module in net.modules():
        if not list(module.children()):
            module.register_forward_hook(
                lambda module, *_: calls.update([type(module).__name__]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mark", choices=["nvtx", "record_function", "opmeter", "none"],
                        default="nvtx")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--tell", action="store_true")
    parser.add_argument("--profiler", nargs="?", const="all", choices=["cuda", "all"],
                        help="PyTorch's own: device activities alone, or operators with shapes too")
    parser.add_argument("--no-count", action="store_true",
                        help="leave what the profiler saw alone, which takes it long to tell")
    args = parser.parse_args()

    torch.manual_seed(1)
    net = resnet50().to(args.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=.01, momentum=.9)
    x = torch.randn(args.batch, 3, args.side, args.side, device=args.device)
    y = torch.randint(0, 1000, (args.batch,), device=args.device)
    calls = collections.Counter()
    if args.tell:
        tell(net, calls)

    def wait():
        if args.device == "cuda":
            torch.cuda.synchronize()

    def iterate():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.amp):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    profile = contextlib.nullcontext()
    if args.profiler:
        activity = torch.profiler.ProfilerActivity
        operators = args.profiler == "all"
        profile = torch.profiler.profile(activities=[activity.CUDA] + [activity.CPU] * operators,
                                         record_shapes=operators)
    seconds = []
    with profile:
        for _ in range(args.warmup):
            iterate()
        if args.graph:
            iterate = captured(iterate)
            for _ in range(args.warmup):
                iterate()
        wait()
        for number in range(args.steps):
            begun = time.perf_counter()
            with mark(args.mark, number):
                iterate()
                wait()
            seconds.append(time.perf_counter() - begun)
    result = {"steps": args.steps, "iterations": args.warmup + args.steps,
              "seconds": sum(seconds), "median_ms": sorted(seconds)[len(seconds) // 2] * 1e3,
              "p10_ms": sorted(seconds)[len(seconds) // 10] * 1e3,
              "convolutions": sum(isinstance(m, nn.Conv2d) for m in net.modules())}
    if args.tell:
        result["calls"] = dict(calls)
    if args.profiler and not args.no_count:
        kernels = [event for event in profile.events()
                   if event.device_type == torch.autograd.DeviceType.CUDA
                   and not event.name.startswith(("Mem", "step"))]
        result["kernels"] = len(kernels)
        result["kernel_ms"] = sum(event.time_range.elapsed_us() for event in kernels) / 1e3
        result["operators"] = {event.key: event.count for event in profile.key_averages()
                               if event.key.startswith("aten::") and event.count >= 25}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
