// SPDX-License-Identifier: Apache-2.0
// Which framework it is, what its options are called and how they are set.
#include "detect/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const struct {
    const char *torch, *trainer, *swift, *megatron3, *megatron4;
} names[AL_OPTION_COUNT] = {
#define X(id, torch, trainer, swift, megatron3, megatron4) {torch, trainer, swift, megatron3, megatron4},
    AL_ADVICE_OPTIONS(X)
#undef X
};

static const char *command_of(const struct al_advice *a) {
    return a->view->command ? a->view->command : "";
}

// ---- which framework ----

static bool version_of(const struct al_tally *t, const char *package, int *major, int *minor) {
    char version[32];
    if (!al_tally_word(t, AL_TEXT_FRAMEWORK, package, version, sizeof version))
        return false;
    char *end;
    long first = strtol(version, &end, 10);
    long second = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    *major = end == version || first < 0 || first > 9999 ? -1 : (int)first;
    *minor = second < 0 || second > 9999 ? -1 : (int)second;
    return true;
}

// A word of the command line, as a whole
static bool has_option(const char *command, const char *name) {
    size_t len = strlen(name);
    for (const char *p = strstr(command, name); p; p = strstr(p + 1, name))
        if (p >= command + 3 && memcmp(p - 3, " --", 3) == 0 && (!p[len] || p[len] == ' ' || p[len] == '='))
            return true;
    return false;
}

static bool is_megatron(const char *command) {
    return strncmp(command, "megatron ", 9) == 0 || strstr(command, "/megatron ") || strstr(command, "_megatron/");
}

static void find_framework(struct al_advice *a) {
    const struct al_tally *t = a->tally;
    bool trainer = strstr(t->text[AL_TEXT_SOURCE], "Trainer") != NULL;
    int minor;
    if (!version_of(t, "transformers", &a->transformers, &minor))
        a->transformers = -1;
    if (version_of(t, "swift", &a->major, &a->minor) && is_megatron(command_of(a)))
        a->framework = AL_FRAMEWORK_MEGATRON_SWIFT;
    else if (trainer && version_of(t, "swift", &a->major, &a->minor))
        a->framework = AL_FRAMEWORK_SWIFT;
    else if (trainer && version_of(t, "trl", &a->major, &a->minor))
        a->framework = AL_FRAMEWORK_TRL;
    else if (trainer && version_of(t, "transformers", &a->major, &a->minor))
        a->framework = AL_FRAMEWORK_TRAINER;
    else if (trainer)
        a->framework = AL_FRAMEWORK_TRAINER;
    else
        a->major = a->minor = -1;
}

void al_advice_of(const struct al_steps_view *v, struct al_advice *ret) {
    static const struct al_tally none = {.rank = -1};
    *ret = (struct al_advice){.major = -1, .minor = -1, .transformers = -1, .view = v, .tally = v->count ? v->ranks[0].tally : &none};
    for (uint32_t i = 0; i < v->count; i++)
        if (v->ranks[i].tally->text[AL_TEXT_OPTIONS][0]) {
            ret->tally = v->ranks[i].tally;
            break;
        }
    find_framework(ret);
    const char *command = command_of(ret);
    ret->by_command = ret->framework >= AL_FRAMEWORK_SWIFT || has_option(command, "output_dir") ||
                      has_option(command, "per_device_train_batch_size") || has_option(command, "dataloader_num_workers");
}

// ---- names ----

const char *al_advice_name(const struct al_advice *a, enum al_option option) {
    switch (a->framework) {
    case AL_FRAMEWORK_TORCH: return names[option].torch;
    case AL_FRAMEWORK_MEGATRON_SWIFT: return a->major >= 4 ? names[option].megatron4 : names[option].megatron3;
    case AL_FRAMEWORK_SWIFT:
        if (option == AL_OPTION_PADDING_FREE && a->major == 3 && a->minor < 5)
            return NULL;
        return names[option].swift;
    case AL_FRAMEWORK_TRL: break;
    default:
        if (option == AL_OPTION_PACKING || option == AL_OPTION_PADDING_FREE)
            return NULL;
    }
    if (option == AL_OPTION_GROUP && a->transformers >= 5)
        return "train_sampling_strategy";
    return names[option].trainer;
}

// "--name VALUE" or "--name=VALUE"
static bool command_value(const char *command, const char *name, char *out, size_t size) {
    size_t len = strlen(name);
    for (const char *p = strstr(command, name); p; p = strstr(p + 1, name)) {
        if (p < command + 3 || memcmp(p - 3, " --", 3) != 0 || (p[len] != ' ' && p[len] != '='))
            continue;
        const char *value = p + len + 1;
        return *value && *value != ' ' && al_str_copy_n(out, size, value, strcspn(value, " "));
    }
    return false;
}

bool al_advice_now(const struct al_advice *a, enum al_option option, char *out, size_t size) {
    const char *name = al_advice_name(a, option);
    if (!name)
        return false;
    if (option == AL_OPTION_ATTENTION && al_tally_word(a->tally, AL_TEXT_MODEL, "attn", out, size))
        return true;
    const char *told = a->framework == AL_FRAMEWORK_TORCH ? name : names[option].trainer;
    if (told && al_tally_word(a->tally, AL_TEXT_OPTIONS, told, out, size))
        return true;
    return command_value(command_of(a), name, out, size);
}

bool al_advice_now_number(const struct al_advice *a, enum al_option option, double *ret) {
    char value[48];
    return al_advice_now(a, option, value, sizeof value) && al_str_double(value, ret);
}

bool al_advice_on(const struct al_advice *a, enum al_option option) {
    char value[48];
    return al_advice_now(a, option, value, sizeof value) &&
           (strcmp(value, "1") == 0 || strcmp(value, "true") == 0 || strcmp(value, "True") == 0);
}

static const char *python_value(const char *value) {
    return strcmp(value, "true") == 0 ? "True" : strcmp(value, "false") == 0 ? "False" : value;
}

void al_advice_put(struct al_buf *b, const struct al_advice *a, enum al_option option, const char *value) {
    const char *name = al_advice_name(a, option);
    if (!name)
        return;
    if (a->framework == AL_FRAMEWORK_TORCH)
        al_buf_printf(b, "DataLoader(%s=%s)", name, python_value(value));
    else if (option == AL_OPTION_ATTENTION && a->framework < AL_FRAMEWORK_SWIFT)
        al_buf_printf(b, "from_pretrained(..., %s=\"%s\")", name, value);
    else if (a->by_command)
        al_buf_printf(b, "--%s %s", name, value);
    else if (a->framework == AL_FRAMEWORK_TRL)
        al_buf_printf(b, "%s=%s in the trainer's config", name, python_value(value));
    else
        al_buf_printf(b, "TrainingArguments(%s=%s)", name, python_value(value));
}
