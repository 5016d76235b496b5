// SPDX-License-Identifier: Apache-2.0
// What a watched process tells of itself: fixed records that travel through the ring, and the words in them.
#ifndef AL_MODEL_EVENT_H
#define AL_MODEL_EVENT_H

#include <stdint.h>

// Parts of the host timeline of a training loop. They nest; time belongs to the innermost open one.
// X(NAME, word, help)
#define AL_PHASES(X)                                                                                                   \
    X(OTHER, "other", "time that no mark explains")                                                                    \
    X(DATA, "data", "waiting for the next batch")                                                                      \
    X(FORWARD, "forward", "forward pass and loss")                                                                     \
    X(BACKWARD, "backward", "backward pass")                                                                           \
    X(OPTIMIZER, "optimizer", "optimizer step, gradient clipping and scaler")                                          \
    X(EVALUATION, "evaluation", "evaluation inside training")                                                          \
    X(SAVE, "save", "writing a checkpoint")                                                                            \
    X(LOG, "log", "logging and reporting")                                                                             \
    X(ROLLOUT, "rollout", "generating samples")                                                                        \
    X(COMMUNICATION, "communication", "blocking in a collective")

enum al_phase_kind {
#define X(name, word, help) AL_IN_##name,
    AL_PHASES(X)
#undef X
        AL_PHASE_COUNT
};

// X(NAME, meaning of code, a, b)
#define AL_EVENTS(X)                                                                                                   \
    X(TEXT, "code: enum al_text; a: length; the bytes follow in the records behind it")                                \
    X(HELLO, "first record of a process; code: record version; a: rank (-1 unknown); b: world size")                   \
    X(PHASE_BEGIN, "code: enum al_phase_kind; a: step")                                                                \
    X(PHASE_END, "code: enum al_phase_kind; a: step; b: 1 where a trainer's own loop goes on, none of whose parts is missed") \
    X(STEP, "an optimizer step ended; code: enum al_step_state; a: step number from 1; b: samples in it (0 unknown)")  \
    X(EPOCH, "an epoch began; a: number from 0")                                                                       \
    X(GPU_TIME, "code: enum al_phase_kind; a: step; b: ns between the CUDA events around the phase")                   \
    X(MEMORY, "code: enum al_allocator_figure; device in `device`; a: value; b: step")                                 \
    X(EXIT, "the interpreter ends; code: 0 normal, 1 exception, 2 signal; a: status or signal number")                 \
    X(COST, "what the hook itself spent; code: 0 allocator's figures, 1 CUDA events; a: ns; b: step")                  \
    X(DRIVER, "the collector's own: NVML on `device`; code: enum al_driver_figure; a: bytes; b: step")                 \
    X(HOST, "the collector's own: /proc; code: enum al_host_figure; device: enum al_host_moment; a: bytes; b: step")   \
    X(ANSWER, "to a request; code: enum al_request; device: or enum al_answer; a: bytes given back; b: ns it took")      \
    X(TOKENS, "a batch that is trained on; a: its tokens (first two dimensions of input_ids, as they are)")            \
    X(COMMUNICATOR, "NCCL made one; code: its profiler interface; device: NCCL's version (22809; 0 unknown); a: id; "  \
                    "b: ranks | nodes << 24 | rank << 40 (0 not told)")                                                \
    X(COLLECTIVE, "code: enum al_collective; a: calls so far; b: bytes so far, count times element size")

enum al_event_kind {
#define X(name, help) AL_EVENT_##name,
    AL_EVENTS(X)
#undef X
        AL_EVENT_COUNT
};

// A record outside the ring, as books and recordings keep it. The bytes of a TEXT travel beside it.
struct al_mark {
    int64_t at_ns;
    uint16_t kind, code; // enum al_event_kind and what belongs to it
    int32_t device;      // framework's device index, -1 when it concerns none
    int64_t a, b;
};

enum al_step_state { AL_STEP_DONE, AL_STEP_MICRO, AL_STEP_SKIPPED, AL_STEP_ABORTED };

// torch's own names (torch.cuda.memory_stats); bytes unless a count.
#define AL_ALLOCATOR_FIGURES(X)                                                                                        \
    X(ALLOCATED, "allocated_bytes.all.current")                                                                        \
    X(ALLOCATED_PEAK, "allocated_bytes.all.peak")                                                                      \
    X(RESERVED, "reserved_bytes.all.current")                                                                          \
    X(RESERVED_PEAK, "reserved_bytes.all.peak")                                                                        \
    X(ACTIVE, "active_bytes.all.current")                                                                              \
    X(INACTIVE_SPLIT, "inactive_split_bytes.all.current")                                                              \
    X(SEGMENTS, "segment.all.current")                                                                                 \
    X(RETRIES, "num_alloc_retries")                                                                                    \
    X(OOMS, "num_ooms")                                                                                                \
    X(REQUESTED, "requested_bytes.all.current")                                                                        \
    X(ALLOCATIONS, "allocation.all.current")                                                                           \
    X(ALLOCATIONS_MADE, "allocation.all.allocated")                                                                    \
    X(OVERSIZE, "oversize_allocations.current")                                                                        \
    X(DEVICE_ALLOCATIONS, "num_device_alloc")                                                                          \
    X(DEVICE_FREES, "num_device_free")

