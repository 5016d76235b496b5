// SPDX-License-Identifier: Apache-2.0
// Which pods hold the GPUs, from the kubelet's pod-resources socket. A sink: every tick it does what can be done without
// waiting (send, or read what came), and asks anew every 15 s. No thread, and nothing that could hold up a tick.
#ifndef AL_PODS_PODS_H
#define AL_PODS_PODS_H

#include "model/pod.h"
#include "model/source.h"

#define AL_PODS_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"

struct al_pods;

// AL_E_INVALID: the path is too long for a socket. Whether a kubelet answers there shows later.
int al_pods_new(const char *socket, struct al_pods **ret);
struct al_sink *al_pods_sink(struct al_pods *p);
// Copies at most max uses of the last answer; from any thread. *ret_up: the last question was answered. An answer older
// than a minute is told no more.
size_t al_pods_read(void *pods, struct al_pod_use *ret, size_t max, bool *ret_up);
struct al_pods *al_pods_free(struct al_pods *p);

#endif
