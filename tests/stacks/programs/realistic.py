# SPDX-License-Identifier: Apache-2.0
"""Two ways of work as programs have them, with calls into C below 35 frames: json and re in one, sorting and hashing in the
other. Functions of the one and the other never stand in one stack."""
import hashlib
import json
import re

DATA = {"rows": [{"id": i, "name": "x" * 50, "values": list(range(100))} for i in range(100)]}


def one_leaf():
    text = json.dumps(DATA)
    return len(re.findall(r"x+", text)) + len(json.loads(text))


def two_leaf():
    rows = sorted(DATA["rows"], key=lambda row: row["name"] + str(row["id"]))
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def one_deep(n):
    return one_leaf() if n == 0 else one_deep(n - 1)


def two_deep(n):
    return two_leaf() if n == 0 else two_deep(n - 1)


print("ready", flush=True)
while True:
    one_deep(35)
    two_deep(35)
