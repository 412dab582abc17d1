#!/bin/sh
# run.sh -- check libopmeter-cuda on a machine with an NVIDIA GPU.
#
# usage: tests/gpu/run.sh FOLDER [all|quick|speed|examples|build]
#
# Builds the recorder and the CUDA library alone, with cc and nvcc and nothing installed beyond the
# CUDA toolkit, runs the examples and the faults that only a real GPU has, and the comparison with
# PyTorch's own profiler (bare, under opmeter, under PyTorch's profiler, in turn). What it leaves in
# FOLDER, tests/gpu/report.py turns into figures, on any machine that has opmeter built. build: no more
# than the two libraries, for which cc will do.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${1:?usage: tests/gpu/run.sh FOLDER [all|quick|speed|examples|build]}
what=${2:-all}
rounds=4
[ "$what" = quick ] && rounds=1
[ "$what" = speed ] && rounds=2
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
log=$out/log.txt
: >"$log"
root=$PWD
python=${PYTHON:-python3}
cuda=${CUDA_HOME:-/usr/local/cuda}
PATH=$PATH:$cuda/bin

say()
{
    echo "$*" | tee -a "$log"
}

# ---- build ----

library()
{
    cc -shared -O2 -fPIC -std=c17 -D_GNU_SOURCE '-DOPMETER_VERSION="gpu-check"' -Iinclude -Isrc \
        -fvisibility=hidden -include src/base/banned.h -pthread "$@"
}

library -Wl,-soname,libopmeter.so.0 -o "$work/libopmeter.so.0" src/rec/*.c \
    src/base/error.c >>"$log" 2>&1 || { say "libopmeter: does not build"; exit 1; }
ln -sf libopmeter.so.0 "$work/libopmeter.so"
# shellcheck disable=SC2046
library -o "$work/libopmeter-cuda.so" src/device/cuda/*.c $(cat src/device/base.txt) \
    -L"$work" -lopmeter -ldl -Wl,--no-undefined "-Wl,-rpath,\$ORIGIN" \
    -Wl,--version-script=src/device/cuda/exports.map >>"$log" 2>&1 ||
    { say "libopmeter-cuda: does not build"; exit 1; }
[ "$what" = build ] && { rm -rf "$work"; say "built"; exit 0; }
nvcc -O2 -o "$work/pipeline" examples/cuda/pipeline.cu >>"$log" 2>&1 ||
    { say "pipeline: does not build"; exit 1; }
say "built; $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null)"

# recorded FILE COMMAND...: run with what `opmeter record` sets
recorded()
{
    file=$1
    shift
    OPMETER_OUTPUT=$file CUDA_INJECTION64_PATH=$work/libopmeter-cuda.so \
        NVTX_INJECTION64_PATH=$work/libopmeter-cuda.so OPMETER_CUDA=1 timeout 120 "$@"
}

# tried NAME COMMAND...: run it and say how it ended
tried()
{
    name=$1
    shift
    "$@" >"$work/tried" 2>&1
    say "== $name: exit $?"
    sed 's/^/   /' "$work/tried" | tail -n 12 | tee -a "$log"
}

# ---- the CUDA example, and faults ----

examples()
{
    tried "pipeline, bare" "$work/pipeline"
    tried "pipeline" recorded "$out/pipeline.opm" "$work/pipeline" --steps 50
    tried "pipeline, pageable, reset" recorded "$out/pageable.opm" "$work/pipeline" --pageable --reset
    tried "no CUPTI" env OPMETER_CUPTI_LIB=/nowhere/libcupti.so \
        OPMETER_OUTPUT="$work/nocupti.opm" CUDA_INJECTION64_PATH="$work/libopmeter-cuda.so" \
        "$work/pipeline" --steps 2
    tried "no GPU" env CUDA_VISIBLE_DEVICES= OPMETER_OUTPUT="$work/nogpu.opm" \
        CUDA_INJECTION64_PATH="$work/libopmeter-cuda.so" "$work/pipeline" --steps 2
    tried "little room" env OPMETER_CUDA_BUFFER_MB=2 OPMETER_OUTPUT="$work/drops.opm" \
        CUDA_INJECTION64_PATH="$work/libopmeter-cuda.so" "$work/pipeline" --steps 3000
    if command -v ncu >/dev/null; then
        tried "under another profiler" recorded "$work/ncu.opm" timeout 100 ncu --clock-control none \
            --launch-count 2 "$work/pipeline" --steps 1
    fi
}

[ "$what" = speed ] || examples
[ "$what" = examples ] && { say "done"; exit 0; }

# ---- PyTorch ----

"$python" -c 'import torch' 2>/dev/null || { say "no PyTorch: done"; exit 0; }
train="$python $root/examples/python/train_gpu.py"
for i in $(seq $rounds); do
    for mode in bare opmeter cuda all; do
        # shellcheck disable=SC2086
        case $mode in
        bare) $train --repeat 3 >"$work/line" 2>>"$log" ;;
        opmeter) recorded "$work/train.opm" $train --repeat 3 >"$work/line" 2>>"$log" ;;
        *) $train --repeat 3 --profiler $mode >"$work/line" 2>>"$log" ;;
        esac
        say "train $mode $(tail -n 1 "$work/line")"
        [ $mode = opmeter ] && cp "$work/train.opm" "$work/train$i.opm"
    done
done
(cd "$work" && tar czf "$out/train.tgz" train[0-9].opm)
[ "$what" = speed ] && { say "done"; exit 0; }
# shellcheck disable=SC2086
tried "operators by NVTX" recorded "$out/operators.opm" $train --emit-nvtx --steps 20
# shellcheck disable=SC2086
tried "PyTorch's profiler inside a recording" recorded "$work/both.opm" $train --profiler cuda \
    --steps 10
# shellcheck disable=SC2086
(
    export OPMETER_OUTPUT="$work/killed.opm" CUDA_INJECTION64_PATH="$work/libopmeter-cuda.so"
    exec $train --steps 100000 >/dev/null 2>>"$log"
) &
victim=$!
sleep 25
kill -KILL $victim
wait $victim 2>/dev/null
(cd "$work" && tar czf "$out/killed.tgz" killed.opm killed.opm-live 2>>"$log")
say "done"
