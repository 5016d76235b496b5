# SPDX-License-Identifier: Apache-2.0
"""Turns a recorded `nvidia-smi --query-gpu` row into a scenario that must print that row again.

Which metric or attribute a field is, and how it is printed, is read from the source's own tables, so that a new field
needs no second list here.
"""

import datetime
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "nvidia-smi-580.159.04"

STATUS = {
    "[N/A]": "!unsupported",
    "[Requested functionality has been deprecated]": "!deprecated",
    "[Insufficient Permissions]": "!denied",
    "[GPU is lost]": "!lost",
    "[Unknown Error]": "!error",
}
# How a style's cells are counted. Attributes take plain numbers, bytes among them.
UNITS = {"MIB": "MiB", "PERCENT": "%", "WATTS": "W", "MHZ": "MHz", "US": "us"}


def _x_macro(path):
    """{ID: name} of a header's X(ID, "name", …) rows."""
    return dict(re.findall(r'X\((\w+), "(\w+)"', (ROOT / path).read_text()))


def _words():
    """{style: {word: number}} from smi_format.c's word tables."""
    text = (ROOT / "src/export/smi_format.c").read_text()
    tables = {name: re.findall(r'"([^"]*)"', body)
              for name, body in re.findall(r"\*const (\w+)\[\] = \{(.*?)\};", text, re.S)}
    styles = re.findall(r"\[AL_SMI_(\w+)\] = \w+_STYLE\((\w+)", text)
    return {style: {word: number for number, word in enumerate(tables[name])} for style, name in styles}


def _fields():
    """{field: (kind, style, scenario key)} from smi_fields.c."""
    metrics, attrs = _x_macro("src/model/gpu_metrics.h"), _x_macro("src/model/attr.h")
    text = (ROOT / "src/export/smi_fields.c").read_text().split("al_smi_gpu_fields[] = {")[1].split("\n};")[0]
    fields = {}
    row = re.compile(r'^ +(METRIC|ATTR)\("([^"]+)", (?:NULL|"[^"]+"), (\w+), (\w+)\)', re.M)
    for kind, name, style, key in row.findall(text):
        fields[name] = (kind, style, (metrics if kind == "METRIC" else attrs)[key])
    for name, key in re.findall(r'^ +ECC\("([^"]+)", (\w+)\)', text, re.M):
        fields["ecc.errors." + name] = ("METRIC", "INT", metrics[key])
    return fields


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _value(kind, style, cell, words):
    if cell in STATUS:
        return STATUS[cell]
    if style == "TEXT":
        return _quoted(cell)
    if style in words:
        return str(words[style][cell])
    if style == "PSTATE":
        return cell[1:]
    number = cell.split(" ")[0]
    if kind == "METRIC":
        return number + UNITS.get(style, "")
    return str(int(number) << 20) if style == "MIB" else number


def arguments(name):
    """The recorded command without the program's name."""
    return shlex.split((GOLDEN / f"{name}.cmd").read_text().splitlines()[0])[1:]


def output(name):
    return (GOLDEN / f"{name}.out").read_text()


def status(name):
    return int((GOLDEN / f"{name}.rc").read_text())


def canonical(field):
    """A field's own name for its name or alias."""
    text = (ROOT / "src/export/smi_fields.c").read_text()
    hit = re.search(r'"([^"]+)", "%s"' % re.escape(field), text)
    return hit[1] if hit else field.replace("clocks_throttle_reasons", "clocks_event_reasons")


def recorded(name):
    """{field: cell} of a recorded query's last row."""
    fields = next(a for a in arguments(name) if a.startswith("--query-gpu=")).split("=", 1)[1].split(",")
    return dict(zip(map(canonical, fields), output(name).splitlines()[-1].split(", "), strict=True))


def head(when, driver="580.159.04", gpus=1, **identity):
    identity = {"name": "NVIDIA H200", "uuid": "GPU-a1b2c3d4-0000-1111-2222-333344445555",
                "pci_bus_id": "00000000:00:06.0", "serial": "1650000000000"} | identity
    start = when.isoformat(timespec="milliseconds")
    lines = ["alula scenario 1", f"start {start}Z", "duration 10s", f"driver {driver}"]
    if gpus:
        lines.append("gpu 0 " + " ".join(f"{key}={_quoted(value)}" for key, value in identity.items()))
    return lines


