// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "model/finding.h"

#define CONFIG_MAX (1u << 20)

struct reader {
    yaml_document_t document;
    struct al_config config; // the copy that is filled; taken only when all is right
    bool seen[256], seen_text[64];
    struct al_config_error *error;
};

__attribute__((format(printf, 3, 4))) static int fail(struct reader *r, yaml_mark_t at, const char *format, ...) {
    va_list args;
    r->error->line = (int)at.line + 1;
    r->error->column = (int)at.column + 1;
    va_start(args, format);
    (void)vsnprintf(r->error->message, sizeof r->error->message, format, args);
    va_end(args);
    (void)al_str_clean(r->error->message);
    return AL_E_CONFIG;
}

// Edit distance (Levenshtein) of two short words; words over 31 bytes count as far apart.
static unsigned distance(const char *a, const char *b) {
    unsigned row[32];
    size_t n = strlen(b);
    if (n > 31 || strlen(a) > 31)
        return 99;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned corner = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned cost = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            unsigned step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = cost < step ? cost : step;
        }
    }
    return row[n];
}

// Section and key of the i-th setting of both tables, quantities first; false behind the last.
static bool setting_at(unsigned i, const char **ret_section, const char **ret_key) {
    bool text = i >= al_setting_count;
    if (text && i - al_setting_count >= al_text_count)
        return false;
    *ret_section = text ? al_text_table[i - al_setting_count].section : al_setting_table[i].section;
    *ret_key = text ? al_text_table[i - al_setting_count].key : al_setting_table[i].key;
    return true;
}

// The known word nearest to `word`, or NULL: section names when section is NULL, else that section's keys.
static const char *nearest(const char *word, const char *section) {
    const char *best = NULL, *its_section, *key;
    unsigned best_distance = 4; // further away is a guess, not a typo
    for (unsigned i = 0; setting_at(i, &its_section, &key); i++) {
        if (section && strcmp(section, its_section) != 0)
            continue;
        const char *candidate = section ? key : its_section;
        unsigned d = distance(word, candidate);
        if (d < best_distance) {
            best = candidate;
            best_distance = d;
        }
    }
    return best;
}

static int unknown(struct reader *r, yaml_mark_t at, const char *what, const char *word, const char *section) {
    const char *near = nearest(word, section);
    if (near)
        return fail(r, at, "unknown %s \"%.60s\"; did you mean \"%s\"?", what, word, near);
    return fail(r, at, "unknown %s \"%.60s\" (alula check-config --print lists all)", what, word);
}

static bool section_known(const char *word) {
    const char *section, *key;
    for (unsigned i = 0; setting_at(i, &section, &key); i++)
        if (strcmp(word, section) == 0)
            return true;
    return false;
}

// Its place in both tables, as setting_at counts; -1 when there is none.
static int find_setting(const char *section, const char *key) {
    const char *its_section, *its_key;
    for (unsigned i = 0; setting_at(i, &its_section, &its_key); i++)
        if (strcmp(section, its_section) == 0 && strcmp(key, its_key) == 0)
            return (int)i;
    return -1;
}

static const char *unit_example(const struct al_setting_info *info) {
    switch (info->unit) {
    case AL_UNIT_BOOL: return "true or false";
    case AL_UNIT_RATIO: return "a share such as 20% or 0.2";
    case AL_UNIT_SECONDS: return "a time such as 500ms, 2s or 10min";
    case AL_UNIT_BYTES: return "a size such as 512MiB or 1GiB";
    case AL_UNIT_BYTES_PER_SECOND: return "a rate such as 1MiB/s";
    case AL_UNIT_PER_SECOND: return "a rate such as 1/s or 6/min";
    case AL_UNIT_CELSIUS: return "a temperature such as 85C";
    case AL_UNIT_WATTS: return "a power such as 700W";
    default: return "a number";
    }
}

