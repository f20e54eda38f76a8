"""The labelled data sets by name: where their files are expected, and what reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensorveil.errors import DataNotFoundError, InputError
from tensorveil.learning.loaders import cifar10, darknet, digits, imdb, mnist, svhn
from tensorveil.learning.loaders.parts import Parts
from tensorveil.tensor.datasets.places import VARIABLE, data_folder

__all__ = ["Parts", "load_samples", "samples_present"]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """``homes``: folders in the data folder, tried in order, each with a file that must be there; () needs none."""

    homes: tuple[tuple[str, str], ...]
    read: Callable[[Path], Parts]


ENTRIES = {
    "digits": _Entry(homes=(), read=digits.read),
    "mnist": _Entry(homes=(("mnist", "train-images-idx3-ubyte.gz"),), read=mnist.read),
    "cifar10": _Entry(homes=(("cifar-10-batches-bin", "data_batch_1.bin"),), read=cifar10.read_binary),
    "cifar10-subset": _Entry(homes=(("cifar10-subset", "cifar10_jpeg_12000.zip"),), read=cifar10.read_subset),
    "svhn": _Entry(homes=(("svhn", "train_32x32.mat"),), read=svhn.read),
    "imdb": _Entry(homes=(("imdb", "imdb_50k.csv.xz"), ("aclImdb", "imdb.vocab")), read=imdb.read),
    "darknet": _Entry(homes=(("darknet", "Darknet.CSV"),), read=darknet.read),
}


def samples_present(name: str, folder: str | Path | None = None) -> bool:
    """Tell whether a data set's files are in the data folder."""
    return not _entry(name).homes or _home(name, folder) is not None


def load_samples(name: str, *, folder: str | Path | None = None) -> Parts:
    """Load a labelled data set: its training and its test records.

    Parameters
    ----------
    name
        "digits", "mnist", "cifar10", "cifar10-subset", "svhn", "imdb" or "darknet".
    folder
        The data folder; by default the one that the environment variable TENSORVEIL_DATA names.

    >>> parts = load_samples("digits")
    >>> parts.train.shape, len(parts.train), len(parts.test), parts.bounds
    ((8, 8), 1347, 450, (0.0, 16.0))
    """
    entry = _entry(name)
    if not entry.homes:
        return entry.read(Path())
    home = _home(name, folder)
    if home is None:
        expected = " or ".join(f"{place}/{file}" for place, file in entry.homes)
        raise DataNotFoundError(
            f"data set {name!r} needs {expected} in the data folder. Put it there, and set {VARIABLE} or folder=..."
        )
    return entry.read(home)


def _entry(name: str) -> _Entry:
    if name not in ENTRIES:
        raise InputError(f"name must be one of {', '.join(ENTRIES)}; got {name!r}.")
    return ENTRIES[name]


def _home(name: str, folder: str | Path | None) -> Path | None:
    where = data_folder(folder)
    if where is None:
        return None
    return next((where / place for place, file in _entry(name).homes if (where / place / file).is_file()), None)
