#!/bin/sh
# check_format.sh -- every C and C++ file is as clang-format 14 writes it.
#
# usage: tools/check_format.sh [--fix]
# Exit 77 (skipped) without clang-format 14: other versions format differently.
set -eu
cd "$(dirname "$0")/.."

format=
for name in clang-format-14 clang-format; do
    case "$($name --version 2>/dev/null)" in
    *' 14.'*) format=$name && break ;;
    esac
done
if [ -z "$format" ]; then
    echo 'clang-format 14 is not installed'
    exit 77
fi

folders=
for folder in src include tests bench examples python; do
    [ -d $folder ] && folders="$folders $folder"
done
# The files, through clang-format with the given options. $folders is meant to be split.
each() {
    find $folders -path python/build -prune -o \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.cc' \) -print0 |
        xargs -0 -r "$format" --style=file "$@"
}

if [ "${1-}" = --fix ]; then
    each -i
    exit
fi
bad=$(each --dry-run -Werror 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort | uniq -c)
[ -z "$bad" ] && exit 0
echo "$bad" | while read -r count file; do
    echo "$file: $count places are not as clang-format writes them"
done
echo 'to mend it: tools/check_format.sh --fix'
exit 1
