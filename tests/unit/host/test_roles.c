// SPDX-License-Identifier: Apache-2.0
// Process trees as launchers really make them, one a table.
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#define NO {-1, -1, -1}
struct vars {
    int32_t rank, local, world;
};

struct row {
    pid_t pid, ppid;
    int gpu; // device, -1 none
    const char *comm, *exe, *program, *verb, *command;
    struct vars v;
    uid_t uid;
    uint64_t stack;
    // Expected; role NULL: no member of any job.
    const char *role;
    pid_t job, owner;
};

static int by_pid(const void *a, const void *b) {
    return ((const struct al_role_node *)a)->pid - ((const struct al_role_node *)b)->pid;
}

// root: the top of a job's tree, as the caller says; 0 none.
static void check(const char *what, const struct row *rows, size_t count, pid_t root) {
    struct al_role_node nodes[32];
    assert_true(count <= 32);
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        nodes[i] = (struct al_role_node){.pid = r->pid,
                                         .ppid = r->ppid,
                                         .uid = r->uid,
                                         .root = r->pid == root,
                                         .gpu = r->gpu >= 0,
                                         .devices = r->gpu >= 0 ? 1ULL << r->gpu : 0,
                                         .rank = r->v.rank,
                                         .local_rank = r->v.local,
                                         .world_size = r->v.world,
                                         .start_stack = r->stack,
                                         .comm = r->comm,
                                         .exe = r->exe,
                                         .program = r->program,
                                         .verb = r->verb,
                                         .command = r->command};
    }
    qsort(nodes, count, sizeof *nodes, by_pid);
    al_roles_assign(nodes, count);
    for (size_t i = 0; i < count; i++) {
        struct al_role_node key = {.pid = rows[i].pid};
        const struct al_role_node *n = bsearch(&key, nodes, count, sizeof *nodes, by_pid);
        const char *role = n->member ? al_role_word(n->role) : NULL;
        if ((role == NULL) != (rows[i].role == NULL) || (role && strcmp(role, rows[i].role) != 0))
            fail_msg("%s: %d is %s, expected %s", what, n->pid, role ? role : "no member",
                     rows[i].role ? rows[i].role : "no member");
        if (n->job != rows[i].job || n->owner != rows[i].owner)
            fail_msg("%s: %d has job %d and owner %d, expected %d and %d", what, n->pid, n->job, n->owner, rows[i].job,
                     rows[i].owner);
    }
}
#define CHECK(what, rows) check(what, rows, sizeof(rows) / sizeof *(rows), 0)
#define CHECK_BELOW(what, rows, root) check(what, rows, sizeof(rows) / sizeof *(rows), root)

#define SYSTEMD {1, 0, -1, "systemd", "systemd", "/sbin/init", "", "/sbin/init", NO, 0, 0, NULL, 0, 0}
#define SHELL(pid, ppid, uid) {pid, ppid, -1, "bash", "bash", "-bash", "", "-bash", NO, uid, 0, NULL, 0, 0}

static void torchrun(void **state) {
    (void)state;
    const char *t = "python -u train.py";
    const struct row rows[] = {
        SYSTEMD,
        SHELL(100, 1, 1000),
        {200, 100, -1, "torchrun", "python3.11", "/usr/bin/torchrun", "--nproc_per_node", "python torchrun ...", NO, 1000,
         1, "launcher", 200, 0},
        {300, 200, 0, "pt_main_thread", "python3.11", "train.py", "", t, {0, 0, 2}, 1000, 2, "rank", 200, 0},
        {301, 200, 1, "pt_main_thread", "python3.11", "train.py", "", t, {1, 1, 2}, 1000, 3, "rank", 200, 0},
        // forked workers, one with a context; a worker that renamed itself; a program of its own
        {400, 300, -1, "pt_data_worker", "python3.11", "train.py", "", t, {0, 0, 2}, 1000, 2, "worker", 200, 300},
        {401, 300, 0, "pt_data_worker", "python3.11", "train.py", "", t, {0, 0, 2}, 1000, 2, "worker", 200, 300},
        {402, 301, -1, "loader", "python3.11", "loader: 3", "", "loader: 3", {1, 1, 2}, 1000, 3, "worker", 200, 301},
        {403, 301, -1, "nvidia-smi", "nvidia-smi", "nvidia-smi", "", "nvidia-smi", {1, 1, 2}, 1000, 9, "other", 200, 0},
        {404, 300, -1, "python3", "python3.11", "from multiprocessing.resource_tracker import main;main(9)", "",
         "python -c from multiprocessing.resource_tracker import main;main(9)", {0, 0, 2}, 1000, 10, "other", 200, 0},
        // same executable and arguments, but started anew: no worker
        {405, 300, -1, "python3", "python3.11", "train.py", "", t, {0, 0, 2}, 1000, 11, "other", 200, 0},
    };
    CHECK("torchrun", rows);
}