static int read_value(struct reader *r, const struct al_setting_info *info, const yaml_node_t *node) {
    char low[64], high[64];
    double value;
    struct al_buf b = AL_BUF_INIT;
    if (node->type != YAML_SCALAR_NODE)
        return fail(r, node->start_mark, "%s.%s takes one value: %s", info->section, info->key, unit_example(info));
    const char *text = (const char *)node->data.scalar.value;
    int result = strlen(text) == node->data.scalar.length ? al_unit_parse(text, info->unit, &value) : AL_E_FORMAT;
    if (result == AL_E_INVALID)
        return fail(r, node->start_mark, "%s.%s: \"%.40s\" has a wrong or no unit; expected %s", info->section, info->key,
                    text, unit_example(info));
    if (result)
        return fail(r, node->start_mark, "%s.%s: \"%.40s\" is not %s", info->section, info->key, text,
                    unit_example(info));
    if (value < info->min || value > info->max) {
        al_config_print_value(&b, info, info->min);
        (void)al_str_copy(low, sizeof low, b.data ? b.data : "");
        al_buf_clear(&b);
        al_config_print_value(&b, info, info->max);
        (void)al_str_copy(high, sizeof high, b.data ? b.data : "");
        al_buf_free(&b);
        return fail(r, node->start_mark, "%s.%s: %.40s is out of bounds (%s to %s)", info->section, info->key, text, low,
                    high);
    }
    memcpy((char *)&r->config.settings + info->offset, &value, sizeof value);
    return 0;
}

// Adds one word to what the setting holds.
static int add_word(struct reader *r, const struct al_text_info *info, const yaml_node_t *node) {
    char *to = (char *)&r->config.texts + info->offset;
    size_t len = strlen(to);
    if (!node || node->type != YAML_SCALAR_NODE)
        return fail(r, node ? node->start_mark : (yaml_mark_t){0}, "%s.%s takes %s", info->section, info->key,
                    info->is_list ? "one word or a list of words" : "one word");
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length || text[strcspn(text, "\n\r\t\x1b")])
        return fail(r, node->start_mark, "%s.%s: control characters", info->section, info->key);
    if (len + node->data.scalar.length + 2 > AL_TEXT_MAX)
        return fail(r, node->start_mark, "%s.%s is longer than %d bytes", info->section, info->key, AL_TEXT_MAX - 1);
    if (len)
        to[len++] = '\n';
    memcpy(to + len, text, node->data.scalar.length + 1);
    return 0;
}

static int read_text(struct reader *r, const struct al_text_info *info, const yaml_node_t *node) {
    ((char *)&r->config.texts)[info->offset] = '\0';
    if (node->type != YAML_SEQUENCE_NODE || !info->is_list)
        return add_word(r, info, node);
    int result = 0;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top && !result; i++)
        result = add_word(r, info, yaml_document_get_node(&r->document, *i));
    return result;
}

static int read_section(struct reader *r, const char *section, const yaml_node_t *node) {
    // "memory:" with nothing below is an empty section.
    if (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0)
        return 0;
    if (node->type != YAML_MAPPING_NODE)
        return fail(r, node->start_mark, "section \"%.60s\" takes lines of the form key: value", section);
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, p->key);
        const yaml_node_t *value = yaml_document_get_node(&r->document, p->value);
        if (!key || !value || key->type != YAML_SCALAR_NODE)
            return fail(r, node->start_mark, "section \"%.60s\": keys must be plain words", section);
        const char *word = (const char *)key->data.scalar.value;
        int i = find_setting(section, word);
        if (i < 0)
            return unknown(r, key->start_mark, "key", word, section);
        bool text = (unsigned)i >= al_setting_count;
        bool *seen = text ? &r->seen_text[(unsigned)i - al_setting_count] : &r->seen[i];
        if (*seen)
            return fail(r, key->start_mark, "%s.%s is given twice", section, word);
        *seen = true;
        int result = text ? read_text(r, &al_text_table[(unsigned)i - al_setting_count], value)
                          : read_value(r, &al_setting_table[i], value);
        if (result)
            return result;
    }
    return 0;
}

