#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# session.sh ALULA OUT: records about two minutes with alula itself: idle, healthy bf16 training, a starved DataLoader,
# memory climbing above 90 %, two processes at the card's own power limit, idle. Card settings are never touched.
set -euo pipefail
alula=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
t0=$(($(date +%s) + 10))
phase() { # phase NAME AFTER SECONDS
    WORKLOAD_AT=$((t0 + $2)) python3 "$here/workload.py" "$1" "$3" >>"$out/workload.log" 2>&1 &
}
phase healthy 6 28
phase starved 38 24
phase climbing 64 30
phase peak 98 14
phase peak 104 8
sleep $((t0 - $(date +%s)))
"$alula" watch --json --for 118s --record-scenario "$out/session.txt" >"$out/session.jsonl" 2>"$out/session.err" || echo "watch: exit $?"
wait
