# SPDX-License-Identifier: Apache-2.0
"""stack/core goes into training processes with the probe: it allocates nothing, takes no lock and prints nothing."""

import subprocess

ALLOWED = {"memchr", "memcmp", "memcpy", "memmove", "memset", "strcmp", "strlen", "strncmp", "_GLOBAL_OFFSET_TABLE_",
           "__stack_chk_fail",
           # The own process's memory by the kernel, and the own thread; versions are parsed once, at the start.
           "process_vm_readv", "getpid", "pthread_self", "__errno_location", "strtoul"}


def test_core_calls_nothing_that_could_block(build):
    lines = subprocess.run(["nm", build / "src/stack/core/libal-stack-core.a"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    defined = {line.split()[2] for line in lines if len(line.split()) == 3}
    used = {line.split()[1] for line in lines if line.split()[:1] == ["U"]}
    assert used and {name for name in used - defined if not name.startswith(("__asan", "__ubsan", "__sanitizer"))} <= ALLOWED
