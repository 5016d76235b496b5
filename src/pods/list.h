// SPDX-License-Identifier: Apache-2.0
// The kubelet's v1.ListPodResourcesResponse (k8s.io/kubelet/pkg/apis/podresources/v1/api.proto), as far as devices go.
#ifndef AL_PODS_LIST_H
#define AL_PODS_LIST_H

#include <stddef.h>

#include "model/pod.h"

// Fills ret with at most max uses of what may be GPUs (by NVIDIA's resource or the form of the id), each device of a container
// once, in the message's order; *ret_count of them. Names that are too long, not UTF-8 or empty leave their use out; what is
// beyond max is left out, too. AL_E_FORMAT: no such message.
int al_pods_decode(const char *bytes, size_t len, struct al_pod_use *ret, size_t max, size_t *ret_count);

#endif
