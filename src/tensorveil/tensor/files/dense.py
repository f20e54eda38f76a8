"""Dense arrays in files: NPY (memory-mapped), NPZ, Parquet (a matrix), PNG (grey or colours)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, MissingDependencyError

Array = NDArray[Any]
ENDINGS = (".npy", ".npz", ".parquet", ".png")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense:
    """An array from a file, and the names of its columns if it was a table."""

    values: Array
    columns: tuple[str, ...] | None = None


def dense_kind(path: Path) -> str:
    """Give the kind of a file by its ending, or refuse."""
    kind = path.suffix.lower()
    if kind not in ENDINGS:
        raise InputError(f"{path.name} must end in {', '.join(ENDINGS)}.")
    return kind


def read_dense(path: Path, variable: str | None = None) -> Dense:
    """Read an array; of an NPZ archive the only one, or the one named ``variable``. Nothing is unpickled."""
    kind = dense_kind(path)
    if not path.is_file():
        raise InputError(f"there is no file {path.name}. Check the path.")
    if kind == ".png":
        return Dense(values=_read_image(path))
    if kind == ".parquet":
        return _read_parquet(path)
    found: Any = None
    with suppress(ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        found = np.load(path, mmap_mode="r" if kind == ".npy" else None, allow_pickle=False)
        if kind == ".npz":
            found = dict(found)
    if found is None:
        raise InputError(f"{path.name} cannot be read as {kind[1:]} without pickled objects.")
    return Dense(values=_numeric(found if kind == ".npy" else _member(found, path, variable), path))


def _member(arrays: dict[str, Array], path: Path, variable: str | None) -> Array:
    if variable is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if variable not in arrays:
        raise InputError(f"{path.name} holds {len(arrays)} arrays. Name one of them with variable='...'.")
    return arrays[variable]


def _numeric(values: Array, path: Path) -> Array:
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path.name} must hold numbers; it holds {values.dtype}.")
    return values


def _read_parquet(path: Path) -> Dense:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        columns = [np.asarray(column.to_numpy()) for column in table.columns]
    except (pa.ArrowException, OSError, ValueError):
        raise InputError(f"{path.name} cannot be read as Parquet.") from None
    if not columns or any(column.dtype.kind not in "biuf" for column in columns):
        raise InputError(f"{path.name} must have numeric columns only: a row per tensor or slice, a column per entry.")
    return Dense(values=np.stack(columns, axis=1), columns=tuple(table.column_names))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("PNG files need Pillow: pip install 'tensorveil[images]'") from error
    return Image


def _read_image(path: Path) -> Array:
    image: Any = _pillow()
    try:
        with image.open(path) as opened:
            wanted = opened if opened.mode in ("L", "RGB") else opened.convert("RGB" if "RGB" in opened.mode else "L")
            return np.array(wanted)
    except OSError:
        raise InputError(f"{path.name} cannot be read as an image.") from None


def write_dense(path: Path, values: Array, kind: str, columns: Sequence[str] | None = None) -> None:
    """Write an array under a (temporary) name as a kind of file. PNG rounds and cuts to 0 .. 255."""
    if kind == ".npy":
        with path.open("wb") as file:
            np.save(file, values, allow_pickle=False)
    elif kind == ".npz":
        with path.open("wb") as file:
            np.savez_compressed(file, values=values)
    elif kind == ".parquet":
        _write_parquet(path, values, columns)
    else:
        if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
            raise InputError("a PNG holds one image, (rows, columns) or (rows, columns, 3). Write .npy instead.")
        pixels = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        _pillow().fromarray(pixels).save(path, format="PNG")


def _write_parquet(path: Path, values: Array, columns: Sequence[str] | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if values.ndim != 2:
        raise InputError("a Parquet file holds a matrix. Write .npy instead.")
    names = [f"x{k}" for k in range(values.shape[1])] if columns is None else list(columns)
    pq.write_table(pa.table({name: values[:, k] for k, name in enumerate(names)}), path)
