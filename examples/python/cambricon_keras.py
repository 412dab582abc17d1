#!/usr/bin/env python3
"""cambricon_keras.py -- the sample of Cambricon's TensorFlow models for Keras.

    export TENSORFLOW_MODELS_TRACE_LEVEL=2    # 0: off
    ./cambricon_keras.py

Leaves profile/. Needs TensorFlow. SPDX-License-Identifier: Apache-2.0
"""
import sys

try:
    import tensorflow as tf
except ImportError:
    sys.exit("cambricon_keras.py needs TensorFlow")

from opmeter.cambricon import Profiler

profiler = Profiler()
graph_name = "dense"

tf.compat.v1.disable_eager_execution()
model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(64,))])
options = tf.compat.v1.RunOptions(trace_level=profiler.get_tf_trace_level())
model.compile("sgd", "mse", options=options, run_metadata=profiler.get_tf_runmetadata(graph_name))
model.fit(tf.random.normal([32, 64]), tf.random.normal([32, 10]), steps_per_epoch=4,
          callbacks=[profiler.get_collect_runmetadata_callback(graph_name)])
profiler.finalize()
