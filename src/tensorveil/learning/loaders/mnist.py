"""MNIST: the four idx files, gzipped or not. Big-endian: 0, 0, type, dimensions, sizes of 4 bytes, then the numbers."""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import DataNotFoundError
from tensorveil.learning.loaders.parts import Parts, damage_error
from tensorveil.learning.samples import Samples
from tensorveil.tensor.files.streams import open_for_reading

BYTES = 8  # the type code of unsigned bytes


def read(folder: Path) -> Parts:
    """Read both parts."""
    return Parts(train=_part(folder, "train"), test=_part(folder, "t10k"), bounds=(0.0, 255.0))


def _part(folder: Path, name: str) -> Samples:
    images, labels = read_idx(folder / f"{name}-images-idx3-ubyte"), read_idx(folder / f"{name}-labels-idx1-ubyte")
    if images.ndim != 3 or labels.shape != (len(images),):
        raise damage_error(folder / f"{name}-images-idx3-ubyte")
    return Samples(x=images, y=labels.astype(np.int64), classes=10)


def read_idx(path: Path) -> NDArray[Any]:
    """Read an idx file of bytes, from NAME or NAME.gz."""
    packed = path.with_name(f"{path.name}.gz")
    if not path.is_file() and not packed.is_file():
        raise DataNotFoundError(f"{path.name} or {packed.name} is expected in {path.parent.name}/. Put it there.")
    try:
        content = open_for_reading(path if path.is_file() else packed).read()
        zero, kind, dimensions = struct.unpack_from(">HBB", content)
        sizes = struct.unpack_from(f">{dimensions}I", content, 4)
    except (OSError, EOFError, zlib.error, struct.error):
        raise damage_error(path) from None
    start = 4 + 4 * dimensions
    if zero != 0 or kind != BYTES or len(content) != start + math.prod(sizes):
        raise damage_error(path)
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(sizes)
