#!/bin/sh
# all.sh -- everything that docs/gpu.md and docs/llm.md state of a machine with a GPU, in one go.
#
# usage: tests/gpu/all.sh OUT [PACKAGE]
#
# There: with PyTorch and the Python package, a wheel (default: the one in build/package/, which
# `script/package wheel` makes) or a folder that has opmeter/ in it. Takes SECONDS_MAX (520) seconds: training loops
# bare, recorded and under PyTorch's profiler (cost.py); a language model that serves
# (examples/python/serve_gpu.py); the CUDA example with its faults (run.sh), if there is nvcc. OUT gets a
# few files of some megabytes; tests/gpu/report.py OUT makes tables of them, here or elsewhere. COST_WORDS and
# SERVE_WORDS are for cost.py and the program that serves.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${1:?usage: tests/gpu/all.sh OUT [PACKAGE]}
package=${2:-$(ls build/package/*.whl 2>/dev/null | tail -n 1)}
limit=${SECONDS_MAX:-520}
python=${PYTHON:-python3}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begun=$(date +%s)

left() # seconds, less those that are kept for what follows
{
    echo $((limit - ($(date +%s) - begun) - $1))
}

case ${package:?there is no package: script/package wheel makes one} in
*.whl) "$python" -m zipfile -e "$package" "$work/package" && package=$work/package ;;
esac
chmod -R u+x "$package/opmeter/bin" 2>/dev/null
PYTHONPATH=$(cd "$package" && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
library=$package/opmeter/libopmeter-cuda.so
{
    "$python" -c 'import opmeter; print("opmeter", opmeter.__version__)'
    "$python" -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)'
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    nproc
    uname -r
} >"$out/machine.txt" 2>&1

# What is short comes first; training loops take what is left.
if command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
    timeout 80 tests/gpu/run.sh "$work/run" examples >"$work/run.log" 2>&1
    (cd "$work" && tar czf "$out/run.tgz" run run.log)
fi
timeout 130 "$python" tests/gpu/serve.py "$out" --cuda "$library" --rounds 3 --seconds 90 ${FORK---fork} \
    --words "${SERVE_WORDS-}" >"$out/serve.log" 2>&1
# A round takes up to a minute, and one may have begun just before the end.
timeout "$(left 10)" "$python" tests/gpu/cost.py "$work/cost" --cuda "$library" --more \
    --rounds "${ROUNDS:-7}" --seconds "$(left 90)" ${FORK---fork} \
    ${COST_PROGRAM:+--program "$COST_PROGRAM"} ${COST_WORDS-} >"$out/cost.log" 2>&1
(cd "$work" && tar czf "$out/cost.tgz" cost)
tail -n 3 "$out/serve.log" "$out/cost.log"
ls -l "$out"
echo "done in $(($(date +%s) - begun)) s"