static void swift(void **state) {
    (void)state;
    const char *sft = "python /x/swift/cli/sft.py --model m";
    const struct row single[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "swift", "python3", "/usr/bin/swift", "sft", "python /usr/bin/swift sft --model m", NO, 1000, 0,
         "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "/x/swift/cli/sft.py", "--model", sft, NO, 1000, 0, "rank", 200, 0},
        {400, 300, -1, "python3", "python3", "/x/swift/cli/sft.py", "--model", sft, NO, 1000, 0, "worker", 200, 300},
        {401, 300, -1, "pt_multiprocess", "python3", "/x/swift/cli/sft.py", "--model", sft, NO, 1000, 0, "worker", 200, 300},
    };
    CHECK("swift sft", single);
    const char *run = "python -m torch.distributed.run --nproc_per_node 2 /x/swift/cli/sft.py --use_vllm true "
                      "--vllm_mode colocate";
    const char *rank = "python -u /x/swift/cli/rlhf.py --use_vllm true --vllm_mode colocate";
    const struct row several[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "swift", "python3", "/usr/bin/swift", "rlhf", "python /usr/bin/swift rlhf", NO, 1000, 0, "launcher",
         200, 0},
        {250, 200, -1, "python3", "python3", "torch.distributed.run", "--nproc_per_node", run, NO, 1000, 0, "launcher", 200,
         0},
        {300, 250, 0, "pt_main_thread", "python3", "/x/swift/cli/rlhf.py", "--use_vllm", rank, {0, 0, 2}, 1000, 0, "rank",
         200, 0},
        {301, 250, 1, "pt_main_thread", "python3", "/x/swift/cli/rlhf.py", "--use_vllm", rank, {1, 1, 2}, 1000, 0, "rank",
         200, 0},
    };
    CHECK("NPROC_PER_NODE=2 swift rlhf", several);
    const struct row rollout[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "swift", "python3", "/x/swift/cli/rollout.py", "", "python /x/swift/cli/rollout.py", NO, 1000, 0,
         "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "from multiprocessing.spawn import spawn_main", "",
         "python -c from multiprocessing.spawn import spawn_main --multiprocessing-fork", NO, 1000, 0, "engine", 200, 0},
    };
    CHECK("swift rollout", rollout);
    // Ranks by torchrun from megatron's entry, one with a resource tracker, a packing worker and a forked loader worker.
    const char *megatron = "python -u /x/swift/cli/_megatron/sft.py --model m";
    const struct row ranks[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "megatron", "python3", "/usr/bin/megatron", "sft", "python /usr/bin/megatron sft", NO, 1000, 0,
         "launcher", 200, 0},
        {250, 200, -1, "python3", "python3", "torch.distributed.run", "--nproc_per_node", run, NO, 1000, 0, "launcher", 200,
         0},
        {300, 250, 0, "pt_main_thread", "python3", "/x/swift/cli/_megatron/sft.py", "--model", megatron, {0, 0, 2}, 1000, 0,
         "rank", 200, 0},
        {301, 250, 1, "pt_main_thread", "python3", "/x/swift/cli/_megatron/sft.py", "--model", megatron, {1, 1, 2}, 1000, 0,
         "rank", 200, 0},
        {310, 300, -1, "python3", "python3", "-c", "", "python -c from multiprocessing.resource_tracker import main;main(5)",
         {0, 0, 2}, 1000, 0, "other", 200, 0},
        {311, 300, -1, "python3", "python3", "-c", "",
         "python -c from multiprocessing.spawn import spawn_main --multiprocessing-fork", {0, 0, 2}, 1000, 0, "worker", 200,
         300},
        {312, 300, -1, "pt_data_worker", "python3", "/x/swift/cli/_megatron/sft.py", "--model", megatron, {0, 0, 2}, 1000, 0,
         "worker", 200, 300},
    };
    CHECK("NPROC_PER_NODE=2 megatron sft", ranks);
}

