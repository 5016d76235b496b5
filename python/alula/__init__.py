# SPDX-License-Identifier: Apache-2.0
"""alula watches LLM training on NVIDIA GPUs; this package is its Python side. `alula --help` is the program."""

__version__ = "0.1.0"