static int read_document(struct reader *r) {
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (!root || (root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0))
        return 0; // an empty file changes nothing
    if (root->type != YAML_MAPPING_NODE)
        return fail(r, root->start_mark, "expected sections such as \"memory:\"");
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, p->key);
        const yaml_node_t *value = yaml_document_get_node(&r->document, p->value);
        if (!key || !value || key->type != YAML_SCALAR_NODE)
            return fail(r, root->start_mark, "section names must be plain words");
        const char *word = (const char *)key->data.scalar.value;
        if (!section_known(word))
            return unknown(r, key->start_mark, "section", word, NULL);
        int result = read_section(r, word, value);
        if (result)
            return result;
    }
    return 0;
}

// Limits that only make sense in one order, and words that must be of a few.
static int check_order(struct reader *r) {
    const struct al_settings *s = &r->config.settings;
    const struct al_texts *t = &r->config.texts;
    yaml_mark_t nowhere = {0};
    int result = 0;
    if (s->inefficient_utilization_clear < s->inefficient_utilization_below)
        result = fail(r, nowhere, "inefficient.utilization_clear must not lie under inefficient.utilization_below");
    else if (s->uneven_busy_above < s->uneven_idle_below)
        result = fail(r, nowhere, "uneven.busy_above must not lie under uneven.idle_below");
    else if (strcmp(t->webhook_format, "json") != 0 && strcmp(t->webhook_format, "alertmanager") != 0)
        result = fail(r, nowhere, "webhook.format: expected json or alertmanager");
    else if (al_level_from_word(t->webhook_level) < 0)
        result = fail(r, nowhere, "webhook.level: expected info, warning or critical");
    else if (s->push_retry_max < s->push_retry_min)
        result = fail(r, nowhere, "push.retry_max must not lie under push.retry_min");
    if (result)
        r->error->line = r->error->column = 0;
    return result;
}

void al_config_default(struct al_config *ret) {
    al_settings_default(&ret->settings);
    memset(&ret->texts, 0, sizeof ret->texts);
    for (unsigned i = 0; i < al_text_count; i++)
        (void)al_str_copy((char *)&ret->texts + al_text_table[i].offset, AL_TEXT_MAX, al_text_table[i].def);
}

int al_config_parse(const char *text, size_t len, struct al_config *config, struct al_config_error *reterr_error) {
    struct reader r = {.config = *config, .error = reterr_error};
    yaml_parser_t parser;
    *reterr_error = (struct al_config_error){0};
    if (len > CONFIG_MAX)
        return AL_E_TOOBIG;
    if (!yaml_parser_initialize(&parser))
        return AL_E_NOMEM;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    int result;
    if (!yaml_parser_load(&parser, &r.document)) {
        result = fail(&r, parser.problem_mark, "%s", parser.problem ? parser.problem : "not YAML");
    } else {
        result = read_document(&r);
        yaml_document_delete(&r.document);
    }
    yaml_parser_delete(&parser);
    if (!result)
        result = check_order(&r);
    if (!result)
        *config = r.config;
    return result;
}

int al_config_load(const char *path, struct al_config *config, struct al_config_error *reterr_error) {
    char *text = NULL;
    size_t len = 0;
    *reterr_error = (struct al_config_error){0};
    int result = al_fs_slurp(path, CONFIG_MAX, &text, &len);
    if (result)
        return result;
    result = al_config_parse(text, len, config, reterr_error);
    free(text);
    return result;
}

static void print_scaled(struct al_buf *b, double value, const double *factors, const char *const *words, size_t count) {
    size_t i = 0;
    // The largest unit that leaves a short number; base units otherwise.
    while (i + 1 < count && (value < factors[i] || value / factors[i] != (double)(int64_t)(value / factors[i] * 1e3) / 1e3))
        i++;
    al_buf_number(b, value / factors[i]);
    al_buf_str(b, words[i]);
}

