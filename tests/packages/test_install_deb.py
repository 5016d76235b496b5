# SPDX-License-Identifier: Apache-2.0
"""The Debian package on Debian 12 and 13, and `make install` under another root that is moved afterwards."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import checks
import places

NEEDED = ["libyaml-0-2", "libsqlite3-0", "libzstd1"]
RECOMMENDED = {"bookworm": ["libncursesw6", "libmicrohttpd12", "libcurl4", "libdw1"],
               "trixie": ["libncursesw6", "libmicrohttpd12t64", "libcurl4t64", "libdw1t64"]}
# What Lintian finds and stays: one package holds the program and the small library with its header; the project has no
# mail address; systemctl is called directly, as the unit is the administrator's to enable.
ACCEPTED = ["bogus-mail-host", "bogus-mail-host-in-debian-changelog", "initial-upload-closes-no-bugs",
            "link-to-shared-library-in-wrong-package", "maintainer-script-calls-systemctl", "package-name-doesnt-match-sonames",
            "python3-depends-but-no-python3-helper"]
# dpkg's own book-keeping, caches and logs.
DPKG = re.compile(r"/(var/(lib/dpkg|log|cache)|etc/ld\.so\.cache|root|tmp|proc|dev)(/|$)")


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True).stdout.strip()


def older(deb, folder):
    """The same as version 0.0.9, with a file that the new one no longer has."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
    control = (tree / "DEBIAN/control").read_text()
    (tree / "DEBIAN/control").write_text(re.sub(r"^Version: .*$", "Version: 0.0.9-1", control, flags=re.M))
    (tree / "usr/share/alula/gone").write_text("old\n")
    path = folder / "older.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, path], check=True, capture_output=True)
    return path


def test_lintian_finds_what_is_known(deb):
    got = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", ",".join(ACCEPTED), deb],
                         capture_output=True, text=True, check=False)
    assert got.returncode == 0, got.stdout


def test_dependencies_are_those_of_the_files(deb, version):
    assert field(deb, "Version") == f"{version}-1"
    depends = field(deb, "Depends")
    for name in ("libc6", *NEEDED):
        assert re.search(rf"(^|, ){re.escape(name)}( |,|$)", depends), depends
    assert int(re.search(r"libc6 \(>= 2\.(\d+)\)", depends).group(1)) <= 34


def listed(place):
    """Every file, but for what other Python modules had cached."""
    return [name for name in place.files("/") if not DPKG.match("/" + name[len(str(place.root)):].lstrip("/"))
            and ("/__pycache__/" not in name or "/alula/" in name)]


@pytest.mark.skipif(os.geteuid() != 0, reason="a Debian in a folder is made as root")
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_life_of_the_package(suite, deb, version, tmp_path):
    place = places.make(tmp_path / "debian", suite, ["python3-minimal", "python3", *NEEDED, *RECOMMENDED[suite]])
    before = listed(place)
    for file in (older(deb, tmp_path), deb):
        shutil.copy(file, place.path("/root"))
    place.run("dpkg", "-i", "/root/older.deb")
    assert place.path("/usr/share/alula/gone").exists()
    place.run("dpkg", "-i", f"/root/{deb.name}")
    assert not place.path("/usr/share/alula/gone").exists()
    assert place.run("dpkg-query", "-W", "-f", "${Status} ${Version}", "alula").stdout == f"install ok installed {version}-1"
    place.run("dpkg", "--audit")
    probe = checks.use(place, "alula", "python3", version)
    assert re.fullmatch(r"/usr/lib/[\w-]+-linux-gnu/alula/libalula-probe\.so", probe)
    checks.serve(place, "alula", "python3")
    got = place.run("python3", "-c", "import alula, ctypes; from alula import _place; print(alula.__version__, _place.program()); "
                    "ctypes.CDLL(_place.library()).alula_tracker_new")
    assert got.stdout.split() == [version, "/usr/bin/alula"]
    assert place.path("/usr/lib/systemd/system/alula.service").is_file()
    place.run("dpkg", "-r", "alula")
    place.run("dpkg", "--purge", "alula")
    assert listed(place) == before
    assert not place.path("/usr/lib/python3/dist-packages/alula").exists() and not place.path("/usr/share/alula").exists()


def test_make_install_can_be_moved(build, version, tmp_path):
    """PREFIX is nowhere in what is run: the tree works from any folder."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", tmp_path / "first"], check=True,
                   capture_output=True)
    binary = next((tmp_path / "first").rglob("bin/alula"))
    moved = tmp_path / "moved to" / "another place"
    moved.parent.mkdir()
    shutil.move(binary.parent.parent, moved)
    shutil.rmtree(tmp_path / "first")
    probe = checks.use(places.Here(tmp_path), moved / "bin" / "alula", shutil.which("python3"), version)
    assert pathlib.Path(probe).resolve().is_relative_to(moved)
