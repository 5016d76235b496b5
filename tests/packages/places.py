# SPDX-License-Identifier: Apache-2.0
"""Systems to install on: this one, and Debians of their own in a folder (mmdebstrap, chroot in a mount namespace)."""

import os
import pathlib
import subprocess

# /proc and /dev/shm for the one command, gone with it; the folder itself keeps nothing mounted.
ENTER = """set -e
mount -t proc proc "$1/proc"
mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm"
root=$1; shift
exec chroot "$root" "$@"
"""


class Here:
    """This system, in a scratch folder."""

    root = pathlib.Path("/")

    def __init__(self, scratch):
        self.scratch = scratch

    def command(self, words):
        return [str(word) for word in words]

    def run(self, *words, check=True, timeout=120, **env):
        full = {key: value for key, value in os.environ.items() if not key.startswith(("ALULA_", "PIP_", "PYTHON"))}
        got = subprocess.run(self.command(words), capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                             cwd=self.root / str(self.scratch).lstrip("/"), env={**full, "LC_ALL": "C.UTF-8", **env})
        assert not check or got.returncode == 0, f"{words}: {got.returncode}\n{got.stdout}\n{got.stderr}"
        return got

    def path(self, inside):
        """The file here that has the name `inside` there."""
        return self.root / str(inside).lstrip("/")

    def files(self, *folders):
        """All but folders: pip leaves empty ones of share/ behind, whatever the package."""
        return sorted(str(path) for folder in folders for path in self.path(folder).rglob("*")
                      if path.is_symlink() or not path.is_dir())


class Chroot(Here):
    def __init__(self, root):
        super().__init__("/root")
        self.root = root

    def command(self, words):
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(self.root), *map(str, words)]


def make(folder, suite, packages):
    """A minimal Debian. The mirror may be a snapshot, whose dates are past."""
    got = subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--aptopt=Acquire::Check-Valid-Until \"false\"",
                          "--include=" + ",".join(packages), suite, str(folder), "http://deb.debian.org/debian"],
                         capture_output=True, text=True, check=False, timeout=400)
    assert got.returncode == 0, got.stderr[-3000:]
    return Chroot(folder)
