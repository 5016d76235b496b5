# SPDX-License-Identifier: Apache-2.0
"""The wheel under every Python from 3.8 on: on this Debian 12, on Debian 13, and 3.14 where Debian has it."""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import time
import zipfile

import pytest

import checks
import interpreters
import places

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a Debian in a folder is made as root")
FOUND = {"%d.%d" % version: path for version, path in interpreters.ALL}
LIBRARY = ("import ctypes; from alula import _place; "
           "ctypes.CDLL(_place.library()).alula_tracker_new; print(_place.library())")
# What is opened by name, each in a process of its own as alula would, and where all that came with it was found.
OPEN = """
import ctypes, re, sys
from alula import _place
import os
folder = os.path.join(os.path.dirname(os.path.dirname(_place.library())), "lib", "vendor")
before = set(re.findall(r"/\\S+\\.so\\S*", open("/proc/self/maps").read()))
for name in sorted(os.listdir(folder)):
    ctypes.CDLL(os.path.join(folder, name), mode=os.RTLD_NOW)
after = set(re.findall(r"/\\S+\\.so\\S*", open("/proc/self/maps").read()))
print("\\n".join(sorted(p for p in after - before if "/site-packages/" not in p)))
"""


def older(wheel, folder, version="0.0.9"):
    """The same under a lower version, with a file that the new one no longer has."""
    old = re.search(r"alula-([^-]+)-", wheel.name).group(1)
    path = folder / wheel.name.replace(f"alula-{old}", f"alula-{version}")
    rows = io.StringIO()
    record = csv.writer(rows, lineterminator="\n")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(path, "w") as target:
        members = {info.filename: source.read(info) for info in source.infolist() if not info.is_dir()}
        members = {name.replace(f"alula-{old}.", f"alula-{version}."): data for name, data in members.items()}
        members["alula/_gone.py"] = b"OLD = True\n"
        meta = f"alula-{version}.dist-info/METADATA"
        members[meta] = members[meta].replace(f"\nVersion: {old}".encode(), f"\nVersion: {version}".encode())
        name = f"alula-{version}.dist-info/RECORD"
        del members[name]
        for member, data in members.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.writerow((member, f"sha256={digest}", len(data)))
            info = zipfile.ZipInfo(member)
            info.external_attr = (0o100755 if data[:4] == b"\x7fELF" else 0o100644) << 16
            target.writestr(info, data)
        record.writerow((name, "", ""))
        target.writestr(name, rows.getvalue())
    return path


def life(place, python, wheel, version, tmp_path):
    """An older one, the new one over it, use, and nothing left when it is gone."""
    env = f"{place.scratch}/env"
    place.run(python, "-m", "venv", env, timeout=300)
    place.path(place.scratch).joinpath("wheels").mkdir()
    for file in (older(wheel, tmp_path), wheel):
        shutil.copy(file, place.path(place.scratch) / "wheels")
    pip = [f"{env}/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    before = [name for name in place.files(env) if "/pip/" not in name and "/__pycache__" not in name]
    place.run(*pip, "install", "--no-index", "--no-deps", f"{place.scratch}/wheels/alula-0.0.9-py3-none-manylinux_2_34_x86_64.whl")
    gone = [name for name in place.files(env) if name.endswith("alula/_gone.py")]
    assert gone
    place.run(*pip, "install", "--no-index", "--upgrade", f"{place.scratch}/wheels/{wheel.name}")
    assert not os.path.exists(gone[0])
    alula = f"{env}/bin/alula"
    assert checks.use(place, alula, f"{env}/bin/python", version).startswith(os.path.realpath(f"{env}/lib"))
    checks.serve(place, alula, f"{env}/bin/python")
    assert place.run(f"{env}/bin/python", "-m", "alula", "--version").stdout.split()[:2] == ["alula", version]
    assert "_prefix" in place.run(f"{env}/bin/python", "-c", LIBRARY).stdout
    others = place.run(f"{env}/bin/python", "-c", OPEN).stdout.split()
    # libc's own parts, and zlib, which the manylinux rules count on.
    assert [name for name in others if not re.search(r"/(lib(c|m|dl|rt|pthread|resolv)|libz)\.so", name)] == []
    place.run(*pip, "uninstall", "--yes", "alula")
    assert [name for name in place.files(env) if "/pip/" not in name and "/__pycache__" not in name] == before
    assert [name for name in place.files(env) if "alula" in os.path.basename(name)] == []


@pytest.mark.parametrize("minor", range(8, 14))
def test_on_this_debian(minor, wheel, version, tmp_path):
    python = FOUND.get(f"3.{minor}")
    if python is None:
        pytest.skip(f"no Python 3.{minor} here")
    life(places.Here(tmp_path), python, wheel, version, tmp_path)


def test_the_system_s_own_python_is_among_them():
    assert "3.11" in FOUND


@needs_root
def test_on_debian_13(wheel, version, tmp_path):
    place = places.make(tmp_path / "debian", "trixie", ["python3", "python3-venv"])
    life(place, "/usr/bin/python3", wheel, version, tmp_path)


@needs_root
def test_on_python_3_14(wheel, version, tmp_path):
    """Debian's next release has it."""
    place = places.make(tmp_path / "debian", "forky", ["python3.14", "python3.14-venv"])
    life(place, "/usr/bin/python3.14", wheel, version, tmp_path)


def test_the_console_script_keeps_no_python(wheel, tmp_path):
    place = places.Here(tmp_path)
    place.run(FOUND["3.11"], "-m", "venv", tmp_path / "env", timeout=300)
    place.run(tmp_path / "env/bin/pip", "install", "--no-index", wheel)
    job = subprocess.Popen([tmp_path / "env/bin/alula", "demo", "watch", "--for", "20s"], stdout=subprocess.PIPE, text=True)
    try:
        assert "GPU 0" in job.stdout.readline()
        time.sleep(0.2)
        assert os.readlink(f"/proc/{job.pid}/exe").endswith("site-packages/alula/_prefix/bin/alula")
        maps = open(f"/proc/{job.pid}/maps", encoding="utf-8").read()
        assert "python3.11/lib-dynload" not in maps and "libpython" not in maps
        status = open(f"/proc/{job.pid}/status", encoding="utf-8").read()
        assert int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) < 20 << 10
    finally:
        job.kill()
        job.wait()


def test_pip_refuses_it_on_an_older_system(wheel, tmp_path):
    """A system with an older glibc takes another wheel or says so; it never gets one that cannot start."""
    got = places.Here(tmp_path).run(FOUND["3.11"], "-m", "pip", "download", "--no-index", "--no-deps", "--dest", tmp_path,
                                    "--platform", "manylinux_2_28_x86_64", "--only-binary", ":all:", wheel, check=False)
    assert got.returncode and "is not a supported wheel on this platform" in got.stderr
