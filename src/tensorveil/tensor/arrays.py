"""Dense numpy arrays and scipy sparse matrices in and out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError, MemoryLimitError
from tensorveil.tensor import checks
from tensorveil.tensor.observed import ObservedTensor


def dense_to_tensor(array: ArrayLike, mask: ArrayLike | None, missing: float, **options: Any) -> ObservedTensor:
    """Return the observed cells of a dense array: those the mask keeps, or those without the missing value."""
    cells = np.ma.getdata(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    if isinstance(array, np.ma.MaskedArray) and mask is None:
        mask = ~np.ma.getmaskarray(array)
    if cells.dtype.kind not in "iufb":
        raise InputError("array must hold numbers. Convert it to floats.")
    checks.check_order(cells.ndim, "array")
    if not cells.size:
        raise InputError("array must hold at least one cell; got an empty input.")
    observed = _observed_cells(cells, mask, missing)
    columns = np.empty((cells.ndim, int(np.count_nonzero(observed))), np.int32)
    if not columns.shape[1]:
        raise InputError("array must hold at least one observed cell; mask or missing leaves none.")
    for axis, column in enumerate(np.nonzero(observed)):
        columns[axis] = column
    tensor = ObservedTensor.from_columns(columns, cells[observed], cells.shape, **options)
    if mask is not None or math.isnan(missing):
        return tensor
    return tensor.with_origin(replace(tensor.origin, missing_value=float(missing)))


def _observed_cells(cells: NDArray[Any], mask: ArrayLike | None, missing: float) -> NDArray[np.bool_]:
    """Return which cells are observed."""
    if mask is not None:
        observed = np.asarray(mask)
        if observed.dtype != bool or observed.shape != cells.shape:
            raise InputError("mask must be a boolean array of the array's shape, True where observed.")
        return observed
    if not isinstance(missing, int | float | np.number):
        raise InputError("missing must be the number that marks missing cells. Try missing=0 or math.nan.")
    if math.isnan(missing):
        return np.asarray(~np.isnan(cells)) if cells.dtype.kind == "f" else np.ones(cells.shape, bool)
    return np.asarray(cells != missing)


def sparse_to_tensor(matrix: Any, **options: Any) -> ObservedTensor:
    """Return the stored entries of a scipy sparse matrix or array, explicit zeros included."""
    import scipy.sparse

    if not scipy.sparse.issparse(matrix):
        raise InputError("matrix must be a scipy.sparse matrix or array. Use from_dense for arrays.")
    coo = matrix.tocoo()
    checks.check_order(len(coo.shape), "matrix")
    if not coo.nnz:
        raise InputError("matrix must store at least one entry; got an empty input.")
    columns = list(coo.coords) if hasattr(coo, "coords") else [coo.row, coo.col]
    packed = np.array(columns, np.int32)
    tensor = ObservedTensor.from_columns(packed, np.array(coo.data), coo.shape, **options)
    # Stored zeros are observed, but most ways to make a sparse matrix store none.
    return tensor.with_origin(replace(tensor.origin, missing_value=0.0))


def tensor_to_dense(tensor: ObservedTensor, fill: float, max_bytes: int) -> NDArray[Any]:
    """Return the whole array, with `fill` in the missing cells."""
    if math.prod(tensor.shape) * tensor.values.dtype.itemsize > max_bytes:
        raise MemoryLimitError(
            f"the dense array would need more than max_bytes={max_bytes}. Raise max_bytes, or work on the "
            "entries: tensor.coords and tensor.values."
        )
    array = np.full(tensor.shape, fill, tensor.values.dtype)
    array[tuple(tensor.columns)] = tensor.values
    return array


def tensor_to_scipy(tensor: ObservedTensor) -> Any:
    """Return a scipy COO array; only for order 2, where every scipy version agrees on the class."""
    import scipy.sparse

    if tensor.order != 2:
        raise InputError(f"to_scipy needs a tensor of order 2; got order {tensor.order}. Try to_arrow().")
    return scipy.sparse.coo_array((tensor.values.copy(), tuple(tensor.columns.copy())), shape=tensor.shape)
