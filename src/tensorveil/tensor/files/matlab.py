"""MATLAB .mat: versions 4 and 5 by `mat_elements`, version 7.3 (HDF5) through h5py in a process of its own.

A variable is either a dense array, or a matrix of columns: 1-based indices, then the value. Our own files
hold `subs`, `vals` and `size`, the layout of an sptensor.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import checks
from tensorveil.tensor.arrays import dense_to_tensor
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.files.mat_elements import Variables, read_mat
from tensorveil.tensor.observed import ObservedTensor

HDF5_MAGIC = b"\x89HDF"


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read an sptensor-like trio, a matrix of index and value columns, or a dense array."""
    variables = load_variables(path)
    base = 1 if layout.index_base is None else layout.index_base
    if layout.variable is None and {"subs", "vals"} <= variables.keys():
        subs, vals, size = variables["subs"], variables["vals"], variables.get("size")
        if subs is None or vals is None or (size is None and "size" in variables):
            raise InputError("subs, vals and size must hold real numbers. Name another variable, or convert them.")
        options.setdefault("shape", None if size is None else size.ravel().tolist())
        return _from_rows(subs, vals, base, layout, options)
    array = _pick(variables, layout.variable)
    if layout.value is not None:
        column = _value_column(layout.value, array)
        return _from_rows(np.delete(array, column, axis=1), array[:, column], base, layout, options)
    unsuited = {"shape", "duplicates", "out_of_range"} & options.keys()
    if unsuited:
        raise InputError(
            f"{', '.join(sorted(unsuited))} does not apply to a dense MATLAB array. Mark missing cells with "
            "missing_value=..., or pass value='last' if the columns are indices and a value."
        )
    options.pop("missing", None)  # a dense array marks missing cells by a value
    return dense_to_tensor(array, None, layout.missing_value, modes=layout.modes, **options)


def _from_rows(
    coords: NDArray[Any], values: NDArray[Any], base: int, layout: Layout, options: dict[str, Any]
) -> ObservedTensor:
    drops = options.get("out_of_range") == "drop"
    if coords.ndim != 2 or (coords.size == 0 and not drops):
        raise InputError("the index columns must be a matrix with one row per entry; got an empty input.")
    if values.size != len(coords):
        raise InputError("there must be one value per row of indices; the lengths differ.")
    columns: Any = [column.astype(np.float64) - base for column in coords.T]
    columns = columns if drops else checks.pack_columns(columns)
    return ObservedTensor.from_columns(columns, np.array(values).ravel(), modes=layout.modes, **options)


def _value_column(value: str, array: NDArray[Any]) -> int:
    """Return the column that 'last', 'first' or a number, counted from 0, names."""
    if array.ndim != 2:
        raise InputError("value names a column, so the variable must be a matrix of index and value columns.")
    if value in ("last", "first"):
        return array.shape[1] - 1 if value == "last" else 0
    if not value.isdigit() or int(value) >= array.shape[1]:
        raise InputError(f"value must be 'last', 'first' or the number of a column; got {value!r}.")
    return int(value)


def _pick(variables: Variables, name: str | None) -> NDArray[Any]:
    """Return the named variable, or the only one."""
    numeric = {key: item for key, item in variables.items() if item is not None}
    if name is not None:
        if name not in numeric:
            raise InputError(f"variable must be a numeric variable of the file; there is none called {name!r}.")
        return numeric[name]
    if len(numeric) != 1:
        raise InputError(
            "variable must be named: the file does not hold exactly one numeric array. Try variable='tensor'."
        )
    return next(iter(numeric.values()))


def load_variables(path: Path) -> Variables:
    """Return all numeric arrays of the file, in MATLAB's axis order, and the names of what else it holds."""
    with path.open("rb") as file:
        head = file.read(516)
    # Version 7.3 files start with a 512-byte MATLAB banner before the HDF5 mark.
    if head.startswith(HDF5_MAGIC) or head[512:516] == HDF5_MAGIC:
        from tensorveil.tensor.files.hdf5 import read_hdf5

        return read_hdf5(path)
    if not head:
        raise _damaged_file()
    try:
        return read_mat(path)
    except (zlib.error, UnicodeDecodeError, struct.error):
        pass
    raise _damaged_file()


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return all numeric arrays of the file, in MATLAB's axis order."""
    return {name: array for name, array in load_variables(path).items() if array is not None}


def _damaged_file() -> InputError:
    return InputError("path must be a readable MATLAB .mat file. The file is damaged or has another format.")


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write the sptensor trio, in version 5 format. It has no place for labels, so they are refused."""
    import scipy.io

    if any(mode.labels is not None for mode in tensor.modes):
        raise InputError(
            "format 'mat' cannot hold labels. Write .npz or .parquet, or drop them: "
            "tensor.with_modes(None).write(path)."
        )
    trio = {
        "subs": tensor.coords.astype(np.float64) + 1,
        "vals": tensor.values[:, None],
        "size": np.array(tensor.shape, np.float64)[None],
    }
    with path.open("wb") as file:
        scipy.io.savemat(file, trio, do_compression=True)


FORMAT = Format(name="mat", endings=(".mat",), read=read_tensor, write=write_tensor)
