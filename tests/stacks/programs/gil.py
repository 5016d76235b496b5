# SPDX-License-Identifier: Apache-2.0
import threading
import time


def spin():
    while True:
        pass


for i in range(3):
    threading.Thread(target=spin, name="spin %d" % i, daemon=True).start()
print("ready", flush=True)
time.sleep(600)
