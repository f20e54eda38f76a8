"""The tensor itself: attributes, ownership, choosing entries, labels."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError, MemoryLimitError
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor import keys as tensor_keys


@pytest.fixture
def tensor() -> Any:
    coords = [[0, 0, 1], [1, 2, 0], [1, 0, 0]]
    return ObservedTensor(coords, [4.0, 2.5, 1.0], (2, 3, 2), (1, 5), ["user", "film", "day"])


def test_attributes(tensor: Any) -> None:
    assert tensor.shape == (2, 3, 2)
    assert tensor.order == 3
    assert tensor.n_entries == len(tensor) == 3
    assert tensor.density == 3 / 12
    assert tensor.bounds == (1.0, 5.0)
    assert [mode.name for mode in tensor.modes] == ["user", "film", "day"]
    assert tensor.columns.dtype == np.int32
    assert tensor.columns.flags.c_contiguous
    assert tensor.coords.tolist() == [[0, 0, 1], [1, 2, 0], [1, 0, 0]]
    assert np.shares_memory(tensor.coords, tensor.columns)
    assert tensor.values.dtype == np.float64


def test_arrays_are_read_only(tensor: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        tensor.columns[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        tensor.coords[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        tensor.values[0] = 1


def test_constructor_copies_what_the_caller_can_write() -> None:
    columns, values = np.array([[0, 1], [1, 0]], np.int32), np.array([1.0, 2.0])
    tensor = ObservedTensor(columns.T, values)
    columns[:] = 0
    values[:] = 0
    assert tensor.columns.tolist() == [[0, 1], [1, 0]]
    assert tensor.values.tolist() == [1.0, 2.0]


def test_from_columns_takes_the_arrays_over() -> None:
    columns, values = np.array([[0, 1], [1, 0]], np.int32), np.array([1.0, 2.0], np.float32)
    tensor = ObservedTensor.from_columns(columns, values)
    assert tensor.columns is columns
    assert np.shares_memory(tensor.values, values)
    assert not columns.flags.writeable


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.uint64, np.float64])
def test_any_whole_numbers_make_coordinates(dtype: Any) -> None:
    tensor = ObservedTensor(np.array([[0, 1], [3, 2]], dtype), [1, 2])
    assert tensor.columns.tolist() == [[0, 3], [1, 2]]
    assert tensor.shape == (4, 3)


def test_a_tuple_of_arrays_is_columns_and_a_list_is_rows() -> None:
    columns = (np.array([0, 1, 2]), np.array([5, 6, 7]))
    assert ObservedTensor(columns, [1, 2, 3]).shape == (3, 8)
    assert ObservedTensor([[0, 5], [1, 6], [2, 7]], [1, 2, 3]).columns.tolist() == [[0, 1, 2], [5, 6, 7]]


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [(np.float32, np.float32), (np.float16, np.float64), (np.int8, np.float64), (bool, np.float64)],
)
def test_value_types(given_type: Any, kept: Any) -> None:
    assert ObservedTensor([[0, 0], [1, 1]], np.array([0, 1], given_type)).values.dtype == kept


def test_default_names() -> None:
    assert [mode.name for mode in ObservedTensor([[0, 0]], [1]).modes] == ["mode_0", "mode_1"]


def test_take_by_mask_positions_and_slice(tensor: Any) -> None:
    for index in ([True, False, True], [0, 2], slice(0, None, 2), [0, -1]):
        part = tensor.take(index)
        assert part.values.tolist() == [4.0, 1.0]
        assert part.shape == tensor.shape
        assert part.bounds == tensor.bounds
        assert part.modes == tensor.modes
        assert part.columns.flags.c_contiguous


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 0], "must not repeat"),
        ([3], "within the entries"),
        ([True], "one item per entry"),
        ([0.5], "mask or integer"),
        ([[0]], "flat"),
        ([False] * 3, "at least one entry"),
        (slice(0, 0), "at least one entry"),
    ],
)
def test_take_refuses(tensor: Any, index: Any, message: Any) -> None:
    with pytest.raises(InputError, match=message):
        tensor.take(index)


def test_with_values_and_bounds(tensor: Any) -> None:
    assert tensor.with_values([1, 2, 3]).values.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(InputError, match=r"keep_bounds=False"):
        tensor.with_values([1, 2, 7])
    free = tensor.with_values([1, 2, 7], keep_bounds=False)
    assert free.bounds is None
    assert free.with_bounds((0, 7)).bounds == (0.0, 7.0)
    assert free.with_bounds((0, 5), out_of_bounds="clip").values.tolist() == [1.0, 2.0, 5.0]
    assert free.with_bounds((0, 5), out_of_bounds="drop").n_entries == 2
    assert tensor.with_bounds(None).bounds is None
    with pytest.raises(InputError, match="one number per row"):
        tensor.with_values([1.0])
    assert tensor.with_modes(None).modes[0].name == "mode_0"


def test_labels_both_ways() -> None:
    modes: list[str | Mode] = [Mode("user", ["ann", "bob"]), Mode("year", [1999, 2001, 2000]), "day"]
    tensor = ObservedTensor([[0, 1, 4], [1, 2, 0]], [1, 2], modes=modes)
    assert tensor.shape == (2, 3, 5)  # labels settle the size of their mode
    coords = tensor.encode(["bob", "ann"], [2000, 1999], [0, 4])
    assert coords.tolist() == [[1, 2, 0], [0, 0, 4]]
    users, years, days = tensor.decode(coords)
    assert users.tolist() == ["bob", "ann"]
    assert years.tolist() == [2000, 1999]
    assert days.tolist() == [0, 4]
    assert tensor.encode("bob", 2001, 3).tolist() == [[1, 1, 3]]
    assert tensor.axis("year") == tensor.axis(1) == tensor.axis(-2) == 1


@pytest.mark.parametrize(
    "labels",
    [["b", "a", "ü"], [3, 1, 2], [0.5, -1.5, 2.0], np.array(["2020-01-02", "2020-01-01", "1999-01-01"], "M8[D]")],
)
def test_encode_inverts_decode(labels: Any) -> None:
    mode = Mode("m", labels)
    assert mode.encode(mode.decode([2, 0, 1])).tolist() == [2, 0, 1]


def test_modes_compare_by_name_and_labels() -> None:
    assert Mode("a", ["x"]) == Mode("a", ["x"])
    assert Mode("a", ["x"]) != Mode("a", ["y"])
    assert Mode("a") != Mode("a", ["x"])
    assert Mode("a") != "a"
    assert hash(Mode("a", ["x"])) == hash(Mode("a", ["x"]))


def test_reprs_hold_no_labels_or_values(tensor: Any) -> None:
    labelled = tensor.with_modes([Mode("user", ["secret", "hidden"]), "film", "day"])
    assert "secret" not in repr(labelled.modes) + repr(labelled)
    assert "2.5" not in repr(labelled)


def test_deep_copy(tensor: Any) -> None:
    twin = copy.deepcopy(tensor)
    assert twin.columns.tolist() == tensor.columns.tolist()
    assert twin.modes == tensor.modes


def test_to_dense_refuses_what_does_not_fit(tensor: Any) -> None:
    dense = tensor.to_dense()
    assert np.isnan(dense).sum() == 9
    assert dense[1, 2, 0] == 2.5
    assert tensor.to_dense(0.0).sum() == 7.5
    with pytest.raises(MemoryLimitError, match="max_bytes=50"):
        tensor.to_dense(max_bytes=50)


SHAPES = st.lists(st.integers(1, 5), min_size=2, max_size=4)


@st.composite
def entries(draw: Any) -> Any:
    shape = tuple(draw(SHAPES))
    rows = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in shape)), min_size=1, max_size=20))
    values = draw(st.lists(st.integers(-8, 8), min_size=len(rows), max_size=len(rows)))
    return shape, rows, values


@given(entries(), st.sampled_from(["mean", "sum", "first", "last"]), st.booleans())
@settings(max_examples=150)
def test_merging_duplicates_matches_brute_force(case: Any, policy: Any, huge: Any) -> None:
    shape, rows, values = case
    if huge:  # beyond 63 bits: the keys take several words
        shape = tuple(2**31 - 1 for _ in shape)
    groups: dict[Any, list[Any]] = {}
    for row, value in zip(rows, values, strict=True):
        groups.setdefault(row, []).append(value)
    ways: dict[str, Callable[[Any], Any]] = {
        "mean": np.mean, "sum": np.sum, "first": lambda v: v[0], "last": lambda v: v[-1],
    }  # fmt: skip
    tensor = ObservedTensor(np.array(rows), values, shape, duplicates=policy)
    assert list(map(tuple, tensor.coords.tolist())) == list(groups)
    assert tensor.values.tolist() == [float(ways[policy](group)) for group in groups.values()]
    if len(groups) < len(rows):
        with pytest.raises(InputError, match="duplicated"):
            ObservedTensor(np.array(rows), values, shape)


@given(entries())
def test_keys_are_row_major_positions(case: Any) -> None:
    shape, rows, _ = case
    columns = np.array(rows, np.int32).T
    (key,) = tensor_keys.linear_keys(columns, shape)
    assert key.tolist() == np.ravel_multi_index(tuple(columns), shape).tolist()


def test_keys_at_the_edge_of_63_bits() -> None:
    top = 2**31 - 2
    columns = np.array([[top, top, 0], [top, top, 0], [1, 0, 1]], np.int32)
    assert len(tensor_keys.linear_keys(columns[:2], (2**31 - 1, 2**31 - 1))) == 1
    assert len(tensor_keys.linear_keys(columns, (2**31 - 1, 2**31 - 1, 2))) == 1
    assert len(tensor_keys.linear_keys(columns, (2**31 - 1, 2**31 - 1, 3))) == 2
    assert not tensor_keys.has_duplicates(columns, (2**31 - 1, 2**31 - 1, 3))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_long_keys_are_sorted_in_parts(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_keys, "PARALLEL_SORT", 10)
    monkeypatch.setattr(os, "cpu_count", lambda: workers)
    key = np.random.default_rng(0).integers(10**12, size=1000)
    expected = np.sort(key)
    tensor_keys._sort(key)
    assert np.array_equal(key, expected)


def test_one_duplicate_among_many_is_found() -> None:
    rng = np.random.default_rng(0)
    columns = np.array(np.unravel_index(rng.permutation(100 * 100 * 100)[:200_000], (100, 100, 100)))
    ObservedTensor.from_columns(columns, np.ones(200_000))
    columns[:, 7] = columns[:, 123_456]
    with pytest.raises(InputError, match="duplicated"):
        ObservedTensor.from_columns(columns, np.ones(200_000))


def test_import_is_light() -> None:
    code = (
        "import sys, tensorveil.tensor; "
        "heavy = {'pyarrow', 'scipy', 'pandas', 'polars', 'numba', 'h5py'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
