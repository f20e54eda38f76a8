"""The two ways entries are arranged: tiles for stochastic gradient descent, compressed rows for least squares."""

from tensorveil.kernels.padded import Padded, pad, unpad
from tensorveil.kernels.rows import Rows, build_all_rows, build_rows
from tensorveil.kernels.tiles import Tiles, build_tiles

__all__ = ["Padded", "Rows", "Tiles", "build_all_rows", "build_rows", "build_tiles", "pad", "unpad"]