static void accelerate_and_deepspeed(void **state) {
    (void)state;
    const char *t = "python -u train.py";
    const struct row accelerate[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "accelerate", "python3", "/usr/bin/accelerate", "launch", "accelerate launch", NO, 1000, 0,
         "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "train.py", "", t, {0, 0, 2}, 1000, 0, "rank", 200, 0},
        {301, 200, 1, "python3", "python3", "train.py", "", t, {1, 1, 2}, 1000, 0, "rank", 200, 0},
    };
    CHECK("accelerate", accelerate);
    const struct row single[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "accelerate", "python3", "/usr/bin/accelerate", "launch", "accelerate launch", NO, 1000, 0,
         "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "train.py", "", t, NO, 1000, 0, "rank", 200, 0},
    };
    CHECK("accelerate with one process", single);
    const struct row deepspeed[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "deepspeed", "python3", "/usr/bin/deepspeed", "train.py", "deepspeed train.py", NO, 1000, 0,
         "launcher", 200, 0},
        {250, 200, -1, "python3", "python3", "deepspeed.launcher.launch", "--world_info=e30=", "python -m ...", NO, 1000, 0,
         "launcher", 200, 0},
        {300, 250, 0, "python3", "python3", "train.py", "--local_rank=0", "python train.py --local_rank=0", {0, 0, 2}, 1000,
         0, "rank", 200, 0},
        {301, 250, 1, "python3", "python3", "train.py", "--local_rank=1", "python train.py --local_rank=1", {1, 1, 2}, 1000,
         0, "rank", 200, 0},
    };
    CHECK("deepspeed", deepspeed);
}

static void mpi_and_slurm(void **state) {
    (void)state;
    const struct row mpi[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "mpirun", "mpirun", "mpirun", "-n", "mpirun -n 2 bash -c ./wrap python t.py", NO, 1000, 0, "launcher",
         200, 0},
        {210, 200, -1, "bash", "bash", "bash", "-c", "bash -c ./wrap", {0, 0, 2}, 1000, 0, "launcher", 200, 0},
        {211, 200, -1, "bash", "bash", "bash", "-c", "bash -c ./wrap", {1, 1, 2}, 1000, 0, "launcher", 200, 0},
        {300, 210, 0, "python3", "python3", "t.py", "", "python t.py", {0, 0, 2}, 1000, 0, "rank", 200, 0},
        {301, 211, 1, "python3", "python3", "t.py", "", "python t.py", {1, 1, 2}, 1000, 0, "rank", 200, 0},
    };
    CHECK("mpirun with a wrapper", mpi);
    const struct row compiled[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "mpirun", "mpirun", "mpirun", "-n", "mpirun -n 2 ./solver", NO, 1000, 0, "launcher", 200, 0},
        {300, 200, 0, "solver", "solver", "./solver", "", "./solver", NO, 1000, 0, "rank", 200, 0},
        {301, 200, 1, "solver", "solver", "./solver", "", "./solver", NO, 1000, 0, "rank", 200, 0},
    };
    CHECK("siblings without variables", compiled);
    const struct row srun[] = {
        {90, 1, -1, "slurmstepd", "slurmstepd", "slurmstepd: [7.0]", "", "slurmstepd: [7.0]", NO, 0, 0, NULL, 0, 0},
        {300, 90, 0, "python3", "python3", "t.py", "", "python t.py", {0, 0, 4}, 1000, 0, "rank", 300, 0},
        {302, 90, 1, "python3", "python3", "t.py", "", "python t.py", {1, 1, 4}, 1000, 0, "rank", 300, 0},
        {400, 302, -1, "pt_data_worker", "python3", "t.py", "", "python t.py", {1, 1, 4}, 1000, 0, "worker", 300, 302},
    };
    CHECK("srun", srun);
    const struct row twice[] = { // two jobs of the same shape from one shell: nobody may be put together
        SHELL(90, 1, 1000),
        {300, 90, 0, "python3", "python3", "t.py", "", "python t.py", {0, 0, 2}, 1000, 0, "rank", 300, 0},
        {301, 90, 1, "python3", "python3", "t.py", "", "python t.py", {1, 1, 2}, 1000, 0, "rank", 301, 0},
        {302, 90, 2, "python3", "python3", "t.py", "", "python t.py", {0, 0, 2}, 1000, 0, "rank", 302, 0},
    };
    CHECK("ranks that occur twice", twice);
}