void al_config_print_value(struct al_buf *b, const struct al_setting_info *info, double value) {
    static const double byte_factors[] = {1099511627776.0, 1073741824.0, 1048576.0, 1024.0, 1.0};
    static const char *const byte_words[] = {"TiB", "GiB", "MiB", "KiB", "B"};
    static const char *const rate_words[] = {"TiB/s", "GiB/s", "MiB/s", "KiB/s", "B/s"};
    static const double second_factors[] = {86400, 3600, 60, 1, 1e-3};
    static const char *const second_words[] = {"d", "h", "min", "s", "ms"};
    switch (info->unit) {
    case AL_UNIT_BOOL: al_buf_str(b, value != 0 ? "true" : "false"); return;
    case AL_UNIT_RATIO:
        al_buf_number(b, (double)(int64_t)(value * 1e9 + 0.5) / 1e7);
        al_buf_char(b, '%');
        return;
    case AL_UNIT_BYTES: print_scaled(b, value, byte_factors, byte_words, 5); return;
    case AL_UNIT_BYTES_PER_SECOND: print_scaled(b, value, byte_factors, rate_words, 5); return;
    case AL_UNIT_SECONDS: print_scaled(b, value, second_factors, second_words, 5); return;
    case AL_UNIT_PER_SECOND:
        al_buf_number(b, value);
        al_buf_str(b, "/s");
        return;
    default: al_buf_number(b, value); return;
    }
}

// "https://user:pass@host/token" becomes "https://host/...".
static void hide(char *url) {
    char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    size_t user = at ? (size_t)(at - host) + 1 : 0;
    bool more = host[len] && strcmp(host + len, "/") != 0;
    memmove(host, host + user, len - user);
    (void)al_str_copy(host + len - user, 5, more ? "/..." : "");
}

static void print_word(struct al_buf *b, const char *text, size_t len, bool url) {
    char word[AL_TEXT_MAX + 8]; // hide may put "/..." where "/" was
    (void)al_str_copy_n(word, sizeof word, text, len);
    if (url)
        hide(word);
    al_json_string(b, word);
}

static void print_text(struct al_buf *b, const char *text, const struct al_text_info *info) {
    if (!info->is_list) {
        print_word(b, text, strlen(text), info->is_url);
        return;
    }
    al_buf_char(b, '[');
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "\n");
        al_buf_str(b, at == text ? "" : ", ");
        print_word(b, at, len, info->is_url);
        at += len + (at[len] == '\n');
    }
    al_buf_char(b, ']');
}

// The words of a section follow its quantities.
static void print_texts(struct al_buf *b, const struct al_config *config, const char *section) {
    for (unsigned i = 0; i < al_text_count; i++) {
        const struct al_text_info *info = &al_text_table[i];
        if (strcmp(section, info->section) != 0)
            continue;
        al_buf_printf(b, "  %s: ", info->key);
        print_text(b, (const char *)&config->texts + info->offset, info);
        al_buf_printf(b, "  # %s\n", info->help);
    }
}

void al_config_print(struct al_buf *b, const struct al_config *config) {
    const char *section = "";
    al_buf_str(b, "# alula's settings. Every value has its unit; a line left out keeps its default.\n");
    for (unsigned i = 0; i < al_setting_count; i++) {
        const struct al_setting_info *info = &al_setting_table[i];
        double value;
        if (strcmp(section, info->section) != 0) {
            print_texts(b, config, section);
            section = info->section;
            al_buf_printf(b, "%s:\n", section);
        }
        memcpy(&value, (const char *)&config->settings + info->offset, sizeof value);
        al_buf_printf(b, "  %s: ", info->key);
        al_config_print_value(b, info, value);
        al_buf_printf(b, "  # %s\n", info->help);
    }
    print_texts(b, config, section);
}
