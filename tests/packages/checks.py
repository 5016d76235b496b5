# SPDX-License-Identifier: Apache-2.0
"""What holds wherever alula was installed, by whatever way."""

import json
import re

# The job of `alula run`: is the hook there, does the probe load, and is sys.path as it would be without?
JOB = """
import ctypes, json, os, sys
ctypes.CDLL(os.environ["ALULA_PROBE"])
print(json.dumps({"hook": sorted(m for m in sys.modules if m.startswith("_alula_hook"))[:1],
                  "probe": os.environ["ALULA_PROBE"],
                  "path": [p for p in sys.path if "alula" in os.path.basename(p) or "hook" in p]}))
sys.exit(7)
"""


# Attaches to a loop that never sleeps, which takes all of the hook's files.
ATTACH = """
import subprocess, sys
job = subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\\nwhile True: pass"], stdout=subprocess.PIPE)
job.stdout.readline()
got = subprocess.run([sys.argv[1], "attach", "--no-record", "--for", "300ms", "--wait", "60s", str(job.pid)],
                     stderr=subprocess.PIPE, universal_newlines=True)
job.kill()
job.wait()
print(got.returncode, got.stderr)
"""


def use(place, alula, python, version):
    """Version, demonstration, a job watched from the inside, its report, one attached to, a recording read back."""
    assert place.run(alula, "--version").stdout.split()[:2] == ["alula", version]
    demo = place.run(alula, "demo", "--speed", "20", "watch", "--for", "3s")
    ticks, late = map(int, re.search(r"^(\d+) ticks, (\d+) late, ", demo.stdout + demo.stderr, re.M).groups())
    assert "GPU 0" in demo.stdout and ticks > 2 * late, (demo.stdout, demo.stderr)  # a busy machine may be late for one
    folder = f"{place.scratch}/out"
    got = place.run(alula, "run", "--output-dir", folder, "--", python, "-c", JOB, check=False)
    assert got.returncode == 7, got.stderr
    seen = json.loads(next(line for line in got.stdout.splitlines() if line.startswith("{")))
    assert seen["hook"] == ["_alula_hook"] and seen["path"] == []
    assert place.path(folder).joinpath("run.alula").is_file()
    attached = place.run(python, "-c", ATTACH, alula).stdout
    assert attached.startswith("0 alula: attached to pid") and "taken out of 1 process" in attached
    recording = f"{place.scratch}/run.alula"
    place.run(alula, "demo", "--speed", "20", "record", "-o", recording, "--for", "2s")
    assert "H200" in place.run(alula, "info", recording).stdout
    return seen["probe"]


# Serves the demonstration and asks it from the same process: over HTTP, with the library that is opened for it.
SERVE = """
import subprocess, sys, time, urllib.request
job = subprocess.Popen([sys.argv[1], "demo", "serve", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
said = []
for line in job.stderr:
    said.append(line)
    if line.startswith("alula: serving on http"):
        break
else:
    sys.exit("it serves nothing: " + "".join(said))
end, count = time.monotonic() + 60, 0
while not count and time.monotonic() < end:  # until the first tick there is no GPU
    text = urllib.request.urlopen(line.split()[-1] + "/metrics", timeout=60).read().decode()
    count = sum(row.startswith("alula_gpu") for row in text.splitlines())
    time.sleep(0.05)
job.terminate()
job.wait()
print(count)
"""


def serve(place, alula, python):
    assert int(place.run(python, "-c", SERVE, alula).stdout) > 10