enum al_allocator_figure {
#define X(name, key) AL_ALLOCATOR_##name,
    AL_ALLOCATOR_FIGURES(X)
#undef X
        AL_ALLOCATOR_COUNT
};

// What the driver says of the process on a device, beside the allocator's figures.
enum al_driver_figure { AL_DRIVER_PROCESS_USED, AL_DRIVER_DEVICE_USED, AL_DRIVER_DEVICE_TOTAL, AL_DRIVER_COUNT };

// Host memory of a rank; the workers' are sums over its DataLoader workers. SHMEM is without the ring's own pages.
#define AL_HOST_FIGURES(X)                                                                                             \
    X(ANON, "anonymous_bytes")                                                                                         \
    X(SHMEM, "shared_bytes")                                                                                           \
    X(FILE, "file_bytes")                                                                                              \
    X(RSS, "resident_bytes")                                                                                           \
    X(PSS, "proportional_bytes")                                                                                       \
    X(PSS_ANON, "proportional_anonymous_bytes")                                                                        \
    X(WORKERS_ANON, "workers_anonymous_bytes")                                                                         \
    X(WORKERS_SHMEM, "workers_shared_bytes")                                                                           \
    X(WORKERS_FILE, "workers_file_bytes")                                                                              \
    X(WORKERS_PSS, "workers_proportional_bytes")                                                                       \
    X(WORKERS_PSS_ANON, "workers_proportional_anonymous_bytes")                                                        \
    X(CGROUP_ANON, "cgroup_anonymous_bytes")                                                                           \
    X(CGROUP_SHMEM, "cgroup_shared_bytes")                                                                             \
    X(CGROUP_FILE, "cgroup_file_bytes")                                                                                \
    X(CGROUP_USED, "cgroup_used_bytes")                                                                                \
    X(LIMIT, "limit_bytes")

enum al_host_figure {
#define X(name, key) AL_HOST_##name,
    AL_HOST_FIGURES(X)
#undef X
        AL_HOST_COUNT
};

// When a host figure was read: at a tick of the collector, or soon behind an epoch's begin or the loop's end.
enum al_host_moment { AL_HOST_AT_TICK, AL_HOST_AT_EPOCH };

// What a collector may ask of a process: bits of the ring's request word.
enum al_request { AL_REQUEST_MEMORY_SUMMARY = 1, AL_REQUEST_EMPTY_CACHE = 2, AL_REQUEST_ALL = 3 };

// In place of an ANSWER's device. FAILED: b is 0 without CUDA, 1 for a fault. DONE: on all devices.
enum al_answer { AL_ANSWER_FAILED = -1, AL_ANSWER_DONE = -2 };

// What a TEXT record tells.
enum al_text {
    AL_TEXT_FRAMEWORK,  // "torch=2.13.0 transformers=5.17.0 ..."
    AL_TEXT_OUTPUT_DIR, // where the trainer writes
    AL_TEXT_ERROR,      // the exception that ends the process: "OutOfMemoryError: ..." (one line)
    AL_TEXT_WHERE,      // "file:line function" of it
    AL_TEXT_SOURCE,     // how steps are known: "torch.optim hook", "transformers.Trainer", "sys.monitoring"; AL_SOURCE_CUDA
    AL_TEXT_METRICS,    // JSON object of the trainer's own closing metrics (train_runtime, ...)
    AL_TEXT_ALLOCATOR,  // "backend=native PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    AL_TEXT_ANSWER,     // a part of what a request asked for, lines and all; the ANSWER record comes behind the last
    AL_TEXT_MODEL,      // "parameters=7615616512 trainable=20185088 attn=sdpa dtype=bfloat16 ..."
    AL_TEXT_OPTIONS,    // the trainer's or the loader's own options: "dataloader_num_workers=0 bf16=1 ..."
    AL_TEXT_COMMUNICATOR, // "4d2 default_pg": a communicator's id in hexadecimal digits, and its name
    AL_TEXT_TRANSPORT,  // the collector's own: "verbs_open=2 verbs_devices=4 NCCL_NET=Socket ..." (host/transport.h)
    AL_TEXT_COUNT
};

// SOURCE of a process that uses CUDA and of which nothing else is known: no step will be told of.
#define AL_SOURCE_CUDA "CUDA alone"

#endif
