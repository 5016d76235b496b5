// SPDX-License-Identifier: Apache-2.0
#include "tally/nccl.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tally/tally.h"

static const char *const collective_words[AL_COLLECTIVE_COUNT] = {
#define X(name, word) word,
    AL_COLLECTIVES(X)
#undef X
};

const char *al_collective_word(int collective) {
    return collective >= 0 && collective < AL_COLLECTIVE_COUNT ? collective_words[collective] : "other";
}

// Names and sizes of one come in either order: texts are not put in time's order with the records.
static struct al_tally_communicator *of_id(struct al_tally_nccl *n, uint64_t id) {
    for (uint32_t i = 0; i < n->kept; i++)
        if (n->communicator[i].id == id)
            return &n->communicator[i];
    if (n->kept == AL_TALLY_COMMUNICATORS)
        return NULL;
    struct al_tally_communicator *c = &n->communicator[n->kept++];
    *c = (struct al_tally_communicator){.id = id, .ranks = -1, .nodes = -1, .rank = -1};
    return c;
}

static void communicator(struct al_tally_nccl *n, uint16_t interface, int32_t version, int64_t id, int64_t size) {
    int32_t ranks = (int32_t)(size & 0xffffff), nodes = (int32_t)(size >> 24 & 0xffff);
    int64_t rank = size >> 40;
    struct al_tally_communicator *c = of_id(n, (uint64_t)id);
    n->interface_ = interface;
    n->communicators++;
    if (version > 0)
        n->version = version;
    if (!c || size <= 0 || ranks <= 0 || rank >= ranks)
        return;
    c->ranks = ranks;
    c->nodes = nodes > 0 ? nodes : -1;
    c->rank = (int32_t)rank;
}

void al_tally_nccl_event(struct al_tally *t, uint16_t kind, uint16_t code, int32_t device, int64_t a, int64_t b) {
    if (kind == AL_EVENT_COMMUNICATOR)
        communicator(&t->nccl, code, device, a, b);
    if (kind == AL_EVENT_COLLECTIVE && code < AL_COLLECTIVE_COUNT && a >= 0 && b >= 0) {
        t->nccl.calls[code] = (uint64_t)a;
        t->nccl.bytes[code] = (uint64_t)b;
    }
}

void al_tally_nccl_name(struct al_tally *t, const char *text) {
    uint64_t id = 0;
    const char *p = text;
    for (; *p && *p != ' ' && p - text < 16; p++) {
        const char *digits = "0123456789abcdef", *found = strchr(digits, *p);
        if (!found)
            return;
        id = id << 4 | (uint64_t)(found - digits);
    }
    struct al_tally_communicator *c = p > text && *p == ' ' ? of_id(&t->nccl, id) : NULL;
    if (c)
        (void)al_str_copy(c->name, sizeof c->name, p + 1);
}

bool al_tally_nccl_counts(const struct al_tally *t) {
    return t->nccl.interface_ > 0 && t->nccl.version / 100 != 230;
}

bool al_tally_nccl_version(const struct al_tally *t, char *out, uint32_t size) {
    int32_t v = t->nccl.version;
    if (v >= 10000) // since 2.9
        return snprintf(out, size, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100) > 0;
    if (v >= 1000)
        return snprintf(out, size, "%d.%d.%d", v / 1000, v / 100 % 10, v % 100) > 0;
    return al_tally_word(t, AL_TEXT_FRAMEWORK, "nccl", out, size);
}

const char *al_transport_word(enum al_transport kind) {
    static const char *const words[] = {
        [AL_TRANSPORT_UNKNOWN] = "unknown",       [AL_TRANSPORT_NONE] = "none",       [AL_TRANSPORT_ONE_NODE] = "one_node",
        [AL_TRANSPORT_INFINIBAND] = "infiniband", [AL_TRANSPORT_SOCKETS] = "sockets", [AL_TRANSPORT_PLUGIN] = "plugin"};
    return words[kind];
}

// ---- how ranks reach each other ----

static bool told(const struct al_tally *t, const char *key, char *out, size_t size) {
    return al_tally_word(t, AL_TEXT_TRANSPORT, key, out, size);
}

static bool is_set(const struct al_tally *t, const char *key) {
    char value[16];
    return told(t, key, value, sizeof value) && strcmp(value, "0") != 0;
}

static bool number(const struct al_tally *t, const char *key, double *ret) {
    return al_tally_number(t, AL_TEXT_TRANSPORT, key, ret);
}

// 1 one node, 2 several, 0 not known.
static int nodes(const struct al_tally *t, const char **ret_source) {
    const struct al_tally_communicator *largest = NULL;
    double local;
    for (uint32_t i = 0; i < t->nccl.kept; i++) {
        const struct al_tally_communicator *c = &t->nccl.communicator[i];
        if (c->nodes > 0 && (!largest || c->ranks > largest->ranks))
            largest = c;
    }
    *ret_source = "NCCL tells how many nodes";
    if (largest && largest->ranks >= t->world)
        return largest->nodes == 1 ? 1 : 2;
    *ret_source = "LOCAL_WORLD_SIZE against the world's size";
    if (t->world > 0 && number(t, "local_world", &local) && local >= 1)
        return local >= (double)t->world ? 1 : 2;
    return 0;
}

