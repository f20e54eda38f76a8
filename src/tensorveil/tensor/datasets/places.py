"""Where a dataset's files are: the data folder, and archives in it."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import DataNotFoundError, InputError

VARIABLE = "TENSORVEIL_DATA"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A file, relative to the data folder; `inside` is a prefix within a zip archive, or None."""

    path: str
    inside: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A place that exists."""

    path: Path
    inside: str | None

    def read_bytes(self, name: str | None = None) -> bytes:
        """Read this file or, given a name, the file of that name beside it in the folder or archive."""
        if self.inside is None:
            file = self.path if name is None else self.path.with_name(name)
            if file.is_file():
                return file.read_bytes()
            raise DataNotFoundError(f"{file.name} is expected beside {self.path.name}. Put the file there.")
        member = self.inside if name is None else f"{self.inside.rpartition('/')[0]}/{name}"
        data = None
        with suppress(zipfile.BadZipFile, KeyError, OSError), zipfile.ZipFile(self.path) as archive:
            data = archive.read(member)
        if data is None:
            raise DataNotFoundError(f"{member} is expected inside {self.path.name}. Fetch the archive again.")
        return data

    def read_arrays(self, *names: str) -> Mapping[str, NDArray[Any]]:
        """Read the arrays of the file, which must have these names among them."""
        arrays = self._load()
        for name in names:
            if name not in arrays:
                raise InputError(f"{self.path.name} must hold an array called {name}. Fetch the file again.")
        return arrays

    def _load(self) -> Mapping[str, NDArray[Any]]:
        """Load the arrays of an .npz, the array of an .npy (as `tensor`), or the numeric variables of a .mat."""
        if self.path.suffix == ".mat":
            from tensorveil.tensor.files.matlab import load_arrays

            return load_arrays(self.path)
        arrays = None
        with suppress(ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
            loaded = np.load(io.BytesIO(self.path.read_bytes()), allow_pickle=False)
            arrays = {"tensor": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
        if arrays is None:
            raise InputError(f"{self.path.name} is damaged or has another format. Fetch the file again.")
        return arrays

    def read_array(self, *names: str) -> NDArray[Any]:
        """Read the first of these arrays that the file holds."""
        arrays = self.read_arrays()
        for name in names:
            if name in arrays:
                return arrays[name]
        raise InputError(f"{self.path.name} must hold an array called {names[0]}. Fetch the file again.")


def data_folder(folder: str | Path | None) -> Path | None:
    """Return the folder given, or that of the environment variable."""
    if folder is not None:
        return Path(folder)
    from_environment = os.environ.get(VARIABLE)
    return Path(from_environment) if from_environment else None


def find(folder: Path | None, places: tuple[Place, ...]) -> Source | None:
    """Return the first place that exists."""
    if folder is None:
        return None
    for place in places:
        if (folder / place.path).is_file():
            return Source(path=folder / place.path, inside=place.inside)
    return None


def not_found(name: str, folder: Path | None, places: tuple[Place, ...]) -> DataNotFoundError:
    """Return the error that says which file is expected where, and how to name the folder."""
    expected = " or ".join(place.path for place in places)
    if folder is None:
        remedy = f"Set {VARIABLE} to the folder that holds it, or pass folder=..."
    else:
        remedy = f"It is not in the data folder {str(folder)!r}; put it there, or change {VARIABLE} or folder=..."
    return DataNotFoundError(f"dataset {name!r} needs the file {expected}. {remedy}")
