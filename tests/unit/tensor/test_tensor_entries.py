"""Entries in blocks: every entry once, in order, and sums that do not depend on where the blocks are cut."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.entries import MemoryEntries, mean_square, mean_value


def entries(n: int = 1000, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(n)
    columns = np.stack([rng.integers(0, size, n) for size in (30, 20, 10)]).astype(np.int32)
    return MemoryEntries(columns=columns, values=rng.normal(2.0, 1.0, n).astype(dtype), shape=(30, 20, 10))


def test_a_tensor_gives_its_own_arrays_as_one_block() -> None:
    tensor = ObservedTensor([[0, 1], [2, 0]], [4.0, 3.0], shape=(3, 2))
    (block,) = tensor.entries.blocks()
    assert block.columns is tensor.columns
    assert block.values is tensor.values
    assert (tensor.entries.shape, tensor.entries.n_entries) == ((3, 2), 2)
    assert tensor.entries.load().values is tensor.values


@given(st.integers(1, 1200))
def test_blocks_hold_every_entry_once_in_order(most: Any) -> None:
    whole = entries()
    blocks = list(whole.blocks(most))
    assert max(len(block.values) for block in blocks) <= most
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), whole.values)
    np.testing.assert_array_equal(np.concatenate([block.columns for block in blocks], axis=1), whole.columns)


def test_a_block_holds_something() -> None:
    with pytest.raises(InputError, match="most must be at least 1"):
        list(entries().blocks(0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_means_over_one_block_are_those_of_the_arrays_to_the_last_bit(dtype: Any) -> None:
    whole = entries(50_000, dtype)
    center = float(whole.values.mean(dtype=np.float64))
    assert mean_value(whole) == center
    assert mean_square(whole, center) == np.mean((whole.values.astype(np.float64) - center) ** 2)
