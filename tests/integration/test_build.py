# SPDX-License-Identifier: Apache-2.0
"""What the build promises: exported names, needed libraries, one version number."""

import re
import subprocess


def test_version_is_the_project_version(alula, root):
    version = re.search(r"version: '([^']+)'", (root / "meson.build").read_text()).group(1)
    result = alula("--version")
    assert result.returncode == 0
    assert version in result.stdout


def test_needed_libraries_and_exports_are_pinned(build, root):
    result = subprocess.run([root / "tools" / "check-needed", build], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_changelog_names_the_version(root):
    version = re.search(r"version: '([^']+)'", (root / "meson.build").read_text()).group(1)
    assert f"## [{version}]" in (root / "CHANGELOG.md").read_text()
