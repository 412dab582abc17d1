#!/bin/sh
# gate.sh -- is B slower than A may make way for? Both are models, with options of 'opmeter run'.
#
# usage: gate.sh A B [OPTION OF BENCH]...
#
# Exits as 'opmeter bench' does: 0 it may pass, 1 it may not, 125 it cannot be told. Leaves comment.md,
# bench.svg and bench.xml. So 'git bisect run' can take it, too.
set -u

if [ $# -lt 2 ]; then
    echo 'usage: gate.sh A B [OPTION OF BENCH]...' >&2
    exit 2
fi
opmeter bench --time 10m --fail-if 'latency>3%' --markdown --svg bench.svg --junit bench.xml "$@" > comment.md
status=$?
cat comment.md
exit $status
