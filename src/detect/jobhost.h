// SPDX-License-Identifier: Apache-2.0
// What the host side tells of a job at this moment: does it wait for I/O, write, compute on the CPU?
#ifndef AL_DETECT_JOBHOST_H
#define AL_DETECT_JOBHOST_H

#include "detect/settings.h"
#include "model/snapshot.h"

enum al_io { AL_IO_UNKNOWN, AL_IO_NONE, AL_IO_WAITS };

struct al_jobhost {
    enum al_io io;
    double io_wait;     // highest io_wait_ratio of its processes; NaN when none was read
    pid_t io_pid;       // whose
    double pressure;    // of the node; NaN when not read
    uint32_t blocked;   // threads in state D over its processes
    bool blocked_read;
    double write_rate;  // of all its processes that could be read; NaN
    uint32_t workers;
    double worker_cpu;  // mean of the workers, in cores; NaN
    double worker_reads; // bytes a second that the workers fetch from storage
    double rank_cpu;    // highest of the others, in cores; NaN
    bool serves;        // an inference engine or a notebook is among them
    int64_t started_realtime_ns; // of the youngest process that holds a context; 0 when not known
    int64_t at_ns;      // newest I/O reading
};

// Over the processes of the jobs named by pid.
void al_jobhost_read(struct al_jobhost *h, const struct al_snapshot *s, const struct al_settings *set,
                     const pid_t *jobs, uint32_t count);

#endif
