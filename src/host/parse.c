// SPDX-License-Identifier: Apache-2.0
#include "host/parse.h"

#include <string.h>

#include "base/err.h"
#include "base/str.h"

// Digits at *p into *ret; moves *p behind them. False without a digit or beyond 64 bits.
static bool take_u64(const char **p, uint64_t *ret) {
    const char *t = *p;
    uint64_t value = 0;
    bool fits = true;
    if (*t < '0' || *t > '9')
        return false;
    for (; *t >= '0' && *t <= '9'; t++) {
        unsigned digit = (unsigned)(*t - '0');
        if (value > (UINT64_MAX - digit) / 10)
            fits = false;
        value = value * 10 + digit;
    }
    *p = t;
    *ret = value;
    return fits;
}

static void skip_blanks(const char **p) {
    while (**p == ' ' || **p == '\t')
        ++*p;
}

static const char *next_line(const char *p) {
    const char *end = strchr(p, '\n');
    return end ? end + 1 : p + strlen(p);
}

// The word at *p (up to a blank or the line's end); false when there is none.
static bool take_word(const char **p, const char **ret, size_t *ret_len) {
    skip_blanks(p);
    size_t len = strcspn(*p, " \t\n");
    *ret = *p;
    *ret_len = len;
    *p += len;
    return len > 0;
}

static bool skip_words(const char **p, unsigned count) {
    const char *word;
    size_t len;
    while (count--)
        if (!take_word(p, &word, &len))
            return false;
    return true;
}

static bool take_field(const char **p, uint64_t *ret) {
    skip_blanks(p);
    return take_u64(p, ret);
}

static bool take_pid(const char **p, pid_t *ret) {
    uint64_t value;
    if (!take_field(p, &value) || value > INT32_MAX)
        return false;
    *ret = (pid_t)value;
    return true;
}

int al_parse_stat(const char *text, size_t len, struct al_host_stat *ret) {
    memset(ret, 0, sizeof *ret);
    // The name may itself hold blanks and parentheses; only the last ')' ends it.
    const char *open = memchr(text, '(', len), *close = memrchr(text, ')', len);
    const char *p = text;
    if (!open || !close || close < open || !take_pid(&p, &ret->pid))
        return AL_E_FORMAT;
    al_str_copy_n(ret->comm, sizeof ret->comm, open + 1, (size_t)(close - open - 1));
    al_str_clean(ret->comm);

    const char *word;
    size_t word_len;
    p = close + 1;
    if (!take_word(&p, &word, &word_len) || word_len != 1)
        return AL_E_FORMAT;
    ret->state = *word;
    uint64_t threads;
    if (!take_pid(&p, &ret->ppid) || !skip_words(&p, 9) || !take_field(&p, &ret->utime) ||
        !take_field(&p, &ret->stime) || !skip_words(&p, 4) || !take_field(&p, &threads) || !skip_words(&p, 1) ||
        !take_field(&p, &ret->start_ticks))
        return AL_E_FORMAT;
    ret->threads = threads;
    if (skip_words(&p, 5) && take_field(&p, &ret->start_stack))
        ret->has_blkio = skip_words(&p, 13) && take_field(&p, &ret->blkio_ticks);
    return 0;
}

uint32_t al_parse_keys(const char *text, const char *const *keys, unsigned count, uint64_t *values) {
    uint32_t found = 0;
    for (const char *line = text; *line; line = next_line(line)) {
        for (unsigned i = 0; i < count; i++) {
            size_t key_len = strlen(keys[i]);
            const char *p = line + key_len;
            if (found & (1U << i) || strncmp(line, keys[i], key_len) != 0 || (*p != ':' && *p != ' ' && *p != '\t'))
                continue;
            p += *p == ':';
            uint64_t value;
            if (!take_field(&p, &value))
                break;
            if (al_str_starts(p, " kB")) {
                if (value > UINT64_MAX / 1024)
                    break;
                value *= 1024;
            }
            values[i] = value;
            found |= 1U << i;
            break;
        }
    }
    return found;
}

bool al_parse_psi(const char *text, const char *which, double *ret_ratio) {
    size_t which_len = strlen(which);
    for (const char *line = text; *line; line = next_line(line)) {
        if (strncmp(line, which, which_len) != 0 || !al_str_starts(line + which_len, " avg10="))
            continue;
        const char *p = line + which_len + strlen(" avg10=");
        char number[24];
        size_t len = strspn(p, "0123456789.");
        double percent;
        if (len >= sizeof number)
            return false;
        al_str_copy_n(number, sizeof number, p, len);
        if (!al_str_double(number, &percent) || percent < 0 || percent > 100)
            return false;
        *ret_ratio = percent / 100;
        return true;
    }
    return false;
}

