// SPDX-License-Identifier: Apache-2.0
#include "host/roles.h"

#include <string.h>

#include "base/str.h"
#include "model/process.h"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// True when `name` is one of the words, or begins with one that ends in '*'.
static bool in_list(const char *name, const char *const *words) {
    for (; *words; words++) {
        size_t len = strlen(*words);
        if ((*words)[len - 1] == '*' ? strncmp(name, *words, len - 1) == 0 : strcmp(name, *words) == 0)
            return true;
    }
    return false;
}

static const char *const shells[] = {"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash",
                                     "busybox", NULL};

// Daemons that start unrelated things for people and schedulers: what is below two of their children is not one job.
static const char *const daemons[] = {
    "systemd*", "init", "alula", "tini*", "dumb-init", "docker-init", "catatonit", "s6-*", "runit", "runsv*", "supervisord",
    "sshd*", "login", "su", "sudo", "doas", "tmux*", "screen", "SCREEN", "zellij", "cron", "crond", "atd", "anacron",
    "containerd*", "docker*", "conmon*", "runc", "crun", "podman", "kubelet", "slurmd*", "slurmstepd*", "pbs_mom",
    "sge_*", "condor_*", "raylet", "jupyter*", "node", "code*", "xterm", "gnome-*", "konsole", NULL};

// Starters of ranks that are known to reach them through a wrapping shell (`mpirun bash -c …`).
static const char *const shell_starters[] = {"mpirun*", "mpiexec*", "orterun", "orted", "prterun", "prted", "hydra_*",
                                             "torchrun", "torch.distributed.*", "accelerate*", "deepspeed*", "srun",
                                             NULL};

bool al_role_is_boundary(const char *exe, const char *program) {
    return in_list(exe, shells) || in_list(exe, daemons) || in_list(base_name(program), daemons);
}

bool al_role_is_shell(const char *exe) {
    return in_list(exe, shells);
}

static bool is_boundary(const struct al_role_node *n) {
    return !n->gpu && !n->trains && al_role_is_boundary(n->exe, n->program);
}

static bool is_python(const struct al_role_node *n) {
    return al_str_starts(n->exe, "python") || al_str_starts(n->exe, "pypy") || al_str_starts(n->comm, "pt_main_thread");
}

static bool has_rank(const struct al_role_node *n) {
    return n->rank >= 0 || n->local_rank >= 0;
}

// A program that serves models, by what was started, not by words among its arguments: a training may well be given
// --vllm_mode colocate.
static bool is_server(const struct al_role_node *n) {
    static const char *const always[] = {"vllm.entrypoints.*", "sglang.launch_server", "text-generation-*",
                                         "text_generation_server*", "trtllm-serve", "tritonserver", "deploy.py",
                                         "rollout.py", "lmdeploy.serve.*", "llama-server", NULL};
    static const char *const with_verb[] = {"vllm", "sglang", "lmdeploy", "swift", "vllm.*", NULL};
    static const char *const verbs[] = {"serve", "deploy", "rollout", "launch_server", "run-batch", NULL};
    const char *name = base_name(n->program);
    // deploy.py and rollout.py are swift's only below swift/cli.
    if (strcmp(name, "deploy.py") == 0 || strcmp(name, "rollout.py") == 0)
        return strstr(n->program, "swift/cli/") != NULL;
    return in_list(name, always) || (in_list(name, with_verb) && in_list(n->verb, verbs));
}

// The titles that engines give their processes (setproctitle writes argv, and the kernel cuts comm at 15 bytes).
static bool has_engine_title(const struct al_role_node *n) {
    static const char *const titles[] = {"VLLM::*", "sglang::*", NULL};
    return in_list(n->comm, titles) || in_list(n->command, titles);
}

static bool is_kernel(const struct al_role_node *nodes, const struct al_role_node *n) {
    if (!al_str_starts(base_name(n->program), "ipykernel"))
        return false;
    const struct al_role_node *up = n->parent >= 0 ? &nodes[n->parent] : NULL;
    return strstr(n->command, ".json") || (up && al_str_starts(base_name(up->program), "jupyter"));
}

static bool made_by_multiprocessing(const struct al_role_node *n) {
    static const char *const comms[] = {"pt_data_worker*", "pt_multiprocess*", NULL};
    return in_list(n->comm, comms) || strstr(n->command, "multiprocessing.spawn") ||
           strstr(n->command, "--multiprocessing-fork");
}

