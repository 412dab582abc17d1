#!/usr/bin/env python3
"""cambricon_session.py -- the sample of Cambricon's TensorFlow models for Session Run.

    export TENSORFLOW_MODELS_TRACE_LEVEL=2    # 0: off
    ./cambricon_session.py

Leaves profile/ with timeline/, step_stats/, summary.json and summary.md. Without TensorFlow, the
session is a few lines of Python whose operators are named by hand.
SPDX-License-Identifier: Apache-2.0
"""
import opmeter
from opmeter.cambricon import Profiler

try:
    import tensorflow as tf
except ImportError:
    tf = None

profiler = Profiler()
graph_name = "vgg16"


def tensorflow_steps():
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as sess:
        y = tf.matmul(tf.random.normal([1, 64]), tf.random.normal([64, 10]))
        options = tf.compat.v1.RunOptions(trace_level=profiler.get_tf_trace_level())
        for step in range(3):
            profiler.step_start(graph_name, step)
            sess.run(y, options=options, run_metadata=profiler.get_tf_runmetadata(graph_name))
            profiler.step_end(graph_name, step)


class Session:
    """Two operators: a product and a sum."""

    def __init__(self):
        self.mul = opmeter.op("fc/MatMul", type="MatMul", device="CPU",
                              outputs=[("fc/MatMul:0", "fp32", (1, 64), 256)])
        self.add = opmeter.op("fc/BiasAdd", type="BiasAdd", device="CPU",
                              outputs=[("fc/BiasAdd:0", "fp32", (1, 64), 256)])

    def run(self, values):
        with self.mul:
            products = [2 * value for value in values]
        with self.add:
            return [product + 1 for product in products]


def own_steps():
    sess = Session()
    for step in range(3):
        profiler.activity_start("prepare", step, "This is making input")
        values = [0.5] * 64
        profiler.activity_end("prepare", step, "This is making input")
        profiler.step_start(graph_name, step)
        sess.run(values)
        profiler.step_end(graph_name, step)


if tf:
    tensorflow_steps()
else:
    own_steps()

profiler.finalize()
