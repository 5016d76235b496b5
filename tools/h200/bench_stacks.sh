#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_stacks.sh pack PARTS PYTHONS: puts into PARTS what the bench of stack samplers needs on a machine without a network:
# alula with its libraries (pack.sh), wheels of py-spy and austin-dist, and Python 3.15 out of PYTHONS (see tools/pythons), as
# one archive of 30 MiB. Needs pip and the package index.
# bench_stacks.sh PARTS OUT [ARG ...]: runs it there; ARGs go to bench/stacks.py. 24 minutes; a part of it with --sections.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)

pack() {
    local parts=$1 sid=$2/sid triplet
    triplet=$(uname -m)-linux-gnu
    "$here/tools/h200/pack.sh" "$parts" >/dev/null
    rm -rf "${parts:?}"/{site,wheels,python3.15}
    mkdir -p "$parts/wheels" "$parts/python3.15/usr/bin" "$parts/python3.15/usr/lib/$triplet"
    python3 -c 'import pathlib, sys; sys.path.insert(0, sys.argv[1]); import stacks_tools; stacks_tools.download(pathlib.Path(sys.argv[2]))' \
        "$here/bench" "$parts/wheels"
    if [ -e "$sid/usr/bin/python3.15" ]; then
        cp -L "$sid/usr/bin/python3.15" "$parts/python3.15/usr/bin/"
        for library in ld-linux libc.so libm.so libz.so libexpat.so libffi.so libssl.so libcrypto.so liblzma.so libbz2.so libzstd.so libgcc_s; do
            cp -L "$sid/usr/lib/$triplet/$library"* "$parts/python3.15/usr/lib/$triplet/"
        done
        tar c -C "$sid/usr/lib" --exclude=test --exclude=idlelib --exclude=__pycache__ --exclude=pydoc_data python3.15 |
            tar x -C "$parts/python3.15/usr/lib"
    else
        echo "bench_stacks.sh: no Python 3.15 in $sid: left out" >&2
    fi
    tar cz -C "$parts" bin lib share wheels python3.15 >"$parts/stacks.tar.gz"
    rm -rf "${parts:?}"/{bin,lib,share,wheels,python3.15}
    du -h "$parts/stacks.tar.gz"
}

if [ "$1" = pack ]; then
    pack "$2" "$3"
    exit
fi
parts=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
export TMPDIR=${TMPDIR:-/var/tmp} PYTHONDONTWRITEBYTECODE=1
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
tar xz -C "$unpacked" -f "$parts/stacks.tar.gz"
export ALULA_BIN=$unpacked/bin/alula
"$ALULA_BIN" --version
cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || true
python3 "$here/bench/stacks.py" --wheels "$unpacked/wheels" --python315 "$unpacked/python3.15" --json "$out/stacks.json" "$@"
