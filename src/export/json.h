// SPDX-License-Identifier: Apache-2.0
// JSON spelt as Python's json module spells it, for formats whose readers were written against a Python tool.
#ifndef AL_EXPORT_JSON_H
#define AL_EXPORT_JSON_H

#include "base/buf.h"

// A string with quotes in pure ASCII: what lies outside becomes \uXXXX (surrogate pairs beyond U+FFFF), invalid UTF-8
// becomes \ufffd.
void al_json_ascii(struct al_buf *b, const char *text);

#endif
