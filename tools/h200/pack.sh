#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pack.sh DIR [WHEEL ...]: puts into DIR what job.sh needs on a machine that has neither our build's packages nor a network:
# bin/alula with its libraries (found by a run path, so that the job's own loader path stays as it is) and site/ with wheels.
set -euo pipefail
dir=$1
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
# The older dynamic tag: it also counts for what the libraries themselves need.
CC=${CC:-gcc} LDFLAGS="-Wl,--disable-new-dtags,-rpath,\$ORIGIN/../lib" meson setup "$build/b" "$here" --prefix /alula --buildtype release >/dev/null
ninja -C "$build/b" >/dev/null
DESTDIR=$build/d meson install -C "$build/b" --no-rebuild >/dev/null
rm -rf "${dir:?}"/{bin,lib,share,site}
mkdir -p "$dir/site"
cp -a "$build/d/alula/bin" "$build/d/alula/lib" "$build/d/alula/share" "$dir/"
# Libraries of today's distribution that another one may lack; libc and its parts stay the machine's own.
want="libyaml-0 libsqlite3 libzstd libmicrohttpd libncursesw libtinfo libcurl libz libdw libelf liblzma libbz2"
copy() {
    local name=${1##*/}
    case $name in libc.so* | libm.so* | libresolv.so* | libpthread* | libdl.so* | librt.so* | ld-linux* | linux-vdso*) return ;; esac
    [ -e "$dir/lib/$name" ] && return
    cp -L "$1" "$dir/lib/$name"
    ldd "$1" | awk '$3 ~ /^\// { print $3 }' | while read -r needed; do copy "$needed"; done
}
for name in $want; do
    path=$(ldconfig -p | awk -v n="$name" 'index($1, n".so.") == 1 { print $NF; exit }')
    if [ -n "$path" ]; then copy "$path"; else echo "pack.sh: no $name here" >&2; fi
done
for wheel in "$@"; do python3 -m zipfile -e "$wheel" "$dir/site"; done
du -sh "$dir"