bool al_parse_cpu(const char *text, struct al_host_cpu *ret) {
    if (!al_str_starts(text, "cpu "))
        return false;
    const char *p = text + 4;
    uint64_t field[8] = {0}; // user nice system idle iowait irq softirq steal
    unsigned count = 0;
    while (count < 8 && take_field(&p, &field[count]))
        count++;
    if (count < 5)
        return false;
    memset(ret, 0, sizeof *ret);
    for (unsigned i = 0; i < count; i++)
        ret->total += field[i];
    ret->idle = field[3];
    ret->iowait = field[4];
    return true;
}

uint64_t al_parse_cpulist(const char *text) {
    uint64_t count = 0, first, last;
    const char *p = text;
    while (take_field(&p, &first)) {
        last = first;
        if (*p == '-') {
            p++;
            if (!take_u64(&p, &last) || last < first)
                return 0;
        }
        if (last - first > 1U << 20)
            return 0;
        count += last - first + 1;
        if (*p != ',')
            break;
        p++;
    }
    return count;
}

bool al_parse_number(const char *text, uint64_t *ret) {
    const char *p = text;
    return take_field(&p, ret) && (!*p || *p == '\n' || *p == ' ');
}

size_t al_parse_pids(const char *text, pid_t *ret, size_t max) {
    size_t count = 0;
    const char *p = text;
    pid_t pid;
    while (count < max && take_pid(&p, &pid))
        ret[count++] = pid;
    return count;
}

bool al_parse_disk(const char **cursor, struct al_host_disk *ret) {
    while (**cursor) {
        const char *p = *cursor, *name;
        size_t name_len;
        uint64_t read_sectors, written_sectors;
        *cursor = next_line(p);
        bool good = skip_words(&p, 2) && take_word(&p, &name, &name_len) && name_len < sizeof ret->name &&
                    skip_words(&p, 2) && take_field(&p, &read_sectors) && skip_words(&p, 3) &&
                    take_field(&p, &written_sectors) && skip_words(&p, 2) && take_field(&p, &ret->busy_ms);
        if (!good || read_sectors > UINT64_MAX / 512 || written_sectors > UINT64_MAX / 512)
            continue;
        al_str_copy_n(ret->name, sizeof ret->name, name, name_len);
        ret->read_bytes = read_sectors * 512; // always 512, whatever the device's sector
        ret->written_bytes = written_sectors * 512;
        return true;
    }
    return false;
}

// A name of `prefix` and digits.
static bool is_numbered(const char *name, const char *prefix) {
    size_t len = strlen(prefix);
    return strncmp(name, prefix, len) == 0 && name[len] >= '0' && name[len] <= '9';
}

bool al_disk_is_stacked(const char *name) {
    static const char *const stacked[] = {"loop", "ram", "zram", "dm-", "md", "bcache", "drbd", "zd", "sr", "fd"};
    for (size_t i = 0; i < sizeof stacked / sizeof *stacked; i++)
        if (is_numbered(name, stacked[i]))
            return true;
    // The paths of a multipath NVMe device: nvme0c1n1 beside nvme0n1.
    const char *p = name + 4;
    uint64_t number;
    return is_numbered(name, "nvme") && take_u64(&p, &number) && *p == 'c';
}

bool al_disk_is_partition_of(const char *name, const char *whole) {
    size_t len = strlen(whole);
    if (!len || strncmp(name, whole, len) != 0)
        return false;
    const char *rest = name + len;
    bool whole_ends_in_digit = whole[len - 1] >= '0' && whole[len - 1] <= '9';
    if (whole_ends_in_digit && *rest++ != 'p')
        return false;
    return *rest && strspn(rest, "0123456789") == strlen(rest);
}

bool al_parse_net(const char **cursor, struct al_host_net *ret) {
    while (**cursor) {
        const char *p = *cursor;
        *cursor = next_line(p);
        skip_blanks(&p);
        size_t len = strcspn(p, ":\n");
        if (p[len] != ':' || !len || len >= sizeof ret->name)
            continue;
        al_str_copy_n(ret->name, sizeof ret->name, p, len);
        p += len + 1;
        if (take_field(&p, &ret->rx_bytes) && skip_words(&p, 7) && take_field(&p, &ret->tx_bytes))
            return true;
    }
    return false;
}

