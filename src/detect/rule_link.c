// SPDX-License-Identifier: Apache-2.0
// Link degraded: PCIe generation or width below what GPU and slot can do while the GPU works (idle links are lowered to
// save power), NVLink links down, and links that have to send again.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "detect/rule.h"
#include "detect/say.h"
#include "series/window.h"

#define RATE_SPAN_NS (60 * AL_NS_PER_S)
#define RATE_LEAST_S 5.0

struct state {
    uint32_t low_run;
    int64_t at_ns;
    struct al_window counter; // of a counter's readings, in the track that judges it
    double most_active;       // NVLink links seen up
};

static void done(void *state)
{
    al_window_done(&((struct state *)state)->counter);
}

// ---- PCIe generation and width ----

static bool below(struct al_value now, struct al_value most)
{
    return al_ok(now) && al_ok(most) && now.num > 0 && now.num < most.num;
}

static bool works(const struct al_gpu *gpu, const struct al_settings *set)
{
    struct al_value state = gpu->m[AL_GPU_PSTATE]; // P5 and beyond: low power, and the link with it
    return al_ok(gpu->m[AL_GPU_UTIL]) && gpu->m[AL_GPU_UTIL].num >= set->link_busy_above &&
           !(al_ok(state) && state.num >= 5);
}

static void raise_pcie(struct al_run *run, struct al_track *t, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_draft *d = al_run_draft(run, "link", AL_LEVEL_WARNING, (int)g);
    al_draft_title(d, "PCIe link degraded");
    al_draft_message(d, "%s: PCIe runs at generation %.0f x%.0f under load, GPU and slot can do generation %.0f x%.0f",
                     al_say_gpu(run->s, gpu).s, gpu->m[AL_GPU_PCIE_GEN].num, gpu->m[AL_GPU_PCIE_WIDTH].num,
                     gpu->m[AL_GPU_PCIE_GEN_MAX].num, gpu->m[AL_GPU_PCIE_WIDTH_MAX].num);
    al_draft_gpu(d, gpu, AL_GPU_PCIE_GEN, AL_SIGNAL_LINK);
    al_draft_gpu(d, gpu, AL_GPU_PCIE_WIDTH, AL_SIGNAL_LINK);
    al_draft_gpu(d, gpu, AL_GPU_PCIE_GEN_MAX, 0);
    al_draft_gpu(d, gpu, AL_GPU_PCIE_WIDTH_MAX, 0);
    al_draft_gpu(d, gpu, AL_GPU_UTIL, AL_SIGNAL_UTIL);
    al_draft_gpu(d, gpu, AL_GPU_PCIE_REPLAY, 0);
    al_draft_considered(d, "A link lowered to save power: excluded, the GPU was at work in every reading. A slot that can "
                           "do no more: excluded, the maximum is that of GPU and slot together.");
    al_draft_advice(d, "Reseat the board or riser, check the slot's BIOS setting and retimers; a cold restart retrains "
                       "the link. Host-to-device copies are slower until then.");
    al_run_raise(run, t);
}

static void judge_pcie(struct al_run *run, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_gpu(run, g, "pcie");
    struct al_value gen = gpu->m[AL_GPU_PCIE_GEN], width = gpu->m[AL_GPU_PCIE_WIDTH];
    if (!t)
        return;
    struct state *m = t->state;
    if (!al_ok(gen) || !al_ok(width) || !al_ok(gpu->m[AL_GPU_PCIE_GEN_MAX]) || !al_ok(gpu->m[AL_GPU_PCIE_WIDTH_MAX])) {
        al_run_cannot(run, t, "PCIe generation or width could not be read");
        return;
    }
    bool low = below(gen, gpu->m[AL_GPU_PCIE_GEN_MAX]) || below(width, gpu->m[AL_GPU_PCIE_WIDTH_MAX]);
    bool busy = works(gpu, run->set);
    if (gen.at_ns > m->at_ns && (busy || !low)) { // a low link at idle says nothing, neither way
        m->at_ns = gen.at_ns;
        m->low_run = low ? m->low_run + 1 : 0;
    }
    if (m->low_run >= run->set->link_ticks && low && (busy || t->open))
        raise_pcie(run, t, g);
    else
        al_run_quiet(run, t);
}

// ---- counters ----

// Rate over the last minute; false while too little of it was seen. A fall of the counter starts anew.
static bool rate_of(struct state *m, double sum, int64_t at_ns, double *ret)
{
    struct al_window *w = &m->counter;
    if (!w->ring && al_window_init(w, RATE_SPAN_NS, 128) < 0)
        return false;
    if (w->count && sum < al_window_last(w)->value)
        al_window_clear(w);
    al_window_push(w, at_ns, sum);
    if (al_window_seconds(w) < RATE_LEAST_S)
        return false;
    *ret = (al_window_last(w)->value - al_window_first(w)->value) / al_window_seconds(w);
    return true;
}

struct counted {
    const char *part;
    enum al_gpu_metric metrics[3];
    int count;
    const char *title, *what, *word, *advice;
};

