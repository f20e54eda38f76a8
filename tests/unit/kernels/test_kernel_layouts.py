"""Layouts hold every entry exactly once, in the promised order, whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.kernels import rows as rows_module
from tensorveil.kernels.padded import pad, unpad
from tensorveil.kernels.rows import build_all_rows, build_rows
from tensorveil.kernels.threads import cut_evenly, ranges
from tensorveil.kernels.tiles import build_tiles
from tests.unit.kernels.kernel_reference import problem, tile_entries


def sorted_entries(columns: Any, values: Any) -> Any:
    return sorted((*c, v) for c, v in zip(columns.T.tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize(("shape", "threads"), [((40, 30), 2), ((40, 30, 20), 2), ((9, 8, 7, 6), 3), ((50, 1, 40), 2)])
def test_a_pass_visits_every_entry_exactly_once(shape: tuple[int, ...], threads: Any) -> None:
    full = tuple(s + 1 for s in shape)
    columns, values = problem(full, 90_000, seed=3)
    tiles = build_tiles(columns, values, full, 4096, threads, seed=5)
    for pass_index in (0, 7):
        seen = [(*c, float(v)) for c, v in tile_entries(tiles, tiles.schedule(pass_index))]
        assert sorted(seen) == sorted_entries(columns, values)
    assert tiles.bases.shape[1] > 1


def test_blocks_of_a_stratum_share_no_row() -> None:
    columns, values = problem((60, 50, 40), 60_000)
    tiles = build_tiles(columns, values, (60, 50, 40), 256, 3, seed=1)
    assert tiles.threads == 3
    for stratum in tiles.schedule(0):
        seen: list[set[int]] = [set() for _ in range(3)]
        for thread in stratum:
            entries = [c for c, _ in tile_entries(tiles, [[thread]])]
            for m in range(3):
                mine = {c[m] for c in entries}
                assert not mine & seen[m]
                seen[m] |= mine


def test_tiles_are_a_pure_function_of_their_arguments() -> None:
    columns, values = problem((60, 50, 40), 30_000)
    one, two = (build_tiles(columns, values, (60, 50, 40), 512, 2, seed=9) for _ in range(2))
    other = build_tiles(columns, values, (60, 50, 40), 512, 2, seed=10)
    for name in ("coords", "values", "starts", "bases", "blocks"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.values, other.values)
    assert any(not np.array_equal(a, b) for a, b in zip(one.schedule(0), one.schedule(1), strict=True))


def test_threads_are_reduced_when_a_mode_is_too_small_or_entries_are_few() -> None:
    columns, values = problem((30, 20, 2), 20_000)
    assert build_tiles(columns[:, :50], values[:50], (30, 20, 2), 64, 2).threads == 1
    assert build_tiles(columns, values, (30, 20, 2), 64, 4).threads == 2


def test_large_modes_fall_back_to_wider_coordinates_only_when_needed() -> None:
    columns = np.array([[0, 199_999, 5], [0, 99_999, 7]], dtype=np.int32)
    tiles = build_tiles(columns, np.arange(3.0), (200_000, 100_000), 64, 1)
    seen = {c for c, _ in tile_entries(tiles, tiles.schedule(0))}
    assert seen == {(0, 0), (199_999, 99_999), (5, 7)}


@pytest.mark.parametrize("shape", [(30, 20), (30, 70_000, 20), (6, 5, 4, 3)])
def test_rows_group_and_sort_every_entry(shape: tuple[int, ...]) -> None:
    columns, values = problem(shape, 5_000)
    for mode, rows in enumerate(build_all_rows(columns, values, shape, np.float32, threads=2)):
        assert rows.coords.dtype == (np.int32 if any(shape[m] > 65_536 for m in rows.others) else np.uint16)
        np.testing.assert_array_equal(np.diff(rows.pointers), np.bincount(columns[mode], minlength=shape[mode]))
        back = np.empty((len(shape), len(values)), dtype=np.int64)
        back[mode] = np.repeat(np.arange(shape[mode]), np.diff(rows.pointers))
        back[list(rows.others)] = rows.coords
        assert sorted_entries(back, rows.values) == sorted_entries(columns, values.astype(np.float32))
        key = rows.coords[rows.others.index(rows.sorted_by)].astype(np.int64)
        assert np.all(np.diff(back[mode] * 100_000 + key) >= 0)


def test_rows_do_not_depend_on_threads_or_on_how_they_were_built() -> None:
    columns, values = problem((30, 20, 10), 4_000)
    together = build_all_rows(columns, values, (30, 20, 10), threads=1)
    for mode in range(3):
        alone = build_rows(columns, values, (30, 20, 10), mode, threads=3)
        np.testing.assert_array_equal(alone.pointers, together[mode].pointers)
        if mode == 0:
            np.testing.assert_array_equal(alone.values, together[mode].values)


def test_no_entries_at_all() -> None:
    columns, values = np.empty((3, 0), dtype=np.int32), np.empty(0)
    tiles = build_tiles(columns, values, (4, 3, 2), 64, 2)
    assert list(tile_entries(tiles, tiles.schedule(0))) == []
    assert build_rows(columns, values, (4, 3, 2), 1).pointers.tolist() == [0, 0, 0, 0]


def test_padding_is_undone_and_aligned() -> None:
    matrices = [np.arange(15.0).reshape(5, 3), np.arange(34.0).reshape(2, 17)]
    padded = pad(matrices, np.float32)
    assert [a.shape[1] for a in padded.arrays] == [4, 24]
    assert all(a.ctypes.data % 64 == 0 for a in padded.arrays)
    for matrix, back in zip(matrices, unpad(padded), strict=True):
        np.testing.assert_array_equal(matrix, back)


@settings(deadline=None, max_examples=50)
@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=30), parts=st.integers(1, 12))
def test_pieces_cover_all_rows_in_order(counts: Any, parts: Any) -> None:
    pointers = np.concatenate([[0], np.cumsum(counts)])
    for pieces in (cut_evenly(pointers, parts), ranges(len(counts), parts)):
        assert [i for a, b in pieces for i in range(a, b)] == list(range(len(counts)))


@pytest.mark.parametrize("shape", [(40, 30), (7, 60, 20), (9, 8, 7, 6)])
@pytest.mark.parametrize("threads", [1, 3])
def test_small_tensors_are_grouped_as_large_ones_are(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], threads: int
) -> None:
    # Several entries share a cell, and must keep their order.
    columns, values = problem(shape, 2_000, seed=len(shape))
    small = build_all_rows(columns, values, shape, threads=threads)
    alone = [build_rows(columns, values, shape, mode, threads=threads) for mode in range(len(shape))]
    monkeypatch.setattr(rows_module, "SMALL", 0)
    large = build_all_rows(columns, values, shape, threads=threads)
    others = [build_rows(columns, values, shape, mode, threads=threads) for mode in range(len(shape))]
    for one, other in zip([*small, *alone], [*large, *others], strict=True):
        for name in ("pointers", "coords", "values"):
            found, expected = getattr(one, name), getattr(other, name)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
