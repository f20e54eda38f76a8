"""CIFAR-10: the official binary batches, and a subset of JPEG images in a zip archive, train/CLASS/*.jpg."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from tensorveil.errors import DataNotFoundError, MissingDependencyError
from tensorveil.learning.loaders.parts import Parts, damage_error
from tensorveil.learning.samples import Samples
from tensorveil.tensor.files.archives import open_archive

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + 3 * 32 * 32  # a label, then red, green and blue
BOUNDS = (0.0, 255.0)
SIZE = (32, 32)


def read_binary(folder: Path) -> Parts:
    """Read data_batch_1.bin to data_batch_5.bin, as many as there are, and test_batch.bin."""
    batches = sorted(folder.glob("data_batch_*.bin"))
    train = [_batch(path) for path in batches]
    whole = Samples(x=np.concatenate([p.x for p in train]), y=np.concatenate([p.y for p in train]), classes=10)
    return Parts(train=whole, test=_batch(folder / "test_batch.bin"), bounds=BOUNDS)


def _batch(path: Path) -> Samples:
    if not path.is_file():
        raise DataNotFoundError(f"{path.name} is expected in {path.parent.name}/. Put the file there.")
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    if len(content) == 0 or len(content) % RECORD:
        raise damage_error(path)
    rows = content.reshape(-1, RECORD)
    if rows[:, 0].max() > 9:
        raise damage_error(path)
    return Samples(x=rows[:, 1:].reshape(-1, 3, 32, 32), y=rows[:, 0].astype(np.int64), classes=10)


def read_subset(folder: Path) -> Parts:
    """Read the archive cifar10_jpeg_12000.zip: folders train and test, one folder per class within."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("images need Pillow. Install it: pip install 'tensorveil[images]'") from error
    path = folder / "cifar10_jpeg_12000.zip"
    found: dict[str, list[tuple[np.ndarray, int]]] = {"train": [], "test": []}
    try:
        with open_archive(path) as archive:
            for name in sorted(archive.namelist()):
                place = PurePosixPath(name)
                if place.suffix != ".jpg" or len(place.parts) < 3:
                    continue
                part, kind = place.parts[-3:-1]
                opened = Image.open(io.BytesIO(archive.read(name)), formats=["JPEG"])
                if opened.size != SIZE:
                    raise damage_error(path)
                picture = np.asarray(opened.convert("RGB"))
                found[part].append((np.moveaxis(picture, -1, 0), NAMES.index(kind)))
    except (zipfile.BadZipFile, OSError, KeyError, ValueError):
        raise damage_error(path) from None
    if not found["train"] or not found["test"]:
        raise damage_error(path)
    parts = [
        Samples(x=np.stack([x for x, _ in found[name]]), y=np.array([y for _, y in found[name]]), classes=10)
        for name in ("train", "test")
    ]
    return Parts(train=parts[0], test=parts[1], bounds=BOUNDS)
