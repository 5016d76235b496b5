// SPDX-License-Identifier: Apache-2.0
// What to do about communication, by the transport that is taken. InfiniBand that works is never advised away: the well-known
// NCCL_IB_DISABLE=1 hides a fault of the fabric behind sockets that are ten times slower.
#include <stdio.h>

#include "detect/steps_part.h"

#define LESS "larger micro-batches or more gradient accumulation communicate less often"

static const struct al_tally *who(const struct al_steps_view *v) {
    const struct al_tally *found = NULL;
    for (uint32_t i = 0; i < v->count; i++) {
        const struct al_tally *t = v->ranks[i].tally;
        if (!found || (t->nccl.communicators && !found->nccl.communicators))
            found = t;
    }
    return found;
}

void al_steps_transport_advice(const struct al_steps_view *v, char *out, size_t size) {
    struct al_tally_transport r = {.kind = AL_TRANSPORT_UNKNOWN};
    const struct al_tally *t = who(v);
    if (t)
        al_tally_transport(t, -1, &r);
    switch (r.kind) {
    case AL_TRANSPORT_INFINIBAND:
        (void)snprintf(out, size, "the ranks go by InfiniBand or RoCE (%s): leave that on; " LESS, r.why);
        break;
    case AL_TRANSPORT_SOCKETS:
        if (r.missed)
            (void)snprintf(out, size,
                           "the ranks go by sockets although InfiniBand devices are here (%s): have NCCL use them; "
                           "NCCL_DEBUG=INFO says at NET/IB why not (in a container: /dev/infiniband, memlock unlimited)",
                           r.why);
        else
            (void)snprintf(out, size,
                           "the ranks go by sockets (%s): NCCL_SOCKET_IFNAME can name the fastest interface; " LESS, r.why);
        break;
    case AL_TRANSPORT_ONE_NODE:
        (void)snprintf(out, size, "%s; " LESS "; nvidia-smi topo -m shows how the GPUs are joined", r.words);
        break;
    default:
        (void)snprintf(out, size,
                       "first see which transport NCCL takes (NCCL_DEBUG=INFO prints NET/IB or NET/Socket); do not switch "
                       "InfiniBand off where it works. " LESS);
    }
}