// True when `n` was made by its parent as another worker of the same program: forked without an exec (same executable,
// stack and rank variables, or the same arguments where the stack is secret), or started by multiprocessing.
static bool is_worker_like(const struct al_role_node *n, const struct al_role_node *up) {
    bool server = strstr(up->command, "multiprocessing.forkserver") != NULL;
    if (!server && strstr(n->command, "multiprocessing.forkserver"))
        return false; // the fork server itself
    if (n->rank != up->rank || n->local_rank != up->local_rank)
        return false;
    if (made_by_multiprocessing(n))
        return true;
    if (!is_python(up) || strcmp(n->exe, up->exe) != 0)
        return false;
    if (n->start_stack && up->start_stack)
        return n->start_stack == up->start_stack;
    return n->command[0] && strcmp(n->command, up->command) == 0;
}

bool al_role_is_made(const struct al_proc *child, const struct al_proc *up) {
    const struct al_role_node n = {.comm = child->comm, .exe = child->exe, .command = child->command};
    if (child->uid != up->uid || !al_str_starts(up->exe, "python"))
        return false;
    return made_by_multiprocessing(&n) || has_engine_title(&n) || strstr(n.command, "multiprocessing.forkserver") ||
           strstr(n.command, "multiprocessing.resource_tracker") || (*n.command && strcmp(n.command, up->command) == 0);
}

// What the GPU children of a node tell about it.
struct brood {
    unsigned count;
    bool ranked;   // all have rank variables of their own
    bool first;    // rank 0 or local rank 0 is among them
    bool disjoint; // each has GPUs of its own
};

static struct brood look_at_children(const struct al_role_node *nodes, size_t count, size_t at) {
    struct brood b = {.ranked = true, .disjoint = true};
    uint64_t devices = 0;
    for (size_t i = 0; i < count; i++) {
        const struct al_role_node *n = &nodes[i];
        if (n->parent != (int32_t)at || !n->gpu)
            continue;
        b.count++;
        b.ranked &= has_rank(n) && (n->rank != nodes[at].rank || n->local_rank != nodes[at].local_rank);
        b.first |= n->rank == 0 || n->local_rank == 0;
        b.disjoint &= n->devices && !(devices & n->devices);
        devices |= n->devices;
    }
    b.ranked &= b.count > 0;
    return b;
}

// A launcher that has touched CUDA itself: its children are the ranks, the first one among them (otherwise it is rank 0
// itself, as Lightning's first process is), or torch.multiprocessing's children with a GPU each.
static bool is_launcher_with_context(const struct al_role_node *nodes, size_t count, size_t at) {
    if (has_rank(&nodes[at]))
        return false;
    struct brood b = look_at_children(nodes, count, at);
    return (b.ranked && b.first) || (!b.ranked && b.count >= 2 && b.disjoint);
}

static bool has_gpu_sibling(const struct al_role_node *nodes, size_t count, size_t at) {
    const struct al_role_node *n = &nodes[at];
    if (n->parent < 0 || is_boundary(&nodes[n->parent]))
        return false;
    for (size_t i = 0; i < count; i++)
        if (i != at && nodes[i].gpu && nodes[i].parent == n->parent && strcmp(nodes[i].exe, n->exe) == 0)
            return true;
    return false;
}

static bool is_primary(uint32_t role) {
    return role == AL_ROLE_RANK || role == AL_ROLE_ENGINE || role == AL_ROLE_NOTEBOOK;
}

static bool is_engine(const struct al_role_node *nodes, const struct al_role_node *n) {
    if (has_engine_title(n) || is_server(n))
        return true;
    // A worker that a server made, directly or through another one of its workers.
    const struct al_role_node *up = n->parent >= 0 ? &nodes[n->parent] : NULL;
    return up && (up->role == AL_ROLE_ENGINE || is_server(up) || has_engine_title(up)) && is_worker_like(n, up);
}

static bool has_other_rank(const struct al_role_node *n, const struct al_role_node *up) {
    return has_rank(n) && (n->rank != up->rank || n->local_rank != up->local_rank);
}

// ms-swift's trainers, which `swift sft` starts and waits for.
static bool is_trainer_script(const char *program) {
    const char *script = strstr(program, "swift/cli/");
    return script && al_str_ends(script, ".py") && strcmp(base_name(script), "main.py") != 0;
}

bool al_role_starts_training(const char *program, const char *verb) {
    static const char *const always[] = {"torchrun", "torch.distributed.*", "deepspeed*", "horovodrun", "colossalai", NULL};
    static const char *const with_verb[] = {"swift", "megatron", "accelerate", "llamafactory-cli",
                                            "axolotl", "tune", NULL};
    static const char *const verbs[] = {"pt", "sft", "rlhf", "launch", "train", "run", NULL};
    const char *name = base_name(program);
    return in_list(name, always) || (in_list(name, with_verb) && in_list(verb, verbs)) ||
           al_str_starts(name, "accelerate.commands.launch");
}

