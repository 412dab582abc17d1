#!/bin/sh
# musl_root.sh -- a folder with the libraries that opmeter needs, built for musl from Debian's
# sources: FOLDER, usually build/musl-root, where tools/musl.cmake looks.
#
# usage: tools/musl_root.sh FOLDER
#
# Debian has musl's compiler (musl-tools), but no library for it. Nothing of the system changes, and
# root is not needed. Prints nothing and needs no network when FOLDER is there already.
set -eu

[ $# -eq 1 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
sources='sqlite3 zlib libzstd pcre2 libmicrohttpd cmocka'
[ "$(cat "$1/packages" 2>/dev/null)" != "$sources" ] || exit 0
for tool in musl-gcc tclsh make xz; do
    command -v $tool >/dev/null || { echo "musl_root: $tool is not installed" >&2; exit 1; }
done

mkdir -p "$(dirname "$1")"
folder=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
part=$folder.part
rm -rf "$part"
trap 'rm -rf "$part"' EXIT
mkdir -p "$part/apt/state/lists/partial" "$part/apt/cache/archives/partial" "$part/apt/parts" \
    "$part/src" "$part/tree/lib/pkgconfig" "$part/tree/include"
: >"$part/apt/status"
log=$part/log
fail() {
    tail -n 15 "$log" >&2
    echo "musl_root: $1" >&2
    exit 1
}
# Of the release alone: what its updates leave behind is not kept for long.
. /etc/os-release
archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>>"$log" | grep '/debian/*$' | head -n 1)
[ -n "$archive" ] || fail 'apt knows no archive of Debian'
echo "deb-src $archive $VERSION_CODENAME main" >"$part/apt/parts/main.list"
apt() {
    (cd "$part/src" && apt-get -q -o Dir::Etc::sourcelist=/dev/null \
        -o Dir::Etc::sourceparts="$part/apt/parts" -o Dir::State="$part/apt/state" \
        -o Dir::State::status="$part/apt/status" -o Dir::Cache="$part/apt/cache" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@") >>"$log" 2>&1 </dev/null
}
echo "building libraries for musl in $folder"
apt update || echo 'musl_root: the package index could not be updated' >&2
apt source --download-only $sources || fail 'could not fetch the sources'

# unpack NAME: the folder of its sources.
unpack() {
    mkdir "$part/src/$1"
    tar -x -f "$(ls "$part/src/$1"_*.orig.tar.* | grep -v 'asc$')" --strip-components 1 \
        -C "$part/src/$1" 2>>"$log" || fail "could not unpack $1"
}
# pc NAME FILE VERSION LIBS: what pkg-config says of it.
pc() {
    printf 'Name: %s\nDescription: %s\nVersion: %s\nCflags: -I%s/include\nLibs: -L%s/lib %s\n' \
        "$1" "$1" "$3" "$folder" "$folder" "$4" >"$part/tree/lib/pkgconfig/$2.pc"
}
tree=$part/tree
export CC=musl-gcc CFLAGS='-O2 -fPIC'
configured='--disable-shared --enable-static --disable-dependency-tracking'

build_zlib() (
    cd "$part/src/zlib"
    ./configure --static --prefix="$tree"
    make libz.a
    cp libz.a "$tree/lib"
    cp zlib.h zconf.h "$tree/include"
)
build_libzstd() (
    cd "$part/src/libzstd"
    make -C lib libzstd.a ZSTD_LEGACY_SUPPORT=0
    cp lib/libzstd.a "$tree/lib"
    cp lib/*.h "$tree/include"
)
build_pcre2() (
    cd "$part/src/pcre2"
    ./configure $configured --host=x86_64-linux-musl --prefix="$folder"
    make libpcre2-8.la
    cp .libs/libpcre2-8.a "$tree/lib"
    cp src/pcre2.h "$tree/include"
)
build_libmicrohttpd() (
    cd "$part/src/libmicrohttpd"
    ./configure $configured --host=x86_64-linux-musl --prefix="$folder" --disable-https \
        --disable-doc --disable-examples
    make -C src/microhttpd libmicrohttpd.la
    cp src/microhttpd/.libs/libmicrohttpd.a "$tree/lib"
    cp src/include/microhttpd.h "$tree/include"
)
build_sqlite3() (
    cd "$part/src/sqlite3"
    CC=cc ./configure --disable-tcl --disable-readline
    make sqlite3.c
    $CC $CFLAGS -DSQLITE_ENABLE_COLUMN_METADATA -c sqlite3.c
    ar rcs "$tree/lib/libsqlite3.a" sqlite3.o
    cp sqlite3.h "$tree/include"
)
build_cmocka() (
    cd "$part/src/cmocka"
    $CC $CFLAGS -Iinclude -DHAVE_STRUCT_TIMESPEC -DHAVE_TIME_H -DHAVE_SIGNAL_H -DHAVE_STRSIGNAL \
        -DHAVE_SNPRINTF -DHAVE_VSNPRINTF -DHAVE_CLOCK_REALTIME -DHAVE_CLOCK_GETTIME \
        -DHAVE_UNISTD_H -DHAVE_GCC_THREAD_LOCAL_STORAGE -DHAVE_INTTYPES_H -c src/cmocka.c
    ar rcs "$tree/lib/libcmocka.a" cmocka.o
    cp include/cmocka*.h "$tree/include"
)
for name in $sources; do
    unpack $name
    (set -e; build_$name) >>"$log" 2>&1 || fail "could not build $name"
done
pc zstd libzstd 1.5.4 -lzstd
pc pcre2 libpcre2-8 10.42 -lpcre2-8
pc libmicrohttpd libmicrohttpd 0.9.75 '-lmicrohttpd -lpthread'
pc cmocka cmocka 1.1.5 -lcmocka
# The kernel's headers, which the C library's do not come with.
for dir in linux asm-generic; do
    ln -s /usr/include/$dir "$tree/include/$dir"
done
ln -s "/usr/include/$(cc -dumpmachine)/asm" "$tree/include/asm"

echo "$sources" >"$tree/packages"
rm -rf "$folder"
mv "$tree" "$folder"
