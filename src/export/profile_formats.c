// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/str.h"
#include "export/profile.h"

const struct al_profile_format al_profile_formats[] = {
    {"flamegraph", "html", ".html .htm", "a page for a browser: flame graph, time, functions; searchable", al_flame_html},
    {"svg", NULL, ".svg", "the same as one picture, which a browser makes searchable", al_flame_svg},
    {"speedscope", NULL, ".json", "speedscope.app: a profile a thread in the order of time", al_speedscope},
    {"folded", "raw", ".folded .txt", "a line a stack, for flamegraph.pl and inferno", al_folded},
    {"pprof", NULL, ".pb.gz .pprof .pb", "go tool pprof and all that reads profile.proto", al_pprof},
    {"chrome", "chrometrace", ".trace.json", "Perfetto and chrome://tracing: what ran when", al_chrome},
};
const size_t al_profile_format_count = sizeof al_profile_formats / sizeof *al_profile_formats;

const struct al_profile_format *al_profile_format_named(const char *name) {
    for (size_t i = 0; i < al_profile_format_count; i++)
        if (strcmp(al_profile_formats[i].name, name) == 0 || al_str_equal(al_profile_formats[i].alias, name))
            return &al_profile_formats[i];
    return NULL;
}

const struct al_profile_format *al_profile_format_of_file(const char *path) {
    const struct al_profile_format *found = NULL;
    size_t longest = 0, len = strlen(path);
    for (size_t i = 0; i < al_profile_format_count; i++) {
        for (const char *end = al_profile_formats[i].endings; *end;) {
            size_t size = strcspn(end, " ");
            if (size > longest && len >= size && memcmp(path + len - size, end, size) == 0) {
                longest = size;
                found = &al_profile_formats[i];
            }
            end += size + (end[size] == ' ');
        }
    }
    return found;
}
