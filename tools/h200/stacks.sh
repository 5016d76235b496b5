#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stacks.sh PARTS OUT [SECTION ...]: the line of a starved DataLoader job (and of others) named by alula watch, run, dump, stacks
# and profile on a machine with a GPU, from binaries made elsewhere (PARTS: as pack.sh makes them). Sections: machine starved run
# item save healthy. About four minutes. Card settings are never touched. Without a GPU: ALULA_STANDIN names the stand-in driver.
set -uo pipefail
parts=$(cd "$1" && pwd) out=$2
shift 2
sections=$*
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TMPDIR=${TMPDIR:-/var/tmp}
python=${PYTHON:-python3}
alula=$parts/bin/alula
if [ -e "$parts/lib/ld" ]; then # the libraries are alula's alone
    printf '#!/bin/sh\nexec "%s/lib/ld" --library-path "%s/lib" --argv0 alula "%s/bin/alula" "$@"\n' "$parts" "$parts" "$parts" >"$out/alula"
    chmod +x "$out/alula"
    alula=$out/alula
fi
section() { printf '\n======== %s (%s s)\n' "$1" "$SECONDS"; }
wanted() { [ -z "$sections" ] || case " $sections " in *" $1 "*) ;; *) return 1 ;; esac; }

# A job in the background; $job is its pid, once it trains.
begin() {
    : >"$out/$1.log"
    "$python" "$here/stacks_job.py" "$1" "$2" >"$out/$1.log" 2>&1 &
    job=$!
    for _ in $(seq 120); do grep -q READY "$out/$1.log" && break; sleep 0.5; done
    if [ -n "${ALULA_STANDIN:-}" ]; then # a GPU that idles beside it
        export ALULA_NVML_LIBRARY=$ALULA_STANDIN ALULA_SCENARIO=$out/gpus.txt
        printf 'alula scenario 1\ninterval 500ms\nduration 600s\ndriver 580.159.04\nnvml 13.580.159.04\ncuda 13.0\ngpu 0 name="NVIDIA H200"\n@0s\ngpu 0 utilization_ratio=4%% memory_total_bytes=140GiB memory_used_bytes=70GiB power_watts=130 power_enforced_limit_watts=700\nrow %s gpu=0 memory_bytes=69GiB\n' "$job" >"$ALULA_SCENARIO"
    fi
}
finish() { kill "$job" 2>/dev/null; wait "$job" 2>/dev/null; tail -1 "$out/$1.log"; }
# What watch says of the job, as text and as JSON Lines, with the time until a line was named.
look() { # look KIND SECONDS
    "$alula" watch --json --quiet --for "$2s" >"$out/$1.jsonl" 2>"$out/$1.json.err" & json=$!
    "$alula" watch --quiet --for "$2s" --no-color >"$out/$1.txt" 2>&1
    wait "$json"
    cat "$out/$1.txt"
    "$python" - "$out/$1.jsonl" "$1" <<'P'
import json, sys
from datetime import datetime
lines = [json.loads(line) for line in open(sys.argv[1])]
at = lambda line: datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
found = [line for line in lines if line["type"] == "finding" and line["rule"] in ("inefficient", "starved")]
named = [f for f in found if ".py:" in f["message"]]
print(f"{sys.argv[2]:8}| findings {len(found)} | with a line {len(named)} | first with a line after "
      + (f"{(at(named[0]) - at(lines[0])).total_seconds():.1f} s of watching" if named else "never"))
for f in named[-1:]:
    print("         | " + f["message"])
    print("         | " + ", ".join(f"{e['name']} {e['value']:.3g}" for e in f["evidence"] if e["source"] == "stacks"))
    print("         | considered: " + str(f["considered"]))
    print("         | do: " + str(f["advice"]))
P
}

if wanted machine; then section machine; date -u +%F; uname -r; nproc; cat /proc/sys/kernel/yama/ptrace_scope /proc/sys/kernel/perf_event_paranoid 2>/dev/null
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
    "$python" -c 'import sys, torch; print("Python", sys.version.split()[0], "torch", torch.__version__, "GPU", torch.cuda.is_available())'
    "$alula" --version; fi
if wanted starved; then section "starved: alula watch beside it"; begin starved 200; look starved 30
    section "alula dump"; "$alula" dump --native "$job" 2>&1 | head -60 | cut -c1-160
    "$alula" dump --subprocesses --json "$job" >"$out/starved.dump.json" 2>&1; echo "exit $?"
    section "alula stacks"; "$alula" stacks --once --subprocesses --duration 5s "$job" 2>&1 | head -25
    section "alula profile"; "$alula" profile --subprocesses --duration 8s -f flamegraph -o "$out/starved.html" "$job"; echo "exit $?"
    "$alula" profile --subprocesses --duration 5s -f folded -o - "$job" 2>/dev/null | sort -t' ' -k2 -rn | awk '{ n[$NF]++ } END { print NR " stacks" }'
    ls -l "$out/starved.html" 2>/dev/null; finish starved; fi
if wanted run; then section "starved: alula run around it"
    "$alula" run --output-dir "$out/run" -- "$python" "$here/stacks_job.py" starved 30 2>&1 | grep -E "^alula|STEPS"; echo "exit ${PIPESTATUS[0]}"
    section "its report and its recording again"
    "$python" -c 'import json, sys; print(*[v["rule"] + ": " + v["message"] for v in json.load(open(sys.argv[1]))["alula"]["verdicts"] if v["verdict"] == "finding"], sep="\n")' "$out/run/metrics_report.json"
    "$alula" watch --source "replay:$out/run/run.alula" --speed 0 --quiet --no-color 2>&1 | tail -8; fi
for kind in item save healthy; do
    if wanted $kind; then section "$kind: alula watch beside it"; begin $kind 120; look $kind 20; finish $kind; fi
done
section end