// The variables that are looked at, best first for each meaning.
enum env_name {
    ENV_RANK,
    ENV_OMPI_RANK,
    ENV_SLURM_PROCID,
    ENV_LOCAL_RANK,
    ENV_OMPI_LOCAL_RANK,
    ENV_SLURM_LOCALID,
    ENV_WORLD_SIZE,
    ENV_OMPI_SIZE,
    ENV_SLURM_NTASKS,
    ENV_GROUP_RANK,
    ENV_NODE_RANK,
    ENV_SLURM_STEP,
    ENV_MASTER_ADDR,
    ENV_MASTER_PORT,
    ENV_SLURM_JOB,
    ENV_VISIBLE,
    ENV_COUNT
};
static const char *const env_names[ENV_COUNT] = {
    [ENV_RANK] = "RANK=",
    [ENV_OMPI_RANK] = "OMPI_COMM_WORLD_RANK=",
    [ENV_SLURM_PROCID] = "SLURM_PROCID=",
    [ENV_LOCAL_RANK] = "LOCAL_RANK=",
    [ENV_OMPI_LOCAL_RANK] = "OMPI_COMM_WORLD_LOCAL_RANK=",
    [ENV_SLURM_LOCALID] = "SLURM_LOCALID=",
    [ENV_WORLD_SIZE] = "WORLD_SIZE=",
    [ENV_OMPI_SIZE] = "OMPI_COMM_WORLD_SIZE=",
    [ENV_SLURM_NTASKS] = "SLURM_NTASKS=",
    [ENV_GROUP_RANK] = "GROUP_RANK=",
    [ENV_NODE_RANK] = "NODE_RANK=",
    [ENV_SLURM_STEP] = "SLURM_STEP_ID=",
    [ENV_MASTER_ADDR] = "MASTER_ADDR=",
    [ENV_MASTER_PORT] = "MASTER_PORT=",
    [ENV_SLURM_JOB] = "SLURM_JOB_ID=",
    [ENV_VISIBLE] = "CUDA_VISIBLE_DEVICES=",
};

static int32_t env_number(const char *text) {
    uint64_t value;
    return text && al_str_u64(text, &value) && value <= 10000000 ? (int32_t)value : -1;
}

static int32_t first_known(int32_t a, int32_t b, int32_t c) {
    return a >= 0 ? a : b >= 0 ? b : c;
}

// FNV-1a of both texts; what is not said is no text.
static uint64_t meeting(const char *address, const char *port) {
    uint64_t number = 0xcbf29ce484222325;
    const char *texts[] = {address ? address : "", port ? port : ""};
    for (unsigned i = 0; i < 2; i++)
        for (const char *p = texts[i];; p++) {
            number = (number ^ (uint8_t)*p) * 0x100000001b3; // the ending NUL too: it keeps the two apart
            if (!*p)
                break;
        }
    return address || port ? number : 0;
}

void al_parse_environ(const char *text, size_t len, struct al_host_env *ret) {
    const char *value[ENV_COUNT] = {0};
    const char *end;
    for (const char *p = text; p < text + len && (end = memchr(p, '\0', (size_t)(text + len - p))); p = end + 1)
        for (unsigned i = 0; i < ENV_COUNT; i++)
            if (!value[i] && al_str_starts(p, env_names[i]))
                value[i] = p + strlen(env_names[i]);

    // sbatch gives its script SLURM_PROCID=0 and the whole job's SLURM_NTASKS; only under srun do they speak of the process.
    if (!value[ENV_SLURM_STEP])
        value[ENV_SLURM_PROCID] = value[ENV_SLURM_LOCALID] = value[ENV_SLURM_NTASKS] = NULL;
    memset(ret, 0, sizeof *ret);
    ret->rank = first_known(env_number(value[ENV_RANK]), env_number(value[ENV_OMPI_RANK]),
                            env_number(value[ENV_SLURM_PROCID]));
    ret->local_rank = first_known(env_number(value[ENV_LOCAL_RANK]), env_number(value[ENV_OMPI_LOCAL_RANK]),
                                  env_number(value[ENV_SLURM_LOCALID]));
    ret->world_size = first_known(env_number(value[ENV_WORLD_SIZE]), env_number(value[ENV_OMPI_SIZE]),
                                  env_number(value[ENV_SLURM_NTASKS]));
    ret->node_rank = first_known(env_number(value[ENV_GROUP_RANK]), env_number(value[ENV_NODE_RANK]), -1);
    ret->meeting = meeting(value[ENV_MASTER_ADDR], value[ENV_MASTER_PORT]);
    if (ret->world_size >= 0 && ret->world_size <= ret->rank)
        ret->world_size = -1;
    if (env_number(value[ENV_SLURM_JOB]) >= 0 || (value[ENV_SLURM_JOB] && strlen(value[ENV_SLURM_JOB]) < 20))
        al_str_copy(ret->slurm_job, sizeof ret->slurm_job, value[ENV_SLURM_JOB]);
    if (value[ENV_VISIBLE])
        al_str_copy(ret->visible_devices, sizeof ret->visible_devices, value[ENV_VISIBLE]);
    al_str_clean(ret->slurm_job);
    al_str_clean(ret->visible_devices);
}
