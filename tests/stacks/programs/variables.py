# SPDX-License-Identifier: Apache-2.0
"""A function with variables of every kind that is told, and threads whose variables change all the time."""
import collections
import threading
import time

Point = collections.namedtuple("Point", "x y")


class Thing:
    pass


def leaf(small, negative, great, large, real, yes, nothing, text, wide, long_text, raw, point, numbers, table, some, *args, **kw):
    cell = 41
    unbound = None
    del unbound

    def inner():
        return cell + small

    cell += 1
    thing, empty, deep = Thing(), (), [[[1, 2]]]
    api_token, password = "abcdef", 12345
    url = "postgres://user:secret@host/base"
    bearer = "hf_" + "a" * 30
    endless = []
    endless.append(endless)

    def deepest(level):
        total = level + cell
        print("ready", flush=True)
        time.sleep(1000 + total)

    deepest(5)


def spin():
    def one(n):
        name = str(n)
        pair = (n, name)
        return pair

    n = 0
    while True:
        n += 1
        one(n)


threading.Thread(target=spin, name="spin", daemon=True).start()
leaf(12, -5, 2 ** 62, 10 ** 40, 1.5, True, None, "plain\n", "h\xe4\u4e2d\U0001f600", "x" * 1000, b"ab\0\xff", Point(1, (2.0, [3])),
     list(range(100)), {"a": 1, "HF_TOKEN": "xyz", 5: None}, {1, 2}, 7, 8, more={})
