# SPDX-License-Identifier: Apache-2.0
"""What a recording costs on disk: eight busy H200s whose every figure moves, all metrics on."""

import json
import pathlib
import random
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNITS = {"WATTS": "W", "HERTZ": "MHz", "SECONDS": "s", "JOULES": "J", "CELSIUS": "C", "BYTES_PER_SECOND": "B/s", "BYTES": "B"}
# The ratios that GPM measures anew each second: name, mean, deviation.
GPM = [("graphics_active_ratio", .97, .02), ("sm_active_ratio", .9, .03), ("sm_occupancy_ratio", .32, .02),
       ("integer_active_ratio", .1, .01), ("tensor_active_ratio", .46, .04), ("tensor_half_active_ratio", .46, .04),
       ("dram_active_ratio", .4, .03), ("fp32_active_ratio", .08, .01), ("fp16_active_ratio", .03, .005)]
RATES = [("gpm_pcie_tx_bytes_per_second", 2e8, 4e7), ("gpm_pcie_rx_bytes_per_second", 3e8, 5e7),
         ("gpm_nvlink_tx_bytes_per_second", 9e10, 4e9), ("gpm_nvlink_rx_bytes_per_second", 9e10, 4e9)]


def metrics():
    text = (ROOT / "src" / "model" / "gpu_metrics.h").read_text()
    return re.findall(r'X\(\w+, "(\w+)", (\w+), \w+, \w+', text)


def head(gpus, seconds):
    zeros = " ".join(f"{name}=0{UNITS.get(unit, '')}" for name, unit in metrics())
    lines = ["alula scenario 1", "start 2026-11-29T12:00:00Z", "interval 500ms", f"duration {seconds}s", "driver 580.159.04",
             f'gpu 0-{gpus - 1} name="NVIDIA H200"', "@0s", f"gpu 0-{gpus - 1} {zeros}",
             f"gpu 0-{gpus - 1} memory_total_bytes=143771MiB memory_reserved_bytes=616MiB power_enforced_limit_watts=700W "
             "power_limit_watts=700W memory_clock_hertz=3201MHz video_clock_hertz=1545MHz pcie_link_generation=5 pcie_link_width=16 "
             "sm_clock_maximum_hertz=1980MHz nvlink_links=18 nvlink_active_links=18 bar1_total_bytes=256GiB bar1_used_bytes=1GiB"]
    for gpu in range(gpus):
        lines += [f'proc {4300 + gpu} ppid=1 start_ticks={1000 + gpu} comm=python command="python train.py" role=rank rank={gpu}',
                  f"row {4300 + gpu} gpu={gpu} memory_bytes=99GiB sm_ratio=0.9"]
    return lines


def noisy(path, gpus, seconds, seed=1):
    """Percents, milliwatts, 15 MHz steps, KiB counters as the driver gives them; slow groups once a second."""
    r = random.Random(seed)
    lines = head(gpus, seconds)
    state = [{"energy": 5e6, "tx": 0, "rx": 0, "temp": 60.0, "used": 100 * 1024} for _ in range(gpus)]

    def share(mean, deviation):
        return min(max(r.gauss(mean, deviation), 0), 1)

    for tick in range(seconds * 2):
        lines.append(f"@{tick * 0.5}s")
        for gpu, s in enumerate(state):
            power = r.gauss(620, 18)
            s["temp"] += r.gauss(0, .3) + (61 - s["temp"]) * .05
            if r.random() < .05:
                s["used"] += r.choice([-2, 2, 20, -20])
            fields = [f"utilization_ratio={share(.95, .04):.2f}", f"memory_utilization_ratio={share(.45, .05):.2f}",
                      f"memory_used_bytes={s['used']}MiB", f"temperature_celsius={s['temp']:.0f}C", f"power_watts={power:.3f}W",
                      f"graphics_clock_hertz={1980 - 15 * abs(round(r.gauss(0, 2)))}MHz",
                      f"sm_clock_hertz={1980 - 15 * abs(round(r.gauss(0, 2)))}MHz",
                      f"clocks_event_reasons={4 if r.random() < .2 else 0}"]
            if tick % 2 == 0:
                s["energy"] += power
                s["tx"] += int(r.gauss(90e9, 4e9) / 1024)
                s["rx"] += int(r.gauss(90e9, 4e9) / 1024)
                fields += [f"power_average_watts={r.gauss(620, 8):.3f}W", f"power_instant_watts={r.gauss(620, 30):.3f}W",
                           f"energy_joules={s['energy']:.3f}J", f"memory_temperature_celsius={s['temp'] + 8:.0f}C",
                           f"temperature_margin_celsius={87 - s['temp']:.0f}C", f"nvlink_tx_bytes={s['tx'] * 1024}B",
                           f"nvlink_rx_bytes={s['rx'] * 1024}B"]
                fields += [f"{name}={share(mean, deviation):.8f}" for name, mean, deviation in GPM]
                fields += [f"{name}={abs(r.gauss(mean, deviation)):.3f}B/s" for name, mean, deviation in RATES]
                lines.append(f"row {4300 + gpu} gpu={gpu} sm_ratio={share(.9, .04):.2f} memory_ratio={share(.4, .04):.2f} "
                             f"memory_bytes={s['used'] - 600}MiB")
            lines.append(f"gpu {gpu} " + " ".join(fields))
        if tick % 4 == 0:
            lines += [f"proc {4300 + g} cpu_ratio={abs(r.gauss(1.1, .05)):.4f} "
                      f"resident_anonymous_bytes={int(9e9 + r.gauss(0, 1e6)) // 4096 * 4096}B" for g in range(gpus)]
    path.write_text("\n".join(lines) + "\n")


def run(alula, folder):
    scene, path = folder / "noisy.txt", folder / "noisy.alula"
    noisy(scene, 8, 1300)
    began = time.monotonic()
    subprocess.run([alula, "record", "-o", path, "--source", f"scenario:{scene}", "--speed", "0", "--plain", "1s"], check=True)
    wall = time.monotonic() - began
    info = json.loads(subprocess.run([alula, "info", path, "--json"], check=True, capture_output=True, text=True).stdout)
    full = info["resolutions"][0]
    each = full["chunk_bytes"] / full["chunk_gpu_samples"]
    everything = info["chunk_bytes"] / full["chunk_gpu_samples"]
    print("\n### A recording of 8 busy GPUs, all metrics on\n\n| figure | bytes a GPU sample |\n|---|---|")
    print(f"| chunks of GPUs, with the driver's own samples (goal: at most 60) | {each:.1f} |")
    print(f"| all chunks, with processes and node | {everything:.1f} |")
    print(f"\nThat is {everything * 8 * 2 * 86400 / 1e6:.0f} MB a day at 500 ms. Recording (scenario, windows and rules included) took "
          f"{wall / info['ticks'] * 1e3:.2f} ms a tick.")
