// SPDX-License-Identifier: Apache-2.0
// What a rule says: one cause, one finding, updated while it lasts.
#ifndef AL_MODEL_FINDING_H
#define AL_MODEL_FINDING_H

#include <sys/types.h>

#include "model/gpu.h"
#include "model/metric.h"

enum al_level { AL_LEVEL_INFO, AL_LEVEL_WARNING, AL_LEVEL_CRITICAL };
enum al_confidence { AL_CONFIDENCE_LOW, AL_CONFIDENCE_MEDIUM, AL_CONFIDENCE_HIGH };
enum al_phase { AL_PHASE_BEGAN, AL_PHASE_UPDATED, AL_PHASE_ENDED };

struct al_evidence {
    char name[48];      // a metric's name or a word of the rule
    double value;
    enum al_unit unit;
    char source[24];    // "nvml", "procfs", "config" ...
};

#define AL_EVIDENCE_MAX 14

struct al_finding {
    const char *rule;   // "inefficient", static
    char key[160];      // rule/entity: one finding per key at a time
    enum al_level level;
    enum al_confidence confidence;
    enum al_phase phase;
    int32_t gpu;        // position in the snapshot, -1 when none
    char gpu_uuid[AL_UUID_MAX];
    int32_t gpu_index;  // -1 when none
    pid_t pid, job;     // 0 when none
    int64_t began_ns, ended_ns, updated_ns; // monotonic; ended 0 while it lasts
    int64_t began_realtime_ns;
    char title[96];     // a few words: "memory about to run out"
    char message[480];  // one line with the numbers
    char considered[400]; // what else it could be, and why not
    char advice[320];   // what to do
    struct al_evidence evidence[AL_EVIDENCE_MAX];
    uint32_t evidence_count;
};

const char *al_level_word(enum al_level level);
int al_level_from_word(const char *word); // -1 when unknown
const char *al_confidence_word(enum al_confidence c);
const char *al_phase_word(enum al_phase p);

#endif
