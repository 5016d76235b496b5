# SPDX-License-Identifier: Apache-2.0
"""What alula raises for its own reasons."""


class AlulaError(RuntimeError):
    """Something of alula's is not there or does not answer; the message says what, and what to do."""