static bool starts_training(const struct al_role_node *n) {
    return al_role_starts_training(n->program, n->verb);
}

// What stands between a launcher and its rank and hands the rank's variables on (`mpirun bash -c …`, `uv run`).
static bool is_wrapper(const struct al_role_node *n) {
    return !n->root && (al_role_is_shell(n->exe) || strcmp(n->exe, "uv") == 0);
}

static bool differs_above(const struct al_role_node *nodes, size_t count, const struct al_role_node *n) {
    const struct al_role_node *up = &nodes[n->parent];
    for (size_t steps = 0; steps < count && is_wrapper(up) && up->parent >= 0; steps++)
        up = &nodes[up->parent];
    return has_other_rank(n, up);
}

// Roles in the tree of a job without a GPU, from the rank variables that a launcher gave its children and, where it gives
// none to an only rank, from what was started.
static uint32_t told_role(const struct al_role_node *nodes, size_t count, const struct al_role_node *n) {
    if (n->root || starts_training(n))
        return AL_ROLE_LAUNCHER;
    const struct al_role_node *up = n->parent >= 0 ? &nodes[n->parent] : NULL;
    if (!up || !up->told)
        return AL_ROLE_UNKNOWN;
    if (differs_above(nodes, count, n))
        return is_wrapper(n) ? AL_ROLE_LAUNCHER : AL_ROLE_RANK;
    if (is_python(n) && is_trainer_script(n->program))
        return AL_ROLE_RANK;
    return is_python(n) && starts_training(up) && !strstr(n->command, "multiprocessing.") ? AL_ROLE_RANK : AL_ROLE_OTHER;
}

static uint32_t gpu_role(const struct al_role_node *nodes, size_t count, size_t at) {
    const struct al_role_node *n = &nodes[at];
    const struct al_role_node *up = n->parent >= 0 ? &nodes[n->parent] : NULL;
    if (is_engine(nodes, n))
        return AL_ROLE_ENGINE;
    if (is_kernel(nodes, n))
        return AL_ROLE_NOTEBOOK;
    if (up && up->primary >= 0) {
        if (is_worker_like(n, up))
            return AL_ROLE_WORKER;
        return has_other_rank(n, up) ? AL_ROLE_RANK : AL_ROLE_OTHER;
    }
    if (is_launcher_with_context(nodes, count, at))
        return AL_ROLE_LAUNCHER;
    return has_rank(n) || is_python(n) || has_gpu_sibling(nodes, count, at) ? AL_ROLE_RANK : AL_ROLE_UNKNOWN;
}

// Roles of what holds a GPU and of what is below; parents first. `primary` is the nearest rank, engine or notebook, the
// process itself included.
static void assign_downwards(struct al_role_node *nodes, size_t count, size_t at) {
    struct al_role_node *n = &nodes[at];
    if (n->seen)
        return;
    n->seen = 1; // before the parent: a loop in untrusted parentage ends here
    struct al_role_node *up = n->parent >= 0 ? &nodes[n->parent] : NULL;
    if (up)
        assign_downwards(nodes, count, (size_t)n->parent);
    n->primary = up ? up->primary : -1;
    n->told = n->root || (up && up->told);
    if (n->trains)
        n->role = is_engine(nodes, n) ? AL_ROLE_ENGINE : AL_ROLE_RANK;
    else if (n->gpu)
        n->role = gpu_role(nodes, count, at);
    else if (n->told && has_engine_title(n))
        n->role = AL_ROLE_ENGINE;
    else if (up && up->primary >= 0)
        n->role = is_worker_like(n, up) ? AL_ROLE_WORKER : AL_ROLE_OTHER;
    else if (up && up->member && (up->role == AL_ROLE_UNKNOWN || up->role == AL_ROLE_OTHER))
        n->role = AL_ROLE_OTHER; // below a GPU process that is none of them
    if (n->role == AL_ROLE_UNKNOWN || (n->role == AL_ROLE_OTHER && up && up->primary < 0))
        n->role = n->told ? told_role(nodes, count, n) : n->role;
    n->member = n->gpu || n->role != AL_ROLE_UNKNOWN;
    if (n->role == AL_ROLE_WORKER && n->primary >= 0)
        n->owner = nodes[n->primary].pid;
    if (is_primary(n->role))
        n->primary = (int32_t)at;
}

