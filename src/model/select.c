// SPDX-License-Identifier: Apache-2.0
#include "model/select.h"

#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"

// Copies the item at *cursor and moves behind its comma; false at the end.
static bool next_item(const char **cursor, char *item, size_t size) {
    if (!*cursor || !**cursor)
        return false;
    size_t len = strcspn(*cursor, ",");
    const char *start = *cursor;
    *cursor += len + ((*cursor)[len] == ',');
    while (len && *start == ' ') {
        start++;
        len--;
    }
    while (len && start[len - 1] == ' ')
        len--;
    (void)al_str_copy_n(item, size, start, len);
    return true;
}

static bool is_uuid(const char *item) {
    return strncasecmp(item, "GPU-", 4) == 0 || strncasecmp(item, "MIG-", 4) == 0;
}

static bool is_pci_id(const char *item) {
    return strchr(item, ':') && strspn(item, "0123456789abcdefABCDEF:.xX") == strlen(item);
}

// "83:00.0", "0000:83:00.0" and "00000000:83:00.0" are the same: the last 7 characters and the domain's value count.
static bool same_pci_id(const char *item, const char *bus_id) {
    size_t a = strlen(item), b = strlen(bus_id);
    if (a < 7 || b < 7 || strcasecmp(item + a - 7, bus_id + b - 7) != 0)
        return false;
    const char *x = item + strspn(item, "0"), *y = bus_id + strspn(bus_id, "0");
    size_t dx = a > 7 ? strcspn(x, ":") : 0, dy = strcspn(y, ":");
    if (a == 7)
        return dy == 0; // no domain given: domain 0
    return dx == dy && strncasecmp(x, y, dx) == 0;
}

bool al_gpu_selected(const char *list, const struct al_gpu_info *info) {
    char item[AL_UUID_MAX];
    uint64_t index;
    if (!list || !*list)
        return true;
    while (next_item(&list, item, sizeof item)) {
        if (al_str_u64(item, &index)) {
            if (!info->is_mig && index == info->index)
                return true;
        } else if (is_uuid(item)) {
            if (strncasecmp(info->uuid, item, strlen(item)) == 0)
                return true;
        } else if (same_pci_id(item, info->pci_bus_id)) {
            return true;
        }
    }
    return false;
}

int al_gpu_select_check(const char *list, char *item, size_t size) {
    uint64_t index;
    while (next_item(&list, item, size))
        if (!al_str_u64(item, &index) && !(is_uuid(item) && strlen(item) > 4) && !(is_pci_id(item) && strlen(item) >= 7))
            return AL_E_INVALID;
    return 0;
}
