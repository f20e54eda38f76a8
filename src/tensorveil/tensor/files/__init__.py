"""Tensors in files: one module per format, and one table of formats, which is made of them."""

from tensorveil.tensor.files.formats import read, write

__all__ = ["read", "write"]
