// SPDX-License-Identifier: Apache-2.0
// /metrics: a snapshot, the open findings and alula's own health as Prometheus text 0.0.4 or OpenMetrics 1.0. Names
// come from the metric tables (alula_gpu_<metric>, counters with _total) and are listed in docs/serve.md. What is not
// read or not fresh has no series. Label sets stay small: a GPU is gpu + uuid everywhere, the rest of it is in
// alula_gpu_info.
#ifndef AL_EXPORT_OPENMETRICS_H
#define AL_EXPORT_OPENMETRICS_H

#include "base/buf.h"
#include "model/finding.h"
#include "model/pod.h"
#include "model/snapshot.h"
#include "model/source.h"

// One receiver of pushed metrics or findings.
struct al_om_push {
    const char *receiver;
    uint64_t sent, retried, dropped; // messages
    uint64_t refused_points;         // of messages that were sent
    uint64_t queued, queued_bytes;   // messages that wait
};

#define AL_OM_FINDINGS_MAX 128 // alula_finding_active series; alula_findings_open counts all

// How the session is doing; printed whatever the state of the sample.
struct al_om_health {
    const char *version;
    bool up;                 // the driver's last reading came in time
    double age_seconds;      // of the last sample; < 0: there is none yet
    double interval_seconds;
    uint64_t ticks, late, skipped;
    double delay_mean_seconds, delay_max_seconds; // how late ticks began
    double cpu_seconds, resident_bytes;           // of this process
    uint64_t connections, connections_refused;    // HTTP: open now; closed by the limits so far
    uint64_t requests[6];                         // by class of the answer's code: [2] is 2xx
    const struct al_call_stat *calls;             // the driver calls' costs
    size_t call_count;
    const struct al_om_push *pushes;              // receivers; none when nothing is pushed
    size_t push_count;
};

struct al_om_page {
    bool openmetrics;          // else Prometheus text
    bool processes;            // per-process series, and those of ranks
    bool dcgm;                 // dcgm-exporter's names too
    uint32_t max_processes;    // those with the most GPU memory; the rest are summed as pid="other"
    const struct al_snapshot *s; // NULL: no sample, or none that is fresh: health alone
    const struct al_finding *findings;
    uint32_t finding_count;
    const char *(*xid_text)(uint32_t code); // for DCGM's err_msg; may be NULL
    bool pods_asked, pods_up;  // whether a kubelet is asked for pods, and whether it answered the last time
    const struct al_pod_use *pods; // printed with the processes only
    size_t pod_count;
    struct al_om_health health;
};

void al_openmetrics_print(struct al_buf *b, const struct al_om_page *p);

#endif
