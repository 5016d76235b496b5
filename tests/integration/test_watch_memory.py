# SPDX-License-Identifier: Apache-2.0
"""The sampling path takes no memory: allocations of two runs that differ in their length alone are counted."""

import os
import re
import subprocess

import pytest

import scenes

pytestmark = [pytest.mark.plain,
              pytest.mark.skipif(bool(os.environ.get("ALULA_SANITIZED")), reason="a preloaded library beside a sanitizer")]

SHIM = r"""
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static atomic_long count;
void *malloc(size_t n) { count++; return __libc_malloc(n); }
void *calloc(size_t a, size_t b) { count++; return __libc_calloc(a, b); }
void *realloc(void *p, size_t n) { count++; return __libc_realloc(p, n); }
__attribute__((destructor)) static void tell(void) { fprintf(stderr, "allocations %ld\n", (long)count); }
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shim")
    (folder / "count.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "count.so", folder / "count.c"], check=True)
    return folder / "count.so"


@pytest.mark.parametrize("args", [[], ["--json"], ["--compat"], ["--summary"]])
def test_ticks_allocate_nothing(alula_bin, shim, tmp_path, args):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(8, "20min"))

    def allocations(seconds):
        got = subprocess.run([alula_bin, "watch", *args, "--source", f"scenario:{path}", "--speed", "0", "--for", f"{seconds}s"],
                             env={**os.environ, "LD_PRELOAD": str(shim)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, timeout=60, check=True)
        return int(re.fullmatch(r"allocations (\d+)\n", got.stderr)[1])

    # 11 minutes: by then every window and every rule's own memory of the job is there.
    assert allocations(1100) == allocations(700)
