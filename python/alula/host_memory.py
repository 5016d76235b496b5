# SPDX-License-Identifier: Apache-2.0
"""Host memory of this process, from /proc/self/status."""

from typing import Dict, NamedTuple, Optional


class Host(NamedTuple):
    resident: Optional[int]   # bytes; what psutil calls rss
    anonymous: Optional[int]  # its private part; None where the kernel does not tell it


def read() -> Host:
    found: Dict[bytes, int] = {}
    try:
        with open("/proc/self/status", "rb") as f:
            for line in f:
                if line.startswith((b"VmRSS:", b"RssAnon:")):
                    name, value = line.split()[:2]
                    found[name] = int(value) * 1024
    except (OSError, ValueError):
        pass
    return Host(found.get(b"VmRSS:"), found.get(b"RssAnon:"))
