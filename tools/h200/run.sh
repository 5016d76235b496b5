#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PARTS OUT: everything that only a machine with a GPU can show, in one go, from binaries made elsewhere
# (PARTS: alula, standin/libnvidia-ml.so.1, lib/, site/ with gpustat and nvitop). Card settings are never touched.
set -uo pipefail
parts=$(cd "$1" && pwd) out=$2
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=$parts/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PYTHONPATH=$parts/site PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
alula=$parts/alula
mkdir -p "$out"
section() { printf '\n======== %s (%s s)\n' "$1" "$SECONDS"; }

section machine; date -u +%F; uname -r; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
section idle; "$alula" stat -cupP; "$alula" smi -L; python3 -m gpustat -cupP
section doctor; "$alula" doctor; echo "exit $?"
section session; "$here/session.sh" "$alula" "$out"; grep -c '"type":"sample"' "$out/session.jsonl"
grep -v '"type":"sample"' "$out/session.jsonl" | cut -c1-700; cat "$out/session.err"; tail -3 "$out/workload.log"
section "replay gives the same findings"
"$alula" watch --source "scenario:$out/session.txt" --speed 0 --json 2>&1 | grep '"type":"finding"' | cut -c1-260
section "smi, idle"; python3 "$here/check_smi.py" "$alula"
python3 "$here/workload.py" healthy 150 & work=$!
sleep 12
section "smi, loaded"; python3 "$here/check_smi.py" "$alula"
section "others, loaded"; "$alula" stat -cupP --roles; python3 -m gpustat -cupP; "$alula" memory $work; "$alula" smi pmon -c 1
"$alula" watch --for 5s; "$alula" watch --compat --for 1s
section doctor --json; "$alula" doctor --json >"$out/doctor.json"; echo "exit $?"
section bench; ALULA_BIN=$alula ALULA_STANDIN=$parts/standin/libnvidia-ml.so.1 python3 "$here/../../bench/run" --real
section "own memory"; "$alula" watch --for 4s --quiet & w=$!; sleep 3; grep -E 'VmHWM|RssAnon|RssFile|Threads' /proc/$w/status; wait $w
kill $work; wait
section "nvidia-smi on the stand-in"
ALULA_SCENARIO=$out/session.txt LD_LIBRARY_PATH=$parts/standin:$LD_LIBRARY_PATH nvidia-smi -L; echo "exit $?"
section end
