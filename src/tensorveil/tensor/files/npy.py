"""NumPy's .npy: one dense array, memory-mapped when read, so that it may be larger than the memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor.files.file_format import Array, DenseFile, Format


def read_array(path: Path, variable: str | None) -> DenseFile:
    """Map the array; pickled objects are refused."""
    found = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path.name} cannot be read as npy without pickled objects.")
    return DenseFile(values=check_numeric(found, path))


def check_numeric(values: Array, path: Path) -> Array:
    """Return an array of numbers; refuse any other."""
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path.name} must hold numbers; it holds {values.dtype}.")
    return values


def write_array(values: Array, path: Path, columns: Sequence[str] | None) -> None:
    """Write the array; an NPY file holds no names of columns."""
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)


def create_array(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Make an array of floats on disk, to be filled chunk by chunk; all of the room that it takes is taken now.

    Writing into a mapped file that the disk has no room for would kill the process.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    with path.open("rb+") as file, contextlib.suppress(AttributeError):  # not on every system
        os.posix_fallocate(file.fileno(), 0, max(1, path.stat().st_size))
    return array


FORMAT = Format(
    name="npy",
    endings=(".npy",),
    magic=(b"\x93NUMPY",),
    read_array=read_array,
    write_array=write_array,
    create_array=create_array,
)
