#!/usr/bin/env python3
"""mindinsight_train.py -- MindInsight's sample: a Profiler around training, and analyse() after it.

usage: mindinsight_train.py

MindSpore is not needed: the network is a few lines of Python that say what they do, as any program
can. Leaves ./data/profiler; `opmeter steps data` and `opmeter serve data` show it.
SPDX-License-Identifier: Apache-2.0
"""
import queue
import random
import threading

import opmeter
from opmeter import Profiler


class Net:
    """y = w * x, fitted by hand; its operators are named as MindSpore names them."""

    def __init__(self):
        self.weight = 0.0
        self.mul = opmeter.op("Default/network/Mul-op1", type="Mul", flops=64)
        self.grad = opmeter.op("Gradients/network/gradMul/Mul-op2", type="Mul", flops=128)
        self.update = opmeter.op("Default/optimizer/ApplyMomentum-op3", type="ApplyMomentum")

    def train_one(self, batch, learning_rate):
        opmeter.phase("forward")
        with self.mul:
            errors = [self.weight * x - y for x, y in batch]
        opmeter.phase("backward")
        with self.grad:
            gradient = sum(error * x for error, (x, _) in zip(errors, batch)) / len(batch)
        opmeter.phase("update")
        with self.update:
            self.weight -= learning_rate * gradient


def create_dataset(batches, size, to, size_of):
    """The input pipeline: a thread that fills a queue, whose length is recorded."""
    def produce():
        for _ in range(batches):
            with opmeter.span("prepare batch", category="data"):
                batch = [(x, 3 * x) for x in (random.random() for _ in range(size))]
            to.put(batch)
            size_of.size(to.qsize())
        to.put(None)

    threading.Thread(target=produce, name="dataset").start()


def test_profiler():
    # Init Profiler
    profiler = Profiler(output_path='./data', is_detail=True, is_show_op_path=False, subgraph='all')

    # Init hyperparameter
    epoch = 2
    # Init network
    net = Net()
    # Model Train
    step = 0
    for _ in range(epoch):
        waiting = queue.Queue(8)
        size_of = opmeter.queue("host queue", 8, producer="dataset", workers=1, consumer="train")
        create_dataset(20, 64, waiting, size_of)
        while True:
            with opmeter.span("get_next", category="data"):
                batch = waiting.get()
            size_of.size(waiting.qsize())
            if batch is None:
                break
            with opmeter.step(step, "net"):
                net.train_one(batch, 0.5)
            step += 1

    # Profiler end
    trace = profiler.analyse()
    for row in trace.rows("SELECT type, count, mean_ns FROM type_stats ORDER BY type"):
        print(f"{row['type']:<16} {row['count']:>4} {row['mean_ns']:>10.0f} ns")


if __name__ == "__main__":
    test_profiler()
