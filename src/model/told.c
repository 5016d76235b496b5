// SPDX-License-Identifier: Apache-2.0
#include "model/told.h"

#include <string.h>

size_t al_told_name(const char *source) {
    return strcspn(source, ";");
}

// What is behind the next "; ", "" at the end.
static const char *behind(const char *text) {
    text += strcspn(text, ";");
    return *text ? text + 1 + strspn(text + 1, " ") : text;
}

const char *al_told_reason(const char *source) {
    return behind(behind(source));
}

const char *al_told_confidence(const char *source, const char *part) {
    static const char *const words[] = {"exact", "inferred", "none"};
    const char *p = behind(source);
    size_t len = strlen(part);
    while (*p && *p != ';') {
        size_t word = strcspn(p, " ;");
        if (word > len && strncmp(p, part, len) == 0 && p[len] == '=')
            for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (word - len - 1 == strlen(words[i]) && strncmp(p + len + 1, words[i], strlen(words[i])) == 0)
                    return words[i];
        p += word;
        p += strspn(p, " ");
    }
    return NULL;
}
