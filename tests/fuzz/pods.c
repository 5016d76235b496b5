// SPDX-License-Identifier: Apache-2.0
// What a kubelet could answer: HTTP/2 frames, and the message in them.
#include "base/err.h"
#include "pods/h2.h"
#include "pods/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct al_pod_use uses[16];
    const char *bytes = (const char *)data;
    struct al_h2 h;
    size_t count;
    (void)al_pods_decode(bytes, size, uses, 16, &count);
    al_h2_start(&h, "/v1.PodResourcesLister/List");
    size_t half = size / 2; // in two pieces
    if (al_h2_take(&h, bytes, half) == AL_E_AGAIN && al_h2_take(&h, bytes + half, size - half) == 0)
        (void)al_pods_decode(h.message.data + 5, h.message.len - 5, uses, 16, &count);
    al_h2_free(&h);
    return 0;
}
