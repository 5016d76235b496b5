# SPDX-License-Identifier: Apache-2.0
import sys
import threading

ready = threading.Barrier(int(sys.argv[1]) + 1)
end = threading.Event()


def wait():
    ready.wait()
    end.wait()


threading.stack_size(256 * 1024)
for i in range(int(sys.argv[1])):
    threading.Thread(target=wait, name="t%d" % i, daemon=True).start()
ready.wait()
print("ready", flush=True)
end.wait()
