"""Tensors in files: one module per format, one table of formats."""

from tensorveil.tensor.files.formats import read, write

__all__ = ["read", "write"]
