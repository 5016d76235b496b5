#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# job.sh PARTS OUT [SECTION ...]: alula run, attach and what they cost, on a machine with a GPU, from binaries made elsewhere
# (PARTS: bin/alula as installed below a prefix, lib/ with its libraries, site/ with peft, traceml-ai, gpuprof). Each section
# prints what a reader of docs/measurements.md needs. Card settings are never touched.
set -uo pipefail
parts=$(cd "$1" && pwd) out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$parts/site TMPDIR=${TMPDIR:-/var/tmp}
# The libraries are alula's alone: the job keeps the loader's path that it would have without.
cat >"$out/alula" <<E
#!/bin/sh
exec "$parts/lib/ld" --library-path "$parts/lib" --argv0 alula "$parts/bin/alula" "\$@"
E
[ -e "$parts/lib/ld" ] || printf '#!/bin/sh\nexec "%s/bin/alula" "$@"\n' "$parts" >"$out/alula"
chmod +x "$out/alula"
export ALULA_BIN=$out/alula
alula=$out/alula
lora() { python3 "$here/lora.py" --batch 4 --output_dir "$TMPDIR/alula-lora" "$@"; }
section() { printf '\n======== %s (%s s)\n' "$1" "$SECONDS"; }
wanted() { [ -z "$sections" ] || case " $sections " in *" $1 "*) ;; *) return 1 ;; esac; }
sections=$*

if wanted machine; then section machine; date -u +%F; uname -r; nproc; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    python3 -c 'import torch, transformers, peft; print("torch", torch.__version__, "transformers", transformers.__version__, "peft", peft.__version__)'
    "$alula" --version; fi
if wanted allocator && [ -e "$here/allocator_example.py" ]; then section allocator
    mkdir -p "$out/allocator"
    (cd "$out/allocator" && "$alula" run --output-dir . -- python3 "$here/allocator_example.py"; echo "exit $?"
        python3 "$here/allocator_example.py" ./metrics_report.json; echo "exit $?"); fi
if wanted lora; then section "lora, alternating: alone, alula, alone, alula"
    for i in ${PAIRS:-1 2}; do
        lora --steps 40 2>/dev/null | grep LORA
        "$alula" run --output-dir "$out/lora$i" -- python3 "$here/lora.py" --steps 40 --batch 4 --output_dir "$TMPDIR/alula-lora" 2>"$out/lora$i.err" | grep LORA
        grep -v Warning "$out/lora$i.err" | grep alula: ; done
    python3 - "$out/lora1/metrics_report.json" <<'P'
import json, sys
r = json.load(open(sys.argv[1])); a = r.pop("alula"); print(json.dumps(r, indent=1)); print(json.dumps(a["ranks"][0])[:3500])
P
    fi
if wanted phases; then section "phases beside torch.profiler's on the same steps"
    "$alula" run --output-dir "$out/phases" --log-every 10 -- python3 "$here/lora.py" --steps 24 --profile 10 --output_dir "$TMPDIR/alula-lora" 2>&1 | grep -E "^alula: (step|[0-9])|PROFILER"; fi
if wanted starved; then section "starved lora"
    "$alula" run --output-dir "$out/starved" -- python3 "$here/lora.py" --steps 30 --starved 0.3 --output_dir "$TMPDIR/alula-lora" 2>&1 | grep -E "^alula|LORA"
    section "leaking lora"
    "$alula" run --output-dir "$out/leak" -- python3 "$here/lora.py" --steps 80 --keep 64 --output_dir "$TMPDIR/alula-lora" 2>&1 | grep -E "^alula|LORA"; fi
if wanted attach; then section "attach: healthy, then starved"
    for more in "" "--starved 0.3"; do
        # shellcheck disable=SC2086
        lora --steps 70 $more >"$out/attached.out" 2>&1 & job=$!
        sleep 17
        "$alula" attach $job --for 12s --output-dir "$out/attach${more:+-starved}" 2>&1 | grep alula; echo "exit ${PIPESTATUS[0]}"
        kill -INT $job; wait $job; grep -E "LORA|Error" "$out/attached.out"; done
    lora --steps 90 >"$out/attached.out" 2>&1 & job=$!
    sleep 17; "$alula" attach $job --for 5s --quiet; wait $job; echo "after a detach:"; grep LORA "$out/attached.out"; fi
if wanted cost; then section "cost of a step"; python3 "$here/../../bench/job.py" --only costs --rounds "${ROUNDS:-3}"; fi
if wanted faults; then section "known faults"; python3 "$here/../../bench/job.py" --only faults --gpu --steps 150 --tools alula --faults "${FAULTS:-}"
    python3 "$here/../../bench/job.py" --only faults --gpu --steps 150 --tools TraceML --faults "${PEER_FAULTS:-${FAULTS:-}}"; fi
if wanted two; then section "two ranks"
    nvidia-smi topo -m | head -8
    for more in "" "--starved 0.3"; do
        # shellcheck disable=SC2086
        "$alula" run --output-dir "$out/two${more:+-starved}" -- torchrun --nproc_per_node 2 "$here/lora.py" --steps 30 --batch 4 $more --output_dir "$TMPDIR/alula-lora" 2>&1 | grep -E "^alula|LORA|rror"; echo "exit ${PIPESTATUS[0]}"; done
    section "what NCCL was called for"
    "$alula" run --output-dir "$out/nccl" -- torchrun --nproc_per_node 2 "$here/nccl_facts.py" "$out/nccl/expected.json"; echo "exit $?"
    python3 "$here/nccl_facts.py" --compare "$out/nccl/metrics_report.json" "$out/nccl/expected.json"; fi
section end
