#!/usr/bin/env python3
"""furiosa_trace.py -- the Furiosa SDK's sample of a profiling context, with only the imports
changed: a Chrome trace in which the runs are labelled.

usage: furiosa_trace.py [MODEL]

Leaves mnist_trace.json. SPDX-License-Identifier: Apache-2.0
"""
import sys

from opmeter import session, tensor
from opmeter.profiler import profile

model_path = sys.argv[1] if len(sys.argv) > 1 else "zoo:mlp"

with open("mnist_trace.json", "w") as output:
    with profile(file=output) as profiler:
        with session.create(model_path) as sess:
            input_shape = sess.input(0)

            with profiler.record("warm up") as record:
                for _ in range(0, 10):
                    sess.run(tensor.rand(input_shape))

            with profiler.record("trace") as record:
                for _ in range(0, 10):
                    sess.run(tensor.rand(input_shape))
