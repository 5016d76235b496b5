# SPDX-License-Identifier: Apache-2.0
"""python -m alula.plugin: prints the file that ms-swift's --external_plugins takes."""

import os


def path() -> str:
    # In a folder of its own: ms-swift puts that folder in front of sys.path.
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_swift", "alula_swift_plugin.py")


if __name__ == "__main__":
    print(path())
