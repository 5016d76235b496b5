#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slurm epilog (slurm.conf: Epilog=/etc/slurm/epilog.d/*), as root on each node behind a job: ends the recording that the
# prolog began, and looks whether the GPUs are fit for the next job. An epilog that fails drains the node: only critical
# findings may do that (ALULA_FAIL_ON=warning: also memory that nobody holds any more).
set -u
alula=${ALULA:-alula}
records=${ALULA_RECORDS:-/var/lib/alula/jobs}
look=${ALULA_EPILOG_LOOK:-30s}
level=${ALULA_FAIL_ON:-critical}
keep_days=${ALULA_KEEP_DAYS:-7}
run=${ALULA_RUN:-/run/alula}

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
command -v "$alula" >/dev/null || exit 0
case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) exit 0 ;; esac

# Ends the process that the prolog noted, and no other that has got its number since.
end_recording() {
    read -r pid <"$1" || return
    rm -f "$1"
    case $pid in '' | *[!0-9]*) return ;; esac
    tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$records/$SLURM_JOB_ID.alula" || return
    kill -TERM "$pid"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "$pid" 2>/dev/null || return
        sleep 0.5
    done
}

[ -f "$run/$SLURM_JOB_ID.pid" ] && end_recording "$run/$SLURM_JOB_ID.pid"
[ -d "$records" ] && find "$records" -name '[0-9]*.alula' -mtime "+$keep_days" -delete

"$alula" watch --gpu "$SLURM_JOB_GPUS" --for "$look" --fail-on "$level" >/dev/null 2>&1
status=$?
if [ "$status" = 3 ]; then
    logger -t alula "behind job $SLURM_JOB_ID: GPUs $SLURM_JOB_GPUS have $level findings; the node is drained" 2>/dev/null
    exit 1
fi
[ "$status" = 0 ] || logger -t alula "behind job $SLURM_JOB_ID: watch ended with status $status; not judged" 2>/dev/null
exit 0
