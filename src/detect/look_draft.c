// SPDX-License-Identifier: Apache-2.0
#include "detect/look_draft.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/say.h"

void al_run_look(struct al_run *run, const uint32_t *gpus, uint32_t count, struct al_looks_told *ret)
{
    const struct al_view *v = run->view;
    pid_t pids[AL_DETECT_LOOKS];
    uint32_t n = 0;
    for (uint32_t g = 0; g < count; g++)
        for (uint32_t i = v->first_row[gpus[g]]; i < v->first_row[gpus[g] + 1]; i++) {
            const struct al_proc *p = al_snapshot_proc(run->s, v->s->rows[i].pid);
            bool main = p && p->role != AL_ROLE_WORKER && al_view_computes(&v->s->rows[i]);
            for (uint32_t k = 0; k < n && main; k++)
                main = pids[k] != p->pid;
            if (!main || n == AL_DETECT_LOOKS)
                continue;
            al_run_ask_look(run, p->pid);
            pids[n++] = p->pid;
        }
    al_looks_sum(run->s, run->set, pids, n, ret);
}

bool al_looks_starve(const struct al_looks_told *t, const struct al_settings *set)
{
    return al_looks_enough(t, set) && t->share[AL_LOOK_KIND_LOADER] + t->share[AL_LOOK_KIND_FETCH] >= 0.5;
}

bool al_looks_excuse(const struct al_looks_told *t, const struct al_settings *set)
{
    return al_looks_enough(t, set) &&
           t->share[AL_LOOK_KIND_LOAD] + t->share[AL_LOOK_KIND_COMPILE] + t->share[AL_LOOK_KIND_REQUESTS] >= 0.5;
}

static void number(struct al_draft *d, enum al_look_metric metric, double value)
{
    const struct al_metric_info *info = &al_look_metric_table[metric];
    al_draft_number(d, info->name, value, info->unit, "stacks", AL_SIGNAL_STACK);
}

bool al_draft_look(struct al_run *run, struct al_draft *d, const struct al_looks_told *t)
{
    char words[sizeof d->f.message];
    double share;
    al_looks_say(t, run->set, words, sizeof words);
    if (!*words && t->problem && !t->samples)
        al_draft_considered(d, "What it executes could not be seen: %s. ", t->problem);
    if (!*words)
        return false;
    enum al_look_kind kind = al_looks_kind(t, &share);
    al_draft_message(d, "; %s", words);
    if (t->elsewhere)
        number(d, AL_LOOK_COLLECTIVE, t->collective);
    number(d, (enum al_look_metric)(AL_LOOK_OTHER + kind), share);
    if (kind != AL_LOOK_KIND_LOADER)
        number(d, AL_LOOK_LINE, t->line_ratio);
    else if (t->worker_samples)
        number(d, AL_LOOK_WORKER_LINE, t->worker_line_ratio);
    if (kind == AL_LOOK_KIND_LOADER && t->worker_samples)
        number(d, AL_LOOK_WORKER_WAITS, t->worker_waits);
    number(d, AL_LOOK_SAMPLES, t->samples);
    return true;
}

static void advise_loader(struct al_draft *d, const struct al_looks_told *t)
{
    char place[160];
    if (!t->workers) {
        al_draft_advice(d, "Look at the data set's worker processes; more of them (num_workers, dataloader_num_workers) help if "
                           "each is busy.");
    } else if (al_looks_busy_workers(t) < AL_LOOKS_BUSY) {
        al_draft_considered(d, "Slow workers: excluded, they wait for work themselves. ");
        al_draft_advice(d, "The way of a batch to the main process is slow, not its making: prefetch_factor, persistent_workers, "
                           "smaller samples, pin_memory; look at the sampler.");
    } else if (t->worker && al_frames_owner(t->worker->file) == AL_FRAMES_CORE) {
        al_draft_advice(d, "No code of yours is what takes long in the workers, but %s: fewer bytes a sample, fewer and larger files; "
                           "else more DataLoader workers (num_workers, dataloader_num_workers) while cores are free.",
                        t->worker->function);
    } else if (t->worker) {
        al_look_place_say(t->worker, true, place, sizeof place);
        al_draft_advice(d, "Make %s (%s) cheaper, or do it once ahead of the run (tokenise, decode, cache); else more DataLoader "
                           "workers (num_workers, dataloader_num_workers) while cores are free.", t->worker->function, place);
    }
}

static void advise_making(struct al_draft *d, const struct al_looks_told *t)
{
    if (t->workers)
        al_draft_advice(d, "The main process does this itself although it has DataLoader workers, which cannot take it (a sampler, "
                           "or a loader without workers): make it cheaper, or do it once ahead of the run.");
    else
        al_draft_advice(d, "Let DataLoader workers do it beside the steps (num_workers, dataloader_num_workers), or once ahead of "
                           "the run.");
}

