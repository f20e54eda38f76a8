"""Colour images as one NumPy archive: x_train, x_test (n, 32, 32, 3) bytes, y_train, y_test classes 0 to 9."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from tensorveil.learning.loaders.parts import Parts, damage_error
from tensorveil.learning.samples import Samples

BOUNDS = (0.0, 255.0)


def read_images(path: Path) -> Parts:
    """Read both parts; channels come first here, as in the official files."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = {name: archive[f"x_{name}"] for name in ("train", "test")}
            labels = {name: archive[f"y_{name}"] for name in ("train", "test")}
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        raise damage_error(path) from None
    parts = []
    for name, images in found.items():
        y = np.asarray(labels[name]).reshape(-1)
        shaped = images.ndim == 4 and images.shape[1:] == (32, 32, 3) and images.dtype == np.uint8
        if not shaped or len(y) != len(images) or not len(y) or y.dtype.kind not in "iu" or y.min() < 0 or y.max() > 9:
            raise damage_error(path)
        parts.append(Samples(x=np.ascontiguousarray(np.moveaxis(images, -1, 1)), y=y.astype(np.int64), classes=10))
    return Parts(train=parts[0], test=parts[1], bounds=BOUNDS)
