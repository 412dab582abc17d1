#!/bin/sh
# gpu_figures.sh -- do tests/gpu/all.sh and report.py work? Stand-ins are CUPTI, the GPU and PyTorch.
#
# usage: gpu_figures.sh BUILD PYTHON
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/package"
cp -r "$build/python/opmeter" "$work/package/"
ln -s "$build/libopmeter-cuda.so" "$work/package/opmeter/"
export LD_LIBRARY_PATH="$build"
export MOCK_GPU="$build/tests/tools/opmeter-mock-gpu"
export OPMETER_CUPTI_LIB="$build/tests/tools/libmock-cupti.so" PYTHON="$2" CUDA_HOME=/nowhere
FORK='' ROUNDS=2 SECONDS_MAX=1000 PATH=/usr/bin:/bin COST_PROGRAM="$root/tests/device/mock_train.py" \
    SERVE_WORDS='--dry --requests 12 --rate 300' COST_WORDS='--first 1 --with OPMETER_CUDA_FLUSH_MS=0' \
    "$root/tests/gpu/all.sh" "$work/out" "$work/package" >"$work/log" 2>&1
"$2" "$root/tests/gpu/report.py" --opmeter "$build/opmeter" "$work/out" >"$work/report" ||
    { cat "$work/log" "$work/report"; exit 1; }
expect()
{
    grep -qF -e "$1" "$work/report" || { echo "not in the report: $1"; cat "$work/log" "$work/report"; exit 1; }
}
expect '| bare | 1.0, 1.0 | 1.00 | 1.00 |'
expect '| opmeter, operators with shapes and types | 1.0, 1.0 | 1.00 | 1.00 | 60 | 8.1 |'
expect '| graph: opmeter, operators with shapes and types | 1.0 | 1.00 | 1.00 | 120 | 1.8 |'
expect '| opmeter, OPMETER_CUDA_FLUSH_MS=0 | 1.0 |'
expect 'attributes 8=1'
expect 'graph: opmeter, operators with shapes and types: 120 kernels, 120 for PyTorch'
expect 'requests: 12; the loop itself: 12'
