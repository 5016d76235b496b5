# SPDX-License-Identifier: Apache-2.0
"""The wheel itself: its name, what is inside, what it asks of a system, and that it can be built again."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import zipfile
from importlib.machinery import SourceFileLoader

import pytest

BINARY_LIMIT, PROBE_LIMIT = (2, 34), (2, 17)


@pytest.fixture(scope="module")
def tree(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def tool(root):
    loader = SourceFileLoader("tools_wheel", str(root / "tools" / "wheel"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_wheel", loader))
    loader.exec_module(module)
    return module


def objects(tree):
    return [path for path in sorted(tree.rglob("*")) if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]


def highest(path):
    """The newest symbol version of glibc that a file asks for."""
    text = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"\*UND\*.*GLIBC_(\d+)\.(\d+)", text)
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))


def test_name_and_tags(wheel, tree, version):
    assert wheel.name == f"alula-{version}-py3-none-manylinux_2_34_x86_64.whl"
    text = (tree / f"alula-{version}.dist-info" / "WHEEL").read_text()
    assert re.findall(r"^Tag: (.*)$", text, re.M) == ["py3-none-manylinux_2_34_x86_64"]
    assert wheel.stat().st_size < 12e6  # 9.1 MB; most of it is libcurl's company


def test_package_version_is_the_project_version(tree, version):
    assert f'__version__ = "{version}"' in (tree / "alula" / "__init__.py").read_text()


def test_all_parts_are_inside(tree, root, version):
    for name in ("bin/alula", "lib/libalula.so.0", "lib/alula/libalula-probe.so", "lib/alula/standin/libnvidia-ml.so.1",
                 "share/alula/hook/sitecustomize.py", "share/alula/h200-session.txt", "include/alula/alula.h"):
        assert (tree / "alula" / "_prefix" / name).is_file(), name
    share = tree / f"alula-{version}.data" / "data" / "share"
    pages = {path.name for path in (share / "man").rglob("*.[135]")}
    assert pages == {path.name for path in (root / "man").glob("*.[135]")}
    for name in ("bash-completion/completions/alula", "zsh/site-functions/_alula", "fish/vendor_completions.d/alula.fish"):
        assert (share / name).is_file(), name
    assert not [path for path in tree.rglob("*") if "__pycache__" in path.parts]


def test_highest_symbol_versions(tree):
    found = objects(tree)
    assert len(found) > 20
    for path in found:
        limit = PROBE_LIMIT if path.name == "libalula-probe.so" else BINARY_LIMIT
        assert highest(path) <= limit, (path.name, highest(path))


def test_probe_needs_libc_alone(tree):
    text = subprocess.run(["readelf", "-d", tree / "alula/_prefix/lib/alula/libalula-probe.so"], capture_output=True, text=True,
                          check=True).stdout
    assert set(re.findall(r"\(NEEDED\).*\[(.+?)\]", text)) <= {"libc.so.6", "ld-linux-x86-64.so.2"}
    assert "RPATH" not in text and "RUNPATH" not in text


def test_what_is_opened_by_name_is_inside_or_left_out_on_purpose(tree, root, tool):
    named = set()
    for path in (root / "src").rglob("*.c"):
        if "al_dl_open" in path.read_text():
            named |= set(re.findall(r'"(lib[\w+-]+\.so\.\d+)"', path.read_text()))
    assert named == set(tool.OPENED) | set(tool.LEFT_OUT)
    assert {path.name for path in (tree / tool.VENDOR).iterdir()} == set(tool.OPENED)


def test_every_library_has_its_licence_notice(tree, version):
    folder = tree / f"alula-{version}.dist-info" / "licenses"
    listed = dict(re.findall(r"^(\S+\.so\S*): .* licence notices in (\S+\.txt)$", (folder / "VENDORED.txt").read_text(), re.M))
    # auditwheel's names have a piece of the digest in them: libssl-59d05945.so.3.
    stems = {name.split(".so")[0] for name in listed}
    for path in [*(tree / "alula.libs").iterdir(), *(tree / "alula/_prefix/lib/vendor").iterdir()]:
        stem = re.sub(r"-[0-9a-f]{8}(?=\.|$)", "", path.name.split(".so")[0])
        stem = re.sub(r"-0\.\d{3}$", "", stem)  # libelf.so.1 is a link to libelf-0.188.so
        assert stem in stems, path.name
    for notice in listed.values():
        text = (folder / notice).read_text(errors="replace")
        assert len(text) > 500
        for name in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text):
            assert (folder / f"common-licenses-{name}.txt").is_file(), (notice, name)
    assert "Apache License" in (folder / "LICENSE").read_text()


def test_nothing_tells_where_it_was_built(tree, root):
    for path in objects(tree):
        assert str(root).encode() not in path.read_bytes(), path.name


def test_built_again_elsewhere_it_is_the_same(wheel, root, build, tmp_path):
    """Another folder, another umask, another time of day; and files in the folder that are not the project's."""
    source = tmp_path / "elsewhere"
    names = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if not (root / name).exists():
            continue
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, source / name)
    epoch = zipfile.ZipFile(wheel).getinfo("alula/__init__.py").date_time
    stamp = subprocess.run(["date", "-u", "-d", "%d-%02d-%02d %02d:%02d:%02d" % epoch, "+%s"], capture_output=True, text=True,
                           check=True).stdout.strip()
    for folder in ("python/alula/__pycache__", "python/hook/__pycache__"):
        (source / folder).mkdir()
        (source / folder / "left.pyc").write_text("over")
    os.symlink(build / "venv-wheel", tmp_path / "venv-wheel")
    got = subprocess.run(["sh", "-c", "umask 077 && exec tools/wheel \"$0\"", tmp_path / "dist"], cwd=source, text=True,
                         capture_output=True, timeout=500, check=False,
                         env={**os.environ, "BUILD": str(tmp_path), "SOURCE_DATE_EPOCH": stamp})
    assert got.returncode == 0, got.stdout + got.stderr
    again = next((tmp_path / "dist").glob("*.whl"))
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as two:
        assert [name for name in one.namelist() if name not in two.namelist() or one.read(name) != two.read(name)] == []
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()