static const struct counted counted[] = {
    {"replays", {AL_GPU_PCIE_REPLAY}, 1, "PCIe link sends again", "PCIe replays", "pcie_replay_rate",
     "Reseat the board or riser and check retimers and cables; errors that are corrected cost bandwidth, and more of them "
     "may end in a lost GPU."},
    {"nvlink-errors", {AL_GPU_NVLINK_REPLAY, AL_GPU_NVLINK_CRC, AL_GPU_NVLINK_RECOVERY}, 3, "NVLink errors",
     "NVLink replays, CRC errors and recoveries", "nvlink_error_rate",
     "Check the bridge or baseboard connection and the NVSwitch side (fabric manager's log); collectives are slower "
     "while links repeat."},
};

static void judge_counter(struct al_run *run, uint32_t g, const struct counted *c, double limit)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_gpu(run, g, c->part);
    double sum = 0, rate;
    int64_t at_ns = 0;
    int known = 0;
    for (int i = 0; i < c->count; i++)
        if (al_ok(gpu->m[c->metrics[i]])) {
            known++;
            sum += gpu->m[c->metrics[i]].num;
            at_ns = gpu->m[c->metrics[i]].at_ns > at_ns ? gpu->m[c->metrics[i]].at_ns : at_ns;
        }
    if (!t)
        return;
    if (!known) {
        al_run_cannot(run, t, "the counter could not be read");
    } else if (!rate_of(t->state, sum, at_ns, &rate)) {
        al_run_too_little(run, t, "too few readings of the counter");
    } else if (rate <= (t->open ? limit / 2 : limit)) {
        al_run_quiet(run, t);
    } else {
        struct al_draft *d = al_run_draft(run, "link", AL_LEVEL_WARNING, (int)g);
        d->reported = true;
        al_draft_title(d, "%s", c->title);
        al_draft_message(d, "%s: %s at %s over the last %s", al_say_gpu(run->s, gpu).s, c->what, al_say_rate(rate).s,
                         al_say_seconds(al_window_seconds(&((struct state *)t->state)->counter)).s);
        al_draft_number(d, c->word, rate, AL_UNIT_PER_SECOND, "nvml", AL_SIGNAL_LINK);
        for (int i = 0; i < c->count; i++)
            al_draft_gpu(d, gpu, c->metrics[i], AL_SIGNAL_LINK);
        al_draft_considered(d, "Errors from before alula started: not counted, this is the rise since.");
        al_draft_advice(d, "%s", c->advice);
        al_run_raise(run, t);
    }
}

// ---- NVLink links ----

// Most links up on another GPU of the same product.
static double most_of_peers(const struct al_run *run, uint32_t g)
{
    double most = 0;
    for (uint32_t i = 0; i < run->s->gpu_count; i++) {
        struct al_value active = run->s->gpus[i].m[AL_GPU_NVLINK_ACTIVE];
        if (i != g && al_ok(active) && active.num > most &&
            strcmp(run->s->gpus[i].info.name, run->s->gpus[g].info.name) == 0)
            most = active.num;
    }
    return most;
}

static void judge_nvlink(struct al_run *run, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_gpu(run, g, "nvlink");
    struct al_value active = gpu->m[AL_GPU_NVLINK_ACTIVE], links = gpu->m[AL_GPU_NVLINK_LINKS];
    if (!t)
        return;
    struct state *m = t->state;
    if (!al_ok(active) || !al_ok(links)) {
        al_run_cannot(run, t, "no NVLink here, or its state could not be read");
        return;
    }
    m->most_active = active.num > m->most_active ? active.num : m->most_active;
    double peers = most_of_peers(run, g);
    bool fell = active.num < m->most_active, behind = active.num < peers;
    // Boards with fewer links wired than the chip has, or without a bridge, show as inactive for ever: no fault.
    if (!fell && !behind) {
        al_run_quiet(run, t);
        return;
    }
    double expected = fell ? m->most_active : peers;
    struct al_draft *d = al_run_draft(run, "link", AL_LEVEL_WARNING, (int)g);
    d->reported = fell;
    al_draft_title(d, "NVLink links down");
    al_draft_message(d, "%s: %.0f of %.0f NVLink links are up, %.0f %s", al_say_gpu(run->s, gpu).s, active.num, links.num,
                     expected, fell ? "were up before" : "are up on other GPUs of the same product");
    al_draft_gpu(d, gpu, AL_GPU_NVLINK_ACTIVE, AL_SIGNAL_LINK);
    al_draft_gpu(d, gpu, AL_GPU_NVLINK_LINKS, 0);
    al_draft_number(d, "nvlink_links_expected", expected, AL_UNIT_COUNT, "nvml", behind ? AL_SIGNAL_PEERS : 0);
    al_draft_considered(d, fell ? "A board with fewer links wired: excluded, they were up while alula watched."
                                : "A board that is wired differently on purpose is not excluded.");
    al_draft_advice(d, "See nvidia-smi nvlink -s and the fabric manager's log; reseat the bridge, or drain the node and "
                       "reset the GPUs. Collectives run over fewer links or over PCIe until then.");
    al_run_raise(run, t);
}

static void step(struct al_run *run)
{
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        if (run->s->gpus[g].info.is_mig) // links are the parent's
            continue;
        judge_pcie(run, g);
        judge_counter(run, g, &counted[0], run->set->link_replays_above);
        judge_nvlink(run, g);
        judge_counter(run, g, &counted[1], run->set->link_nvlink_errors_above);
    }
}

const struct al_rule al_rule_link = {
    .name = "link",
    .groups = AL_GROUP_FAST | AL_GROUP_LINK,
    .enabled = AL_ENABLED(link),
    .state_size = sizeof(struct state),
    .step = step,
    .done = done,
};
