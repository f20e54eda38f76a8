"""Splits share nothing, lose nothing and keep the shape."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.tensor import Mode, ObservedTensor, block_split, k_fold, random_split, slice_split, time_split


@pytest.fixture
def tensor() -> Any:
    rng = np.random.default_rng(3)
    cells = rng.permutation(20 * 15 * 10)[:700]
    coords = np.array(np.unravel_index(cells, (20, 15, 10))).T
    return ObservedTensor(coords, rng.random(700), (20, 15, 10), (0, 1), ["user", "item", "day"])


def rows(tensor: Any) -> Any:
    return {
        (*row, value) for row, value in zip(map(tuple, tensor.coords.tolist()), tensor.values.tolist(), strict=True)
    }


def check(tensor: Any, split: Any) -> None:
    train, held_out = split
    assert not rows(train) & rows(held_out)
    assert rows(train) | rows(held_out) == rows(tensor)
    assert train.shape == held_out.shape == tensor.shape
    assert train.bounds == held_out.bounds == tensor.bounds
    assert train.modes == held_out.modes == tensor.modes


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 9))
def test_random_split_is_exact(count: Any, fraction: Any, seed: int) -> None:
    tensor = ObservedTensor(np.stack([np.arange(count)] * 2, axis=1), np.arange(count))
    expected = round(fraction * count)
    if not 0 < expected < count:
        with pytest.raises(InputError, match="both parts"):
            random_split(tensor, fraction, seed)
        return
    split = random_split(tensor, fraction, seed)
    check(tensor, split)
    assert split.held_out.n_entries == expected
    assert rows(random_split(tensor, fraction, seed).train) == rows(split.train)


def test_random_split_takes_a_generator(tensor: Any) -> None:
    one = random_split(tensor, 0.3, np.random.default_rng(5))
    other = random_split(tensor, 0.3, 5)
    assert rows(one.train) == rows(other.train)


def test_slice_split_holds_out_whole_slices(tensor: Any) -> None:
    for split in (slice_split(tensor, "user", 0.25, random_state=0), slice_split(tensor, 0, indices=[1, 4, 7, 9, 12])):
        check(tensor, split)
        train, held = (set(part.columns[0].tolist()) for part in split)
        assert not train & held
        assert len(held) == 5


@given(st.floats(0.05, 0.9), st.integers(0, 9))
def test_block_split_holds_out_whole_blocks(fraction: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.argwhere(np.ones((6, 5, 4))))[:60]
    tensor = ObservedTensor(cells, rng.random(60), (6, 5, 4), (0, 1), ["user", "item", "day"])
    split = block_split(tensor, ("user", "day"), fraction, seed)
    check(tensor, split)
    blocks = [{(user, day) for user, _, day in part.coords.tolist()} for part in split]
    assert not blocks[0] & blocks[1]
    assert len(blocks[1]) == round(fraction * len(blocks[0] | blocks[1]))


@pytest.mark.parametrize("modes", [(), ("user", 0)])
def test_block_split_names_each_mode_once(tensor: Any, modes: Any) -> None:
    with pytest.raises(InputError, match="none twice"):
        block_split(tensor, modes)


def test_time_split_holds_out_the_latest(tensor: Any) -> None:
    split = time_split(tensor, "day", 0.3)
    check(tensor, split)
    assert split.train.columns[2].max() < split.held_out.columns[2].min()
    assert abs(split.held_out.n_entries / tensor.n_entries - 0.3) < 0.06


def test_time_split_follows_dates_not_indices(tensor: Any) -> None:
    dates = np.datetime64("2020-01-01") + np.arange(10)[::-1]
    split = time_split(tensor.with_modes(["user", "item", Mode("day", dates)]), "day", 0.3)
    assert split.train.columns[2].min() > split.held_out.columns[2].max()


def test_time_split_needs_two_times() -> None:
    with pytest.raises(InputError, match="two indices"):
        time_split(ObservedTensor([[0, 1], [1, 1]], [1, 2]), 1)


def test_k_fold_holds_out_every_entry_once(tensor: Any) -> None:
    folds = list(k_fold(tensor, 6, random_state=1))
    seen = [row for fold in folds for row in rows(fold.held_out)]
    assert len(seen) == len(set(seen)) == tensor.n_entries
    for fold in folds:
        check(tensor, fold)
        assert fold.held_out.n_entries in (116, 117)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda t: random_split(t, 0.0), "fraction must lie between 0 and 1; got 0.0"),
        (lambda t: random_split(t, 1), "fraction must lie between 0 and 1; got 1"),
        (lambda t: random_split(t, "half"), "fraction must lie"),  # type: ignore[arg-type]
        (lambda t: slice_split(t, 0), "either fraction or indices"),
        (lambda t: slice_split(t, 0, 0.5, indices=[1]), "either fraction or indices"),
        (lambda t: slice_split(t, 0, indices=[20]), "within the size"),
        (lambda t: slice_split(t, 0, indices=[0.5]), "within the size"),
        (lambda t: slice_split(t, "hour", 0.5), "mode must be one of"),
        (lambda t: slice_split(t, 0, 0.001), "both parts"),
        (lambda t: k_fold(t, 1), "k must be an integer of at least 2; got 1"),
        (lambda t: k_fold(t, 2.5), "k must be an integer"),  # type: ignore[arg-type]
        (lambda t: k_fold(t, 701), "must not exceed"),
    ],
)
def test_refusals(tensor: Any, action: Any, message: Any) -> None:
    with pytest.raises(InputError, match=message):
        action(tensor)