def scenario(name, processes=()):
    """The scenario of a recorded row; `processes` are (pid, MiB, program, more figures)."""
    row, fields, words = recorded(name), _fields(), _words()
    when = datetime.datetime.strptime(row.get("timestamp", "2026/11/29 18:00:00.000"), "%Y/%m/%d %H:%M:%S.%f")
    out = head(when)
    major, minor = row.get("compute_cap", "9.0").split(".")
    lines = {"METRIC": [], "ATTR": [f"compute_capability_major={major}", f"compute_capability_minor={minor}",
                                    "serial=1650000000000", "fabric_state=0"]}
    for field, (kind, style, key) in fields.items():
        if field in row and field != "serial":
            lines[kind].append(f"{key}={_value(kind, style, row[field], words)}")
    # One counter of the driver under two names (nvml.h: NVML_FI_DEV_CLOCKS_EVENT_REASON_* and _PERF_POLICY_*).
    for reason, policy in (("sw_power_cap", "power"), ("sync_boost", "sync_boost")):
        if f"clocks_event_reasons_counters.{reason}" in row:
            cell = row[f"clocks_event_reasons_counters.{reason}"]
            lines["METRIC"].append(f"violation_{policy}_seconds={_value('METRIC', 'US', cell, words)}")
    out += ["attr 0 " + " ".join(lines["ATTR"]), "@0s", "gpu 0 " + " ".join(lines["METRIC"])]
    out += [process(*p) for p in processes]
    return "\n".join(out) + "\n"


def process(pid, mib, program, more=""):
    return f"row {pid} gpu=0 type=C memory_bytes={mib}MiB driver_name={_quoted(program)} {more}".rstrip()


# A column of dmon -> the metric, and the unit of its figures.
DMON = {
    "pwr": ("power_watts", "W"), "gtemp": ("temperature_celsius", ""), "mtemp": ("memory_temperature_celsius", ""),
    "sm": ("utilization_ratio", "%"), "mem": ("memory_utilization_ratio", "%"),
    "enc": ("encoder_utilization_ratio", "%"), "dec": ("decoder_utilization_ratio", "%"),
    "jpg": ("jpeg_utilization_ratio", "%"), "ofa": ("ofa_utilization_ratio", "%"), "mclk": ("memory_clock_hertz", "MHz"), "pclk": ("sm_clock_hertz", "MHz"),
    "fb": ("memory_used_bytes", "MiB"), "bar1": ("bar1_used_bytes", "MiB"),
    "sbecc": ("ecc_corrected_volatile_total_errors", ""), "dbecc": ("ecc_uncorrected_volatile_total_errors", ""),
    "pci": ("pcie_replays", ""), "rxpci": ("pcie_rx_bytes_per_second", "MB/s"),
    "txpci": ("pcie_tx_bytes_per_second", "MB/s"),
    "gract": ("graphics_active_ratio", "%"), "smutil": ("sm_active_ratio", "%"), "smocc": ("sm_occupancy_ratio", "%"),
    "intutil": ("integer_active_ratio", "%"), "mmaact": ("tensor_active_ratio", "%"),
    "dfmat": ("tensor_fp64_active_ratio", "%"), "hmmat": ("tensor_half_active_ratio", "%"),
    "immat": ("tensor_integer_active_ratio", "%"), "dram": ("dram_active_ratio", "%"),
    "fp64": ("fp64_active_ratio", "%"), "fp32": ("fp32_active_ratio", "%"), "fp16": ("fp16_active_ratio", "%"),
    "pcitx": ("gpm_pcie_tx_bytes_per_second", "MiB/s"), "pcirx": ("gpm_pcie_rx_bytes_per_second", "MiB/s"),
    "nvlrx": ("gpm_nvlink_rx_bytes_per_second", "MiB/s"), "nvltx": ("gpm_nvlink_tx_bytes_per_second", "MiB/s"),
}


def dmon_scenario(name, titles):
    """A recorded dmon run as a scenario: each of its lines is one second."""
    rows = [re.split(r"[ ,]+", line.strip()) for line in output(name).splitlines() if line.strip() and line[0] == " "]
    first = dict(zip(titles, rows[0], strict=True))
    clock = f"{first.get('Date', '20261129')} {first.get('Time', '18:00:00')}"
    out = head(datetime.datetime.strptime(clock, "%Y%m%d %H:%M:%S"))
    out.append("attr 0 protected_memory_used_bytes=0")
    power = 0
    for second, cells in enumerate(rows):
        figures = []
        for title, cell in zip(titles, cells, strict=True):
            if title in DMON:
                figures.append(f"{DMON[title][0]}={'!unread' if cell == '-' else cell + DMON[title][1]}")
            elif title == "pviol":
                power += int(cell) / 100
                figures.append(f"violation_power_seconds={power}s violation_thermal_seconds=0s")
        out += [f"@{second}s", "gpu 0 " + " ".join(figures)]
    return "\n".join(out) + "\n"
