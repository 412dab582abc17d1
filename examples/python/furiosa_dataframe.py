#!/usr/bin/env python3
"""furiosa_dataframe.py -- the Furiosa SDK's sample of a trace as a DataFrame, with only the imports
changed: five reports, and the frame itself.

usage: furiosa_dataframe.py [MODEL]

SPDX-License-Identifier: Apache-2.0
"""
import sys

from opmeter import session, tensor
from opmeter.profiler import RecordFormat, profile

model_path = sys.argv[1] if len(sys.argv) > 1 else "zoo:mlp"

with profile(format=RecordFormat.PandasDataFrame) as profiler:
    with session.create(model_path) as sess:
        input_shape = sess.input(0)

        with profiler.record("warm up") as record:
            for _ in range(0, 2):
                sess.run(tensor.rand(input_shape))

        with profiler.record("trace") as record:
            for _ in range(0, 2):
                sess.run(tensor.rand(input_shape))

profiler.print_summary()

profiler.print_inferences()

profiler.print_npu_executions()

profiler.print_npu_operators()

profiler.print_external_operators()

df = profiler.get_pandas_dataframe()
print(df[df["name"] == "trace"][["trace_id", "name", "thread.id", "dur"]])
