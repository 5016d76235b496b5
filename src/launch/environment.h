// SPDX-License-Identifier: Apache-2.0
// The ways into a job: what alula run adds to its environment, and what it leaves to whoever was there before.
#ifndef AL_LAUNCH_ENVIRONMENT_H
#define AL_LAUNCH_ENVIRONMENT_H

#include "launch/job.h"

enum al_way {
    AL_WAY_SOCKET,     // ALULA_SOCKET
    AL_WAY_PROBE,      // ALULA_PROBE
    AL_WAY_PYTHON,     // PYTHONPATH: the hook's folder in front
    AL_WAY_CUDA,       // CUDA_INJECTION64_PATH
    AL_WAY_CUDA_CHAIN, // ALULA_CHAINED_CUDA_INJECTION: whose place alula took, for the probe to load behind itself
    AL_WAY_NCCL,       // NCCL_PROFILER_PLUGIN: left alone when it is set, or when NCCL would find a profiler by itself
    AL_WAY_NVTX,       // ALULA_NVTX: ranges at the marks
    AL_WAY_COUNT
};

struct al_environment {
    char *before[AL_WAY_COUNT]; // NULL: was not set
};

// Changes this process's environment, which is about to become the job's.
void al_environment_set(const struct al_job_options *o, struct al_environment *ret);
// As it was before; for a job that is not executed because its environment has become too large.
void al_environment_undo(struct al_environment *e);

#endif
