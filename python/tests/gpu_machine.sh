#!/bin/sh
# gpu_machine.sh -- the Python package on another machine: its PyTorch, ONNX Runtime, GPU.
#
# usage: python/tests/gpu_machine.sh pack BUILD DIR     here: all that is needed, into DIR
#        python/tests/gpu_machine.sh run DIR RESULTS    there: the tests, and gpu_machine.py
#
# The other machine needs nothing but python3 and its frameworks: DIR has the package, the libraries
# that it is linked with, the tests and a model. RESULTS gets texts and small traces.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

pack() {
    build=$1 dir=$2
    rm -rf "$dir"
    mkdir -p "$dir/lib"
    cmake --install "$build" --component python --prefix "$dir" --strip >/dev/null
    cp -r "$here/../opmeter" "$dir/"
    mkdir -p "$dir/python"
    cp -r "$here" "$dir/python/tests"
    "$build/opmeter" zoo mlp -q -o "$dir/mlp.onnx"
    ldd "$dir"/opmeter/*.so* | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
        grep -Ev '/(libc|libm|libpthread|libdl|ld-linux)[-.]|libopmeter' |
        while read -r library; do cp -L "$library" "$dir/lib/"; done
    find "$dir" -name __pycache__ -prune -exec rm -rf {} +
    du -sh "$dir"
}

run() {
    dir=$(cd "$1" && pwd)
    mkdir -p "$2"
    results=$(cd "$2" && pwd)
    export PYTHONPATH="$dir"
    # Libraries of the other machine come first; those that it lacks are in lib/.
    if ! python3 -c 'import opmeter' 2>/dev/null; then
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir/lib"
    fi
    python3 -c 'import opmeter; print("opmeter", opmeter.__version__)'
    timeout 270 python3 "$dir/python/tests/run.py" >"$results/tests.txt" 2>&1 || true
    grep -c '^ok' "$results/tests.txt" || true
    grep -A30 '^not ok' "$results/tests.txt" || true
    timeout 280 python3 "$here/gpu_machine.py" "$dir/mlp.onnx" "$results" 2>&1 |
        tee "$results/checks.txt"
}

case "${1-}" in
pack) pack "$2" "$3" ;;
run) run "$2" "$3" ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
