#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slurm prolog (slurm.conf: Prolog=/etc/slurm/prolog.d/*), as root on each node before a job: are its GPUs fit? Then it
# begins to record the node, so that a job that fails leaves a file to look at.
# A prolog that fails drains the node and requeues the job: only critical findings may do that. Anything wrong with alula
# itself (not installed, no driver, a bad option) is logged and lets the job run.
set -u
alula=${ALULA:-alula}
records=${ALULA_RECORDS:-/var/lib/alula/jobs}
look=${ALULA_PROLOG_LOOK:-5s}
run=${ALULA_RUN:-/run/alula}

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
command -v "$alula" >/dev/null || exit 0
case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) exit 0 ;; esac

# Slurm gives the indices of the job's GPUs as the driver counts them. 3: a critical finding was raised.
"$alula" watch --gpu "$SLURM_JOB_GPUS" --for "$look" --fail-on critical >/dev/null 2>&1
status=$?
if [ "$status" = 3 ]; then
    logger -t alula "job $SLURM_JOB_ID: GPUs $SLURM_JOB_GPUS have critical findings; the node is drained" 2>/dev/null
    exit 1
fi
[ "$status" = 0 ] || logger -t alula "job $SLURM_JOB_ID: watch ended with status $status; not judged" 2>/dev/null

umask 027
mkdir -p "$records" "$run" || exit 0
# Slurm ends what a prolog leaves behind in its session.
setsid "$alula" record -o "$records/$SLURM_JOB_ID.alula" --gpu "$SLURM_JOB_GPUS" >/dev/null 2>&1 </dev/null &
echo $! >"$run/$SLURM_JOB_ID.pid"
exit 0
