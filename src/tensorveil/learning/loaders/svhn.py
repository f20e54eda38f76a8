"""SVHN, cropped digits: train_32x32.mat and test_32x32.mat, X of 32 x 32 x 3 x n bytes, y from 1 to 10 (10 is 0)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensorveil.errors import DataNotFoundError
from tensorveil.learning.loaders.parts import Parts, damage_error
from tensorveil.learning.samples import Samples


def read(folder: Path) -> Parts:
    """Read both parts."""
    return Parts(train=_part(folder / "train_32x32.mat"), test=_part(folder / "test_32x32.mat"), bounds=(0.0, 255.0))


def _part(path: Path) -> Samples:
    from tensorveil.tensor.files.matlab import load_arrays

    if not path.is_file():
        raise DataNotFoundError(f"{path.name} is expected in {path.parent.name}/. Put the file there.")
    found = load_arrays(path)
    if "X" not in found or "y" not in found or found["X"].ndim != 4 or found["X"].shape[:3] != (32, 32, 3):
        raise damage_error(path)
    images, labels = np.moveaxis(found["X"], (3, 2), (0, 1)), np.asarray(found["y"]).reshape(-1).astype(np.int64)
    if len(labels) != len(images) or labels.min() < 1 or labels.max() > 10:
        raise damage_error(path)
    return Samples(x=images.astype(np.uint8), y=labels % 10, classes=10)
