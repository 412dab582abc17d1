#!/bin/sh
# arm64_root.sh -- a folder with Debian's arm64 libraries and headers, to build for that machine
# and to run what was built: FOLDER, usually build/arm64-root, where tools/arm64.cmake looks.
#
# usage: tools/arm64_root.sh FOLDER PACKAGE...
#
# It is apt's own answer to what the packages need, unpacked; nothing of the system changes, and
# root is not needed. Prints nothing and needs no network when FOLDER has these packages already.
set -eu

[ $# -ge 2 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
folder=$1
shift
[ "$(cat "$folder/packages" 2>/dev/null)" != "$*" ] || exit 0

mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")
part=$folder.part
rm -rf "$part"
trap 'rm -rf "$part"' EXIT
mkdir -p "$part/apt/state/lists/partial" "$part/apt/cache/archives/partial"
: >"$part/apt/status"
log=$part/apt/log
apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
        -o Dir::State="$part/apt/state" -o Dir::State::status="$part/apt/status" \
        -o Dir::Cache="$part/apt/cache" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User=root "$@" >>"$log" 2>&1 </dev/null
}
fail() {
    tail -n 15 "$log" >&2
    echo "arm64_root: $1" >&2
    exit 1
}
echo "fetching arm64 libraries into $folder"
apt update || echo 'arm64_root: the package index could not be updated' >&2
apt install -y --no-install-recommends --download-only "$@" || fail "could not fetch $*"

# As Debian's folders are merged; links that begin at / begin at the folder.
for dir in bin lib sbin; do
    mkdir -p "$part/tree/usr/$dir"
    ln -s usr/$dir "$part/tree/$dir"
done
for deb in "$part"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" |
        tar -x --keep-directory-symlink --no-same-owner -C "$part/tree" \
            --exclude ./usr/share/doc --exclude ./usr/share/man --exclude ./usr/share/locale \
            2>>"$log" || fail "could not unpack $deb"
done
find "$part/tree" -type l -lname '/*' | while read -r link; do
    ln -sfn "$folder$(readlink "$link")" "$link"
done
echo "$*" >"$part/tree/packages"
rm -rf "$folder"
mv "$part/tree" "$folder"