static bool may_climb(const struct al_role_node *nodes, int32_t from, int32_t to) {
    if (to < 0 || nodes[from].root || nodes[to].uid != nodes[from].uid || nodes[to].uid == (uid_t)-1)
        return false;
    if (nodes[to].root)
        return true;
    if (!is_boundary(&nodes[to]))
        return true;
    // A shell only when a starter of ranks is right above it. Counted, since parents read at different times may form a
    // ring.
    for (unsigned shell = 0; shell < 8 && to >= 0 && al_role_is_shell(nodes[to].exe); shell++)
        to = nodes[to].parent;
    return to >= 0 && nodes[to].uid == nodes[from].uid &&
           (in_list(nodes[to].exe, shell_starters) || in_list(base_name(nodes[to].program), shell_starters));
}

// Marks the launchers above a rank or engine and returns the topmost process of the job.
static pid_t climb(struct al_role_node *nodes, size_t count, size_t at) {
    int32_t top = (int32_t)at;
    for (size_t steps = 0; steps < count && may_climb(nodes, top, nodes[top].parent); steps++) {
        top = nodes[top].parent;
        if (!nodes[top].gpu && nodes[top].role == AL_ROLE_UNKNOWN)
            nodes[top].role = AL_ROLE_LAUNCHER;
        nodes[top].member = true;
    }
    return nodes[top].pid;
}

// Ranks without a launcher of their own that may belong together; `seen` is 2 for ranks that are their job's top.
static bool same_job(const struct al_role_node *a, const struct al_role_node *b) {
    return a->seen == 2 && b->seen == 2 && a->ppid == b->ppid && a->uid == b->uid && a->world_size == b->world_size &&
           a->meeting == b->meeting;
}

// srun's ranks hang side by side below slurmstepd, those of a loop below its shell: the lowest pid stands for the job,
// unless two have the same rank and so belong to different jobs.
static pid_t job_among_siblings(const struct al_role_node *nodes, size_t count, size_t at) {
    pid_t lowest = nodes[at].pid;
    for (size_t i = 0; i < count; i++) {
        if (!same_job(&nodes[i], &nodes[at]))
            continue;
        for (size_t k = 0; k < i; k++)
            if (nodes[k].rank == nodes[i].rank && same_job(&nodes[k], &nodes[i]))
                return nodes[at].pid;
        if (nodes[i].pid < lowest)
            lowest = nodes[i].pid;
    }
    return lowest;
}

static int32_t find(const struct al_role_node *nodes, size_t count, pid_t pid) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (nodes[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && nodes[low].pid == pid ? (int32_t)low : -1;
}

static int32_t topmost(const struct al_role_node *nodes, size_t count, int32_t at) {
    for (size_t steps = 0; steps < count && may_climb(nodes, at, nodes[at].parent); steps++)
        at = nodes[at].parent;
    return at;
}

// The job of what a worker or another child belongs to.
static pid_t job_above(const struct al_role_node *nodes, size_t count, int32_t at) {
    for (size_t steps = 0; at >= 0 && steps < count; steps++, at = nodes[at].parent)
        if (nodes[at].role != AL_ROLE_WORKER && nodes[at].role != AL_ROLE_OTHER)
            return nodes[at].job;
    return 0;
}

static void assign_jobs(struct al_role_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct al_role_node *n = &nodes[i];
        if (n->role == AL_ROLE_RANK || n->role == AL_ROLE_ENGINE)
            n->job = climb(nodes, count, i);
        else if (n->role == AL_ROLE_NOTEBOOK || (n->gpu && n->role == AL_ROLE_UNKNOWN))
            n->job = n->pid;
        if (n->role == AL_ROLE_RANK && n->job == n->pid && n->world_size > 1 && n->rank >= 0)
            n->seen = 2;
    }
    for (size_t i = 0; i < count; i++)
        if (nodes[i].seen == 2)
            nodes[i].job = job_among_siblings(nodes, count, i);
    for (size_t i = 0; i < count; i++)
        if (nodes[i].role == AL_ROLE_LAUNCHER)
            nodes[i].job = nodes[topmost(nodes, count, (int32_t)i)].pid;
    for (size_t i = 0; i < count; i++)
        if (nodes[i].role == AL_ROLE_WORKER || nodes[i].role == AL_ROLE_OTHER)
            nodes[i].job = job_above(nodes, count, (int32_t)i);
}

void al_roles_assign(struct al_role_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct al_role_node *n = &nodes[i];
        n->parent = n->ppid > 0 && n->ppid != n->pid ? find(nodes, count, n->ppid) : -1;
        n->primary = -1;
        n->seen = 0;
        n->member = false;
        n->role = AL_ROLE_UNKNOWN;
        n->job = n->owner = 0;
    }
    for (size_t i = 0; i < count; i++)
        assign_downwards(nodes, count, i);
    assign_jobs(nodes, count);
}
