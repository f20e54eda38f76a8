"""Users' compiled sums against plain numpy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.kernels import users
from tests.users_reference import add_bounded


def test_sums_by_user() -> None:
    out = np.empty(2)
    users.sum_by_user(np.array([0, 2, 2]), np.array([1.0, 2.0]), out)
    assert out.tolist() == [3.0, 0.0]


def sum_with(add: Any, *given: Any, size: int, rows: int) -> Any:
    """Sum into zeros, with room for a user who touches every row, and check that what must be left as it was is."""
    out, places = np.zeros(size, dtype=np.int64), np.full(rows, -1)
    add(*given, places, np.empty(rows, np.int64), np.empty(size), np.empty(size, np.int64), out)
    assert np.all(places == -1)
    return out


def test_rows_are_mixed_one_by_one() -> None:
    rng = np.random.default_rng(0)
    rows, mixing = rng.normal(size=(7, 5)), rng.normal(size=(5, 3))
    whole, alone = np.empty((7, 3)), np.empty((1, 3))
    users.mix_columns(rows, mixing, whole)
    np.testing.assert_allclose(whole, rows @ mixing, rtol=1e-12)
    for p in range(7):
        users.mix_columns(rows[p : p + 1], mixing, alone)
        assert np.array_equal(alone[0], whole[p])


@given(seed=st.integers(0, 10**6), width=st.integers(1, 3), scale=st.sampled_from([1e-3, 1.0, 1e6]))
def test_bounded_sums_are_those_of_the_definition(seed: int, width: Any, scale: Any) -> None:
    rng = np.random.default_rng(seed)
    pointers = np.array([0, 4, 4, 9])
    columns = rng.integers(0, 3, (2, 9)).astype(np.int32)
    offsets, scales = np.array([0, 3]), np.array([1.0, 0.9, 0.8, 0.5, 0.4, 0.3])
    parts, own = scale * rng.normal(size=(9, width)), scale * rng.normal(size=(3, 2))
    size, limit = 6 * width + 2, 1 << 24
    given = (pointers, columns, offsets, scales, width, parts, own, 1000.0, limit)
    outs = [sum_with(add, *given, size=size, rows=6) for add in (users.add_bounded, add_bounded)]
    assert np.abs(outs[0] - outs[1]).max() <= 3  # a step per user, where a float is rounded differently


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e308])
def test_what_is_no_number_is_left_out_or_bounded(wild: Any) -> None:
    """A state that went wrong must not make a contribution longer."""
    pointers, columns = np.array([0, 2, 3]), np.array([[0, 1, 2]], dtype=np.int32)
    parts, own = np.array([[wild], [1.0], [0.5]]), np.empty((2, 0))
    where = (np.zeros(1, int), np.ones(3), 1)
    out = sum_with(users.add_bounded, pointers, columns, *where, parts, own, 2.0, 1 << 24, size=3, rows=3)
    assert out.tolist() == [0, 0, 1]  # the other user's contribution is as it was


@pytest.mark.parametrize("per_unit", [1e200, np.inf, np.nan, 0.0, -1.0, -1e200])
def test_a_wild_scale_contributes_nothing(per_unit: Any) -> None:
    """Squares of 1e-180 are zero in floats: the length of such a vector would look like nothing."""
    pointers, columns = np.array([0, 1]), np.zeros((1, 1), dtype=np.int32)
    parts, own = np.array([[1e-180]]), np.empty((1, 0))
    where = (np.zeros(1, int), np.ones(1), 1)
    out = sum_with(users.add_bounded, pointers, columns, *where, parts, own, per_unit, 1 << 24, size=1, rows=1)
    assert out.tolist() == [0]


def test_pairs_of_equal_keys() -> None:
    pointers = np.array([0, 4, 5, 7])
    keys = np.array([1, 1, 1, 2, 2, 3, 3])
    rows, left = np.array([0, 2, 1, 0, 0, 3, 1]), np.arange(1.0, 8.0)
    found = np.empty(3, dtype=np.int64)
    users.count_pairs(pointers, keys, found)
    assert found.tolist() == [3, 0, 1]
    places, products = np.empty((1, 4), dtype=np.int64), np.empty((4, 1))
    users.fill_pairs(pointers, keys, rows, left, places, products)
    # (2, 0), (2, 1), (1, 0) of the first user; (3, 1) of the third
    assert sorted(places[0, :3].tolist()) == [1, 3, 4]
    assert places[0, 3] == 3 * 4 // 2 + 1
    assert sorted(products[:, 0].tolist()) == sorted([1.0 * 2, 1.0 * 3, 2.0 * 3, 6.0 * 7])


def test_lengths_count_repeated_rows_linearly() -> None:
    pointers, columns = np.array([0, 3, 4]), np.array([[5, 5, 1, 0], [0, 1, 1, 0]], dtype=np.int32)
    out, scratch = np.empty(2), np.zeros(8)
    users.slice_norms(pointers, columns, np.array([0, 6]), np.repeat([1.0, 2.0], [6, 2]), scratch, out)
    np.testing.assert_allclose(out, np.sqrt([2**2 + 1 + 4 * (1 + 2**2), 1 + 4]))
    assert not scratch.any()