// As above, but it is known where the ranks of each job meet.
static void two_loops_of_a_shell(void **state) {
    (void)state;
    struct al_role_node nodes[4];
    for (int i = 0; i < 4; i++)
        nodes[i] = (struct al_role_node){.pid = 300 + i, .ppid = 90, .gpu = true, .devices = 1U << i, .rank = i & 1,
                                         .local_rank = i & 1, .world_size = 2, .meeting = i < 2 ? 1 : 2, .comm = "python3",
                                         .exe = "python3", .program = "t.py", .verb = "", .command = "python t.py"};
    al_roles_assign(nodes, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(nodes[i].job, i < 2 ? 300 : 302);
}

static void bare(void **state) {
    (void)state;
    const char *t = "python train.py";
    const struct row rows[] = {
        SYSTEMD,
        SHELL(100, 1, 1000),
        {200, 100, 0, "python", "python3", "train.py", "", t, NO, 1000, 5, "rank", 200, 0},
        {201, 200, -1, "python", "python3", "train.py", "", t, NO, 1000, 5, "worker", 200, 200},
        {202, 200, 0, "python", "python3", "train.py", "", t, NO, 1000, 5, "worker", 200, 200},
        {203, 202, -1, "python", "python3", "train.py", "", t, NO, 1000, 5, "worker", 200, 200},
        {500, 1, 0, "Xorg", "Xorg", "/usr/lib/Xorg", "", "Xorg", NO, 0, 0, "unknown", 500, 0},
        {501, 500, -1, "helper", "helper", "helper", "", "helper", NO, 0, 0, "other", 500, 0},
        {502, 501, -1, "helper", "helper", "helper", "", "helper", NO, 0, 0, "other", 500, 0},
    };
    CHECK("python train.py", rows);
    const struct row server[] = { // Python 3.14 makes workers in a fork server
        SHELL(100, 1, 1000),
        {200, 100, 0, "python", "python3.14", "train.py", "", t, NO, 1000, 5, "rank", 200, 0},
        {210, 200, -1, "python", "python3.14", "-c", "", "python -c from multiprocessing.forkserver import main; main(", NO,
         1000, 6, "other", 200, 0},
        {220, 210, -1, "python", "python3.14", "-c", "", "python -c from multiprocessing.forkserver import main; main(", NO,
         1000, 6, "worker", 200, 200},
    };
    CHECK("fork server", server);
    const struct row container[] = { // the launcher is process 1 of its container, started by another user's daemon
        {50, 1, -1, "containerd-shim", "containerd-shim-runc-v2", "containerd-shim", "", "containerd-shim", NO, 0, 0, NULL, 0,
         0},
        {200, 50, -1, "torchrun", "python3", "/usr/bin/torchrun", "", "torchrun", NO, 1000, 0, "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "t.py", "", t, {0, 0, 1}, 1000, 0, "rank", 200, 0},
    };
    CHECK("container", container);
}

static void contexts_in_launchers(void **state) {
    (void)state;
    const char *t = "python train.py", *spawn = "python -c from multiprocessing.spawn import spawn_main "
                                                "--multiprocessing-fork";
    const struct row launcher[] = { // touched CUDA before it started its ranks
        SHELL(100, 1, 1000),
        {200, 100, 0, "python3", "python3", "/usr/bin/torchrun", "", "torchrun", NO, 1000, 0, "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "t.py", "", t, {0, 0, 2}, 1000, 0, "rank", 200, 0},
        {301, 200, 1, "python3", "python3", "t.py", "", t, {1, 1, 2}, 1000, 0, "rank", 200, 0},
    };
    CHECK("launcher with a context", launcher);
    const struct row lightning[] = { // the first process is rank 0 and starts the others with the same arguments
        SHELL(100, 1, 1000),
        {200, 100, 0, "python3", "python3", "t.py", "", t, NO, 1000, 7, "rank", 200, 0},
        {301, 200, 1, "python3", "python3", "t.py", "", t, {-1, 1, 2}, 1000, 8, "rank", 200, 0},
        {400, 301, -1, "python3", "python3", "t.py", "", t, {-1, 1, 2}, 1000, 8, "worker", 200, 301},
    };
    CHECK("Lightning", lightning);
    const struct row mp[] = { // torch.multiprocessing.spawn, the parent holds a context on the first GPU
        SHELL(100, 1, 1000),
        {200, 100, 0, "python3", "python3", "t.py", "", t, NO, 1000, 7, "launcher", 200, 0},
        {300, 200, 0, "python3", "python3", "x", "", spawn, NO, 1000, 8, "rank", 200, 0},
        {301, 200, 1, "python3", "python3", "x", "", spawn, NO, 1000, 9, "rank", 200, 0},
    };
    CHECK("torch.multiprocessing", mp);
    const struct row workers[] = { // two workers with contexts on their rank's GPU are workers still
        SHELL(100, 1, 1000),
        {200, 100, 0, "python3", "python3", "t.py", "", t, NO, 1000, 7, "rank", 200, 0},
        {300, 200, 0, "python3", "python3", "t.py", "", t, NO, 1000, 7, "worker", 200, 200},
        {301, 200, 0, "python3", "python3", "t.py", "", t, NO, 1000, 7, "worker", 200, 200},
    };
    CHECK("workers with contexts", workers);
}

static void engines_and_notebooks(void **state) {
    (void)state;
    const struct row vllm[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "vllm", "python3", "/usr/bin/vllm", "serve", "python /usr/bin/vllm serve m", NO, 1000, 1, "launcher",
         200, 0},
        {250, 200, -1, "VLLM::EngineCor", "python3", "VLLM::EngineCore", "", "VLLM::EngineCore", NO, 1000, 2, "launcher", 200,
         0},
        {300, 250, 0, "VLLM::Worker_TP", "python3", "VLLM::Worker_TP0", "", "VLLM::Worker_TP0", NO, 1000, 3, "engine", 200, 0},
        {301, 250, 1, "VLLM::Worker_TP", "python3", "VLLM::Worker_TP1", "", "VLLM::Worker_TP1", NO, 1000, 4, "engine", 200, 0},
    };
    CHECK("vLLM with two GPUs", vllm);
    const struct row core[] = {
        SHELL(100, 1, 1000),
        {200, 100, -1, "python3", "python3", "vllm.entrypoints.openai.api_server", "", "python -m vllm...", NO, 1000, 1,
         "launcher", 200, 0},
        {300, 200, 0, "VLLM::EngineCor", "python3", "VLLM::EngineCore", "", "VLLM::EngineCore", NO, 1000, 3, "engine", 200, 0},
    };
    CHECK("VLLM::EngineCore", core);
    const struct row one[] = {
        SHELL(100, 1, 1000),
        {200, 100, 0, "sglang", "python3", "sglang.launch_server", "--model", "python -m sglang.launch_server", NO, 1000, 1,
         "engine", 200, 0},
    };
    CHECK("a server that holds the GPU itself", one);
    const struct row notebook[] = {
        {90, 1, -1, "jupyter-lab", "python3", "/usr/bin/jupyter-lab", "", "python jupyter-lab", NO, 1000, 1, NULL, 0, 0},
        {200, 90, 0, "python3", "python3", "ipykernel_launcher", "-f", "python -m ipykernel_launcher -f k.json", NO, 1000, 2,
         "notebook", 200, 0},
        {201, 200, -1, "python3", "python3", "ipykernel_launcher", "-f", "python -m ipykernel_launcher -f k.json", NO, 1000, 2,
         "worker", 200, 200},
        {300, 1, 1, "python3", "python3", "ipykernel_launcher", "", "python -m ipykernel_launcher", NO, 1000, 3, "rank", 300,
         0},
    };
    CHECK("notebook", notebook);
}

static void two_users(void **state) {
    (void)state;
    const char *t = "python train.py";
    const struct row rows[] = {
        SYSTEMD,
        SHELL(100, 1, 1000),
        SHELL(101, 1, 1001),
        {200, 100, -1, "torchrun", "python3", "/usr/bin/torchrun", "", "torchrun", NO, 1000, 0, "launcher", 200, 0},
        {201, 101, -1, "torchrun", "python3", "/usr/bin/torchrun", "", "torchrun", NO, 1001, 0, "launcher", 201, 0},
        {300, 200, 0, "python3", "python3", "t.py", "", t, {0, 0, 2}, 1000, 0, "rank", 200, 0},
        {301, 200, 1, "python3", "python3", "t.py", "", t, {1, 1, 2}, 1000, 0, "rank", 200, 0},
        {302, 201, 2, "python3", "python3", "t.py", "", t, {0, 0, 2}, 1001, 0, "rank", 201, 0},
        {303, 201, 3, "python3", "python3", "t.py", "", t, {1, 1, 2}, 1001, 0, "rank", 201, 0},
    };
    CHECK("two users", rows);
    const struct row agent[] = { // a service of root that starts jobs as their users is no part of them
        {90, 1, -1, "agent", "python3", "agent.py", "", "python agent.py", NO, 0, 0, NULL, 0, 0},
        {300, 90, 0, "python3", "python3", "t.py", "", t, NO, 1000, 0, "rank", 300, 0},
        {301, 90, 1, "python3", "python3", "t.py", "", t, NO, 1001, 0, "rank", 301, 0},
    };
    CHECK("service of root", agent);
}

// Without a GPU: what wraps a rank has the same variables as the rank.
static void wrapped_ranks_of_a_told_job(void **state) {
    (void)state;
    const char *t = "python t.py";
    const struct row shells[] = {
        {200, 100, -1, "mpirun", "mpirun", "mpirun", "-n", "mpirun -n 2 bash -c ./wrap", NO, 1000, 0, "launcher", 200, 0},
        {210, 200, -1, "bash", "bash", "bash", "-c", "bash -c ./wrap", {0, 0, 2}, 1000, 0, "launcher", 200, 0},
        {211, 200, -1, "sh", "sh", "sh", "-c", "sh -c ./wrap", {1, 1, 2}, 1000, 0, "launcher", 200, 0},
        {220, 211, -1, "uv", "uv", "uv", "run", "uv run t.py", {1, 1, 2}, 1000, 0, "launcher", 200, 0},
        {300, 210, -1, "python3", "python3", "t.py", "", t, {0, 0, 2}, 1000, 1, "rank", 200, 0},
        {301, 220, -1, "python3", "python3", "t.py", "", t, {1, 1, 2}, 1000, 2, "rank", 200, 0},
        {401, 301, -1, "python3", "python3", "t.py", "", t, {1, 1, 2}, 1000, 2, "worker", 200, 301},
        {411, 301, -1, "sh", "sh", "sh", "-c", "sh -c x", {1, 1, 2}, 1000, 3, "other", 200, 0},
    };
    CHECK_BELOW("shells around ranks", shells, 200);
    const struct row engines[] = {
        {200, 100, -1, "vllm", "python3", "/usr/bin/vllm", "serve", "python vllm serve m", NO, 1000, 1, "launcher", 200, 0},
        {300, 200, -1, "VLLM::EngineCor", "python3", "VLLM::EngineCore", "", "VLLM::EngineCore", NO, 1000, 3, "engine", 200, 0},
        {301, 300, -1, "VLLM::Worker_TP", "python3", "VLLM::Worker_TP0", "", "VLLM::Worker_TP0", NO, 1000, 4, "engine", 200, 0},
        {302, 200, -1, "python3", "python3", "multiprocessing.resource_tracker", "", "python -c x", NO, 1000, 5, "other", 200, 0},
    };
    CHECK_BELOW("engines below their server", engines, 200);
    const struct row engine[] = {
        {300, 200, -1, "VLLM::EngineCor", "python3", "VLLM::EngineCore", "", "VLLM::EngineCore", NO, 1000, 3, "engine", 300, 0},
    };
    CHECK_BELOW("an engine that was named", engine, 300);
    const struct row inherited[] = { // a shell in a job's allocation: all below has its variables, and none is the rank
        {200, 100, -1, "bash", "bash", "bash", "", "bash", {0, 0, 2}, 1000, 0, "launcher", 200, 0},
        {210, 200, -1, "bash", "bash", "bash", "-c", "bash -c x", {0, 0, 2}, 1000, 0, "other", 200, 0},
        {300, 210, -1, "python3", "python3", "t.py", "", t, {0, 0, 2}, 1000, 0, "other", 200, 0},
    };
    CHECK_BELOW("variables of the root", inherited, 200);
    const struct row ring[] = { // parents read at different times
        {210, 211, -1, "bash", "bash", "bash", "", "bash", {0, 0, 2}, 1000, 0, NULL, 0, 0},
        {211, 210, -1, "bash", "bash", "bash", "", "bash", {0, 0, 2}, 1000, 0, NULL, 0, 0},
    };
    CHECK_BELOW("shells in a ring", ring, 999);
}

static void loops(void **state) {
    (void)state;
    const struct row rows[] = {
        {200, 201, 0, "python3", "python3", "t.py", "", "", {0, 0, 2}, 1000, 0, "rank", 200, 0},
        {201, 200, -1, "python3", "python3", "t.py", "", "", NO, 1000, 0, "other", 200, 0},
        {202, 202, 1, "python3", "python3", "t.py", "", "", NO, 1000, 0, "rank", 202, 0},
    };
    struct al_role_node nodes[3];
    for (int i = 0; i < 3; i++)
        nodes[i] = (struct al_role_node){.pid = rows[i].pid, .ppid = rows[i].ppid, .gpu = rows[i].gpu >= 0, .rank = -1,
                                         .local_rank = -1, .world_size = -1, .comm = "x", .exe = "python3",
                                         .program = "t.py", .verb = "", .command = ""};
    al_roles_assign(nodes, 3); // must end
    assert_int_equal(nodes[2].job, 202);
    nodes[0].exe = nodes[1].exe = "bash";
    nodes[0].gpu = false;
    nodes[2].ppid = 200;
    al_roles_assign(nodes, 3);
    assert_int_equal(nodes[2].job, 202);
    al_roles_assign(NULL, 0);
}

int roles_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torchrun),
        cmocka_unit_test(swift),
        cmocka_unit_test(accelerate_and_deepspeed),
        cmocka_unit_test(mpi_and_slurm),
        cmocka_unit_test(two_loops_of_a_shell),
        cmocka_unit_test(bare),
        cmocka_unit_test(contexts_in_launchers),
        cmocka_unit_test(engines_and_notebooks),
        cmocka_unit_test(two_users),
        cmocka_unit_test(wrapped_ranks_of_a_told_job),
        cmocka_unit_test(loops),
    };
    return cmocka_run_group_tests_name("host roles", tests, NULL, NULL);
}