// Which call a line makes natively is read from its source; what it is called on is not known.
static void consider_native(struct al_draft *d, const struct al_looks_told *t)
{
    const char *call = t->line ? t->line->call : "";
    if (strcmp(call, ".tolist()") == 0 || strcmp(call, ".nonzero()") == 0)
        al_draft_considered(d, "Of a tensor on the GPU %s waits for the GPU; of one in memory, or an array, it takes the CPU's "
                               "time. ", call);
    else if (strcmp(call, ".item()") == 0 || strcmp(call, ".cpu()") == 0)
        al_draft_considered(d, "That it is the GPU that the line waits for is told by its %s alone: what it computes on the CPU "
                               "looks the same. ", call);
    else if (strcmp(call, "_str") == 0)
        al_draft_considered(d, "It prints a tensor: of one in memory that takes the CPU's time alone. ");
}

static bool advise_line(struct al_draft *d, const struct al_looks_told *t)
{
    char place[160], file[100];
    if (!t->line || t->function_ratio < 0.25)
        return false;
    bool exact = t->line_ratio >= 0.25 && t->line_ratio >= t->function_ratio / 2;
    al_look_place_say(t->line, exact, exact ? place : file, exact ? sizeof place : sizeof file);
    if (!exact)
        (void)snprintf(place, sizeof place, "%.50s (%s)", t->line->function, file);
    (void)al_str_clean(place);
    consider_native(d, t);
    if (t->idle >= 0.5)
        al_draft_advice(d, "The main thread sleeps at %s: see what it waits for there (a lock, the network, another process).", place);
    else
        al_draft_advice(d, "Take what %s does out of the loop, or give it to other processes; if it launches many small kernels: "
                           "larger batch, torch.compile, CUDA graphs.", place);
    return true;
}

bool al_draft_look_advice(struct al_draft *d, const struct al_looks_told *t)
{
    double share;
    switch (al_looks_kind(t, &share)) {
    case AL_LOOK_KIND_LOADER: advise_loader(d, t); return true;
    case AL_LOOK_KIND_FETCH: advise_making(d, t); return true;
    case AL_LOOK_KIND_PREPROCESS:
        al_draft_advice(d, "Let DataLoader workers do it beside the steps (num_workers, dataloader_num_workers), or once ahead of "
                           "the run.");
        return true;
    case AL_LOOK_KIND_ATTENTION:
        al_draft_considered(d, "Python's frames tell the caller, not the kernel: a share in attention is a hint. ");
        al_draft_advice(d, "FlashAttention may be off or the shapes unsuitable for it: attn_implementation flash_attention_2 "
                           "(attn_impl), BF16, head size of at most 256 and a multiple of 8, no dense mask; packing for short rows.");
        return true;
    case AL_LOOK_KIND_COLLECTIVE:
        al_draft_considered(d, "A rank that is slow for another reason makes the others wait there. ");
        al_draft_advice(d, "Look for the rank that is elsewhere (alula dump --all-ranks PID); where all are there, at how the ranks "
                           "reach each other (NCCL's transport, NVLink, the network).");
        return true;
    case AL_LOOK_KIND_SYNCHRONISE:
        consider_native(d, t);
        al_draft_advice(d, "The step waits for the GPU each time: keep losses and metrics on the GPU and read them every n-th step; "
                           "no .item(), .cpu() or printed tensor in the loop.");
        return true;
    case AL_LOOK_KIND_SAVE:
        al_draft_advice(d, "Save less often, without the optimizer's state where no resuming is planned, or to a local disk first "
                           "and copy in another process.");
        return true;
    case AL_LOOK_KIND_LOG: al_draft_advice(d, "Log less often, and let slow reporters work every n-th step."); return true;
    case AL_LOOK_KIND_LOAD:
    case AL_LOOK_KIND_COMPILE:
        al_draft_considered(d, "It passes by itself, as a rule. ");
        al_draft_advice(d, "If it comes again and again: local copies of weights and data sets; fixed shapes (torch.compile with "
                           "dynamic=True, padding to few lengths).");
        return true;
    case AL_LOOK_KIND_REQUESTS:
        al_draft_advice(d, "If requests are waiting elsewhere, raise the concurrency; otherwise free the GPU.");
        return true;
    case AL_LOOK_KIND_FORWARD:
        al_draft_advice(d, "The main thread launches the model's kernels, not fast enough: larger batch, torch.compile, CUDA graphs, "
                           "padding and Python loops out of the model.");
        return true;
    case AL_LOOK_KIND_BACKWARD:
        al_draft_advice(d, "The main thread launches the backward pass, or waits in it: many small kernels (larger batch, "
                           "torch.compile, CUDA graphs), or, with several ranks, gradients that are exchanged.");
        return true;
    case AL_LOOK_KIND_OPTIMIZER:
        al_draft_advice(d, "The optimizer launches many small kernels: fused=True (adamw_torch_fused), and fewer steps with larger "
                           "batches.");
        return true;
    default: return advise_line(d, t);
    }
}
