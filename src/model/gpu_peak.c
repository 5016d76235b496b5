// SPDX-License-Identifier: Apache-2.0
#include "model/gpu_peak.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define TERA 1e12

// Words that must all be in the name; the first row that fits counts. NVIDIA's data sheets and architecture white papers,
// tensor cores, without sparsity; where a sheet states sparse figures alone, half of them. 0: not known.
static const struct {
    const char *words;
    double peak; // TFLOP/s
} table[] = {
    // parts of a GPU, and cards that bear another one's name
    {"mig", 0}, {"grid", 0}, {"laptop", 0}, {"max-q", 0}, {"4090 d", 0}, {"5090 d", 0},
    // Ampere
    {"a100", 312}, {"a800", 312}, {"a30", 165}, {"a40", 149.7}, {"a10", 125}, {"a6000", 154.8},
    {"3090 ti", 80}, {"3090", 71},
    // Ada
    {"l40s", 362}, {"l40", 181}, {"l4", 121}, {"6000 ada", 364.2}, {"4090", 165.2},
    // Hopper: by board
    {"h100 pcie", 756}, {"h100 nvl", 835.5}, {"h100 hbm3", 989.4}, {"h100 sxm5", 989.4},
    {"h800 pcie", 756}, {"h800", 989.4}, {"h200 nvl", 835.5}, {"h200", 989.4}, {"gh200", 989.4}, {"h20", 148},
    // Blackwell
    {"gb200", 2500}, {"b200", 2250}, {"5090", 209.5},
};

static bool ends_word(char c) {
    return !c || c == ' ' || c == '-' || c == '(' || c == ')';
}

// "word" as a whole word of name, letters of either case
static bool has_word(const char *name, const char *word, size_t len) {
    for (const char *p = name; *p; p++) {
        size_t i = 0;
        if (p != name && !ends_word(p[-1]))
            continue;
        while (i < len && tolower((unsigned char)p[i]) == word[i])
            i++;
        if (i == len && ends_word(p[len]))
            return true;
    }
    return false;
}

static bool fits(const char *name, const char *words) {
    while (*words) {
        size_t len = strcspn(words, " ");
        if (!has_word(name, words, len))
            return false;
        words += len + strspn(words + len, " ");
    }
    return true;
}

bool al_gpu_peak_bf16(const char *name, double *ret) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (fits(name, table[i].words)) {
            *ret = table[i].peak * TERA;
            return table[i].peak > 0;
        }
    return false;
}
