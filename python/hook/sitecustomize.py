# SPDX-License-Identifier: Apache-2.0
"""Found first on PYTHONPATH under `alula run`: starts the hook, leaves sys.path as it would be without it, and gives way
to the sitecustomize that would have been found otherwise."""

import sys


def _alula_start():
    import os
    here = os.path.dirname(__file__)
    try:
        import _alula_hook
        _alula_hook.install()
    except Exception:
        pass  # never the host's business
    sys.path[:] = [p for p in sys.path if p != here and os.path.abspath(p or ".") != here]


_alula_start()
_alula_self = sys.modules.pop("sitecustomize", None)
try:
    # The next one takes this one's place in sys.modules; what it raises, `site` reports as always.
    import sitecustomize  # noqa: F401
except ImportError as error:
    if _alula_self is not None:
        sys.modules.setdefault("sitecustomize", _alula_self)
    if getattr(error, "name", None) != "sitecustomize":
        raise
