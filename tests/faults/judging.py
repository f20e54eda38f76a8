"""Whether two things that were read are the same, in all that they hold."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

import tensorveil as tv
from tensorveil.memory import memory_limit
from tensorveil.tensor.files import hdf5, hdf5_reader


def same(one: Any, other: Any) -> bool:
    """Tell whether two things that were read are the same."""
    if isinstance(one, tv.ObservedTensor):
        names = ("shape", "bounds", "modes", "origin", "columns", "values")
        return type(one) is type(other) and all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, tv.Mode):
        return isinstance(other, tv.Mode) and one.name == other.name and same(one.labels, other.labels)
    if isinstance(one, tuple | list):
        return isinstance(other, tuple | list) and len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one) and not isinstance(one, type):
        return type(one) is type(other) and all(
            same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one)
        )
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if hasattr(one, "values") and hasattr(one, "columns"):
        return bool(np.array_equal(one.values, other.values))
    return bool(one == other)


def read_hdf5_here() -> None:
    """Read HDF5 files in this process from now on: thousands of them would take minutes, and nothing here may die."""
    hdf5.start_reader = _start_here


@contextlib.contextmanager
def _start_here(path: Path) -> Iterator[IO[bytes]]:
    out = io.BytesIO()
    try:
        hdf5_reader.write_arrays(str(path), memory_limit(), out)
    except hdf5_reader.RefusedFileError as refused:
        out.write(json.dumps({"refused": str(refused)}).encode() + b"\n")
    except Exception:  # as where the process dies of it
        out.truncate()
    out.seek(0)
    yield out
