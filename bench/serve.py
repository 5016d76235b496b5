# SPDX-License-Identifier: Apache-2.0
"""The part of `make bench` about alula serve: beside nvitop-exporter and a plain prometheus-client exporter that reads NVML.

All three are asked on the same stand-in driver, in one run. A Python exporter reads the driver at every scrape or in a loop
of its own; alula reads it twice a second whoever asks. So CPU is told twice: what a scrape costs beyond the idle process,
and what the process takes in all at one scrape in 15 s, as Prometheus comes by default.
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROMETHEUS_CLIENT = """
import sys, time, pynvml as n
from prometheus_client import start_http_server, REGISTRY
from prometheus_client.core import GaugeMetricFamily
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
uuids = [n.nvmlDeviceGetUUID(h) for h in handles]
READ = {
    'gpu_utilization_ratio': lambda h: n.nvmlDeviceGetUtilizationRates(h).gpu / 100,
    'gpu_memory_used_bytes': lambda h: n.nvmlDeviceGetMemoryInfo(h).used,
    'gpu_memory_total_bytes': lambda h: n.nvmlDeviceGetMemoryInfo(h).total,
    'gpu_temperature_celsius': lambda h: n.nvmlDeviceGetTemperature(h, 0),
    'gpu_power_watts': lambda h: n.nvmlDeviceGetPowerUsage(h) / 1e3,
    'gpu_sm_clock_hertz': lambda h: n.nvmlDeviceGetClockInfo(h, 1) * 1e6,
    'gpu_memory_clock_hertz': lambda h: n.nvmlDeviceGetClockInfo(h, 2) * 1e6,
    'gpu_energy_joules': lambda h: n.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3,
}
class Collector:
    def collect(self):
        for name, read in READ.items():
            family = GaugeMetricFamily(name, name, labels=['gpu', 'uuid'])
            for i, h in enumerate(handles):
                family.add_metric([str(i), uuids[i]], read(h))
            yield family
REGISTRY.register(Collector())
start_http_server(int(sys.argv[1]), addr='127.0.0.1')
time.sleep(1e6)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_seconds(pid):
    """To the nanosecond and with the threads that have ended: the CPU clock of another process (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_mib(pid, field="VmRSS"):
    return int(re.search(rf"^{field}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]) / 1024


class Exporter:
    def __init__(self, name, command, env):
        self.name, self.port = name, free_port()
        self.process = subprocess.Popen([word.replace("{port}", str(self.port)) for word in command], env=env,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not self.up():
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"{name} does not answer")
            time.sleep(0.1)

    def up(self):
        try:
            return self.scrape().status == 200
        except OSError:
            return False

    def scrape(self, connection=None):
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        own.request("GET", "/metrics")
        response = own.getresponse()
        response.body = response.read()
        if not connection:
            own.close()
        return response

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def idle_cpu(exporter, seconds):
    """CPU seconds a second while nobody asks."""
    before = cpu_seconds(exporter.process.pid)
    time.sleep(seconds)
    return (cpu_seconds(exporter.process.pid) - before) / seconds


def paced(exporter, rate, seconds, clients):
    """`rate` scrapes a second in all from so many clients, each on a connection of its own; latencies in ms."""
    latencies, lock, start = [], threading.Lock(), time.monotonic() + 0.2

    def client(index):
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=60)
        period, mine = clients / rate, []
        due = start + index / rate
        while due < start + seconds:
            time.sleep(max(0, due - time.monotonic()))
            began = time.perf_counter()
            try:
                exporter.scrape(connection)
            except (OSError, http.client.HTTPException):
                connection.close()
                mine.append(float("inf"))
            else:
                mine.append((time.perf_counter() - began) * 1e3)
            due += period
        connection.close()
        with lock:
            latencies.extend(mine)

    before = cpu_seconds(exporter.process.pid)
    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.monotonic() - start
    latencies.sort()
    return {"p50": latencies[len(latencies) // 2], "p99": latencies[min(len(latencies) * 99 // 100, len(latencies) - 1)],
            "cpu": cpu_seconds(exporter.process.pid) - before, "wall": wall, "count": len(latencies)}


def serial_cost(exporter, count, idle):
    """CPU ms that a scrape adds, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=60)
    before, began = cpu_seconds(exporter.process.pid), time.monotonic()
    for _ in range(count):
        exporter.scrape(connection)
        time.sleep(0.002)
    connection.close()
    return max(cpu_seconds(exporter.process.pid) - before - idle * (time.monotonic() - began), 0) / count * 1e3


