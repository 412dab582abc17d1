#!/usr/bin/env python3
"""furiosa_environment.py -- a program that says nothing of profiling; the environment does:

    export FURIOSA_PROFILER_OUTPUT_PATH=`pwd`/tracing.json
    ./furiosa_environment.py [MODEL]
    ls -l ./tracing.json

SPDX-License-Identifier: Apache-2.0
"""
import sys

from opmeter import session, tensor

model_path = sys.argv[1] if len(sys.argv) > 1 else "zoo:mlp"

with session.create(model_path) as sess:
    outputs = sess.run(tensor.rand(sess.input(0)))
    print([list(output.shape) for output in outputs])