static void say(struct al_tally_transport *r, enum al_transport kind, enum al_confidence confidence, const char *words,
                const char *why) {
    r->kind = kind;
    r->confidence = confidence;
    (void)al_str_copy(r->words, sizeof r->words, words);
    (void)al_str_copy(r->why, sizeof r->why, why);
}

static void on_one_node(const struct al_tally *t, int nvlinks, const char *source, struct al_tally_transport *ret) {
    char why[160];
    (void)snprintf(why, sizeof why, "%s%s", source,
                   nvlinks > 0 ? "; NVLink is up" : nvlinks == 0 ? "; no NVLink is up" : "; NVLink was not read");
    bool p2p = !is_set(t, "NCCL_P2P_DISABLE"), shared = !is_set(t, "NCCL_SHM_DISABLE");
    if (!p2p && !shared)
        say(ret, AL_TRANSPORT_UNKNOWN, AL_CONFIDENCE_LOW, "one node, by the network",
            "NCCL_P2P_DISABLE and NCCL_SHM_DISABLE are set");
    else if (!p2p)
        say(ret, AL_TRANSPORT_ONE_NODE, AL_CONFIDENCE_MEDIUM, "one node: shared memory", "NCCL_P2P_DISABLE is set");
    else
        say(ret, AL_TRANSPORT_ONE_NODE, AL_CONFIDENCE_MEDIUM,
            nvlinks > 0    ? "one node: NVLink (peer to peer) or shared memory"
            : nvlinks == 0 ? "one node: PCIe (peer to peer) or shared memory"
                           : "one node: NVLink or PCIe (peer to peer), or shared memory",
            why);
}

// By what the process holds open, not by what it has mapped: NCCL maps libibverbs where no device is, too.
static void over_the_network(const struct al_tally *t, struct al_tally_transport *ret) {
    char net[48] = "", words[96], why[160];
    double open = 0, devices = 0;
    bool open_known = number(t, "verbs_open", &open), devices_known = number(t, "verbs_devices", &devices);
    (void)told(t, "NCCL_NET", net, sizeof net);
    bool sockets = strcmp(net, "Socket") == 0, off = is_set(t, "NCCL_IB_DISABLE");
    ret->missed = devices > 0;
    if (sockets || off) {
        (void)snprintf(words, sizeof words, "sockets%s", devices > 0 ? " (InfiniBand devices present but switched off)" : "");
        say(ret, AL_TRANSPORT_SOCKETS, AL_CONFIDENCE_HIGH, words, sockets ? "NCCL_NET=Socket" : "NCCL_IB_DISABLE is set");
    } else if (net[0] && strcmp(net, "IB") != 0) {
        (void)snprintf(words, sizeof words, "network plugin %s", net);
        say(ret, AL_TRANSPORT_PLUGIN, AL_CONFIDENCE_MEDIUM, words, "NCCL_NET");
        ret->missed = false;
    } else if (open_known && open > 0) {
        (void)snprintf(why, sizeof why, "%.0f verbs device%s open in the process", open, open > 1 ? "s" : "");
        say(ret, AL_TRANSPORT_INFINIBAND, AL_CONFIDENCE_HIGH, "InfiniBand or RoCE", why);
        ret->missed = false;
    } else if (open_known && devices_known) {
        (void)snprintf(words, sizeof words, "sockets%s", devices > 0 ? " (InfiniBand devices present but not open)" : "");
        say(ret, AL_TRANSPORT_SOCKETS, AL_CONFIDENCE_MEDIUM, words,
            devices > 0 ? "no verbs device is open in the process" : "no InfiniBand device is there");
    } else {
        say(ret, AL_TRANSPORT_UNKNOWN, AL_CONFIDENCE_LOW, "unknown", "the process's open files could not be read");
        ret->missed = false;
    }
}

void al_tally_transport(const struct al_tally *t, int nvlinks, struct al_tally_transport *ret) {
    const char *source;
    memset(ret, 0, sizeof *ret);
    int several = nodes(t, &source);
    if (t->world <= 1 && !t->nccl.communicators)
        say(ret, AL_TRANSPORT_NONE, AL_CONFIDENCE_HIGH, "none", "one rank");
    else if (several == 1)
        on_one_node(t, nvlinks, source, ret);
    else if (several == 2)
        over_the_network(t, ret);
    else
        say(ret, AL_TRANSPORT_UNKNOWN, AL_CONFIDENCE_LOW, "unknown", "it is not told how many nodes there are");
}
