"""A number that marks missing cells and is a value as well: positions, which are public, then tell who has this value.

In unit value the number of entries and the list of filled cells are published. With zeros taken for missing cells and
bounds from 0 to 5, whoever changes a value to 0 takes an entry away.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value"}


def ratings(value: float) -> Any:
    cells = np.random.default_rng(0).integers(1, 6, (8, 6)).astype(float)
    cells[2, 3] = value
    return cells


def test_which_cells_are_missing_must_not_depend_on_values(tmp_path: Path) -> None:
    tensors = [tv.ObservedTensor.from_dense(ratings(value), missing=0) for value in (0.0, 3.0)]
    assert tensors[0].n_entries != tensors[1].n_entries
    for tensor in tensors:
        tensor.write(tmp_path / "tensor.npz")
        for again in (tensor, tensor.with_values(tensor.values), tv.read(tmp_path / "tensor.npz")):
            with pytest.raises(tv.InputError, match="outside the bounds"):
                tv.PrivateCP(1, bounds=(0, 5), **PROMISE).fit(again)


def test_a_dense_file_too(tmp_path: Path) -> None:
    import scipy.io

    scipy.io.savemat(tmp_path / "ratings.mat", {"ratings": ratings(0.0)})
    tensor = tv.read(tmp_path / "ratings.mat", missing_value=0.0)
    with pytest.raises(tv.InputError, match="outside the bounds"):
        tv.PrivateCP(1, bounds=(0, 5), **PROMISE).fit(tensor)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_sparse_matrix_too(value: float) -> None:
    import scipy.sparse

    tensor = tv.ObservedTensor.from_scipy(scipy.sparse.csr_array(ratings(value)))
    with pytest.raises(tv.InputError, match="outside the bounds"):
        tv.PrivateCP(1, bounds=(0, 5), **PROMISE).fit(tensor)
    assert tv.PrivateCP(1, bounds=(1, 5), **PROMISE).fit(tensor).guarantee_.private


def test_a_number_that_is_no_value_may_mark_missing_cells() -> None:
    for cells in (tv.ObservedTensor.from_dense(ratings(0.0), missing=0), tv.ObservedTensor.from_dense(ratings(np.nan))):
        assert tv.PrivateCP(1, bounds=(1, 5), **PROMISE).fit(cells).guarantee_.private
    shown = tv.ObservedTensor.from_dense(ratings(0.0), mask=np.ones((8, 6), bool), missing=0)
    assert tv.PrivateCP(1, bounds=(0, 5), **PROMISE).fit(shown).guarantee_.private
