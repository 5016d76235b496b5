# SPDX-License-Identifier: Apache-2.0
"""Two call chains that take turns as fast as Python goes: a stack with functions of both never was."""
import sys

DEPTH = int(sys.argv[1])


def a(n):
    if n:
        a(n - 1)


def b(n):
    if n:
        b(n - 1)


print("ready", flush=True)
while True:
    a(DEPTH)
    b(DEPTH)
