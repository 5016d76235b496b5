# SPDX-License-Identifier: Apache-2.0
import sys
import threading
import time

if sys.version_info >= (3, 13):
    import _interpreters as interps
else:
    import _xxsubinterpreters as interps
SOURCE = """
import time
def inside():
    time.sleep(600)
inside()
"""
run = getattr(interps, "exec", None) or interps.run_string
for _ in range(2):
    threading.Thread(target=lambda i=interps.create(): run(i, SOURCE), daemon=True).start()
time.sleep(1)
print("ready", flush=True)
time.sleep(600)