def wrk(exporter):
    if not shutil.which("wrk"):
        return None
    out = subprocess.run(["wrk", "-t1", "-c16", "-d3s", f"http://127.0.0.1:{exporter.port}/metrics"], capture_output=True,
                         text=True, check=False).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", out)
    return float(found[1]) if found else None


def measure(name, command, env, scrapes):
    exporter = Exporter(name, command, env)
    try:
        time.sleep(1)
        size = len(exporter.scrape().body)
        idle = idle_cpu(exporter, 6)
        row = {"bytes": size, "idle": idle, "scrape": serial_cost(exporter, scrapes, idle),
               "hundred": paced(exporter, 100, 8, 100), "wrk": wrk(exporter)}
        row["rss"] = memory_mib(exporter.process.pid)
        return row
    finally:
        exporter.close()


def a_day(alula, folder):
    """Twenty-four hours of eight GPUs, played as fast as it goes and scraped meanwhile."""
    root = pathlib.Path(__file__).resolve().parents[1]
    text = (root / "tests" / "scenarios" / "eight-healthy.txt").read_text()
    day = folder / "day.txt"
    day.write_text(text.replace("duration 120s", "duration 86400s").replace("/120s", "/86400s"))
    port = free_port()
    process = subprocess.Popen([alula, "serve", "--listen", f"127.0.0.1:{port}", "--source", f"scenario:{day}", "--speed", "0"],
                               stderr=subprocess.DEVNULL)
    began, peak, ticks = time.monotonic(), 0, 0
    while process.poll() is None and time.monotonic() - began < 300:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            for accept in ("text/plain", "application/openmetrics-text"):
                connection.request("GET", "/metrics", headers={"Accept": accept})
                found = re.search(rb"^alula_ticks_total (\d+)", connection.getresponse().read(), re.M)
                ticks = int(found[1]) if found else ticks
            peak = memory_mib(process.pid, "VmHWM")
        except (OSError, http.client.HTTPException, TypeError):
            pass
        time.sleep(0.2)
    process.kill()
    process.wait()
    return peak, ticks, time.monotonic() - began


def ratio(row, best, key):
    return f"{row[key] / best[key]:.0f}" if best[key] else "-"


def total(row):
    """CPU of one core in all at one scrape in 15 s, percent."""
    return (row["idle"] + row["scrape"] / 1e3 / 15) * 100


def section(env, folder, alula, gpus):
    python = sys.executable
    rows = {"alula serve": measure("alula serve", [alula, "serve", "--listen", "127.0.0.1:{port}"], env, 1000),
            "nvitop-exporter": measure("nvitop-exporter", [python, "-m", "nvitop_exporter", "--port", "{port}",
                                                           "--bind-address", "127.0.0.1"], env, 100),
            "prometheus-client, 8 values a GPU": measure("prometheus-client", [python, "-c", PROMETHEUS_CLIENT, "{port}"], env,
                                                         100)}
    best = rows["alula serve"]
    print(f"\n### alula serve, {gpus} GPUs: /metrics\n\n| exporter | page, KiB | CPU a scrape, ms | times alula | CPU idle, % of a core | "
          "CPU in all at a scrape in 15 s, % | p50 / p99 at 100 scrapes/s from 100 clients, ms | CPU then, ms a scrape | times alula | "
          "wrk, requests/s | RSS, MiB |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        hundred = row["hundred"]
        row["busy"] = hundred["cpu"] / hundred["count"] * 1e3
        print(f"| {name} | {row['bytes'] / 1024:.0f} | {row['scrape']:.3f} | {ratio(row, best, 'scrape')} | {row['idle'] * 100:.2f} | "
              f"{total(row):.2f} | {hundred['p50']:.2f} / {hundred['p99']:.2f} | {row['busy']:.3f} | {ratio(row, best, 'busy')} | "
              f"{row['wrk'] or float('nan'):.0f} | {row['rss']:.1f} |")
    return rows


def run(env, alula, folder, gpus=8):
    rows = section(env, folder, alula, gpus)
    peak, ticks, wall = a_day(alula, folder)
    print(f"\nA day of {ticks} ticks, played in {wall:.0f} s and scraped in both formats: peak RSS {peak:.1f} MiB (limit 12).")
    return rows
