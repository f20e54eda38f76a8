"""CP and Tucker kernels against plain loops. Few combinations: each new order, rank or precision compiles anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tensorveil.kernels.cp_als import cp_als_mode
from tensorveil.kernels.cp_sgd import cp_sgd_pass
from tensorveil.kernels.padded import pad, unpad
from tensorveil.kernels.predict import cp_predict, tucker_predict
from tensorveil.kernels.rows import build_all_rows
from tensorveil.kernels.sorting import next_random, permute
from tensorveil.kernels.tiles import build_tiles
from tensorveil.kernels.tucker_als import tucker_als_mode
from tensorveil.kernels.tucker_core import tucker_core
from tensorveil.kernels.tucker_sgd import BATCH, batch_key, mode_order, tucker_sgd_pass
from tensorveil_evidence.kernels.published import cp_sgd_published, tucker_sgd_published
from tests.unit.kernels import kernel_reference as reference
from tests.unit.kernels.kernel_reference import tile_batches, tile_entries

STEP, DECAY, CORE_DECAY, OFFSET = 0.02, 0.01, 0.03, 0.4


@dataclass(frozen=True, kw_only=True)
class Case:
    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    dtype: type
    biased: bool

    def build(self, n: int = 400) -> Any:
        columns, values = reference.problem(self.shape, n, dtype=self.dtype)
        matrices = reference.factors(self.shape, self.ranks)
        rng = np.random.default_rng(8)
        biases = [rng.normal(size=s) for s in self.shape] if self.biased else []
        return columns, values, matrices, biases

    @property
    def tolerance(self) -> Any:
        return {"rtol": 2e-3, "atol": 2e-4} if self.dtype is np.float32 else {"rtol": 1e-8, "atol": 1e-10}

    def kernel_biases(self, biases: Any) -> Any:
        return tuple(b.astype(self.dtype) for b in biases)


CP = [
    Case(shape=(20, 15), ranks=(1, 1), dtype=np.float64, biased=True),
    Case(shape=(20, 15, 10), ranks=(17, 17, 17), dtype=np.float32, biased=False),
    Case(shape=(9, 8, 7, 6), ranks=(3,) * 4, dtype=np.float64, biased=True),
    Case(shape=(7, 6, 5, 4, 3), ranks=(8,) * 5, dtype=np.float64, biased=False),
]
TUCKER = [
    Case(shape=(20, 15), ranks=(3, 9), dtype=np.float64, biased=False),
    Case(shape=(20, 15, 10), ranks=(3, 10, 17), dtype=np.float32, biased=True),
    Case(shape=(9, 8, 7, 6), ranks=(2, 3, 4, 3), dtype=np.float64, biased=True),
]


def label(case: Any) -> Any:
    return f"{len(case.shape)}-{case.ranks}-{case.dtype.__name__}-{case.biased}"


def start_core(case: Any) -> Any:
    return np.random.default_rng(4).normal(size=case.ranks) * 0.5


def check(case: Any, got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, **case.tolerance)


@pytest.mark.parametrize("case", CP, ids=label)
def test_cp_predictions(case: Any) -> None:
    columns, _, matrices, biases = case.build()
    core = reference.superdiagonal(len(case.shape), case.ranks[0])
    want = reference.predict(columns, core, matrices, biases, OFFSET)
    padded, b = pad(matrices, case.dtype), case.kernel_biases(biases)
    for threads in (1, 2):
        np.testing.assert_allclose(cp_predict(columns, padded, threads, b, OFFSET), want, **case.tolerance)


# Two threads need a thousand entries per block, which plain loops can take for low orders only.
@pytest.mark.parametrize(("case", "threads"), [*((c, 1) for c in CP), *((c, 2) for c in CP[:2])])
def test_cp_sgd_is_a_joint_step_per_entry_in_the_scheduled_order(case: Any, threads: Any) -> None:
    n = 400 if threads == 1 else 1100 * 2 ** len(case.shape)
    columns, values, matrices, biases = case.build(n)
    padded, b = pad(matrices, case.dtype), case.kernel_biases(biases)
    tiles = build_tiles(columns, values, case.shape, 4096, threads, seed=2, dtype=case.dtype)
    assert tiles.threads == threads
    step = STEP if threads == 1 else 0.002
    got = cp_sgd_pass(tiles, padded, b, OFFSET, step, DECAY, 5)
    core = reference.superdiagonal(len(case.shape), case.ranks[0])
    entries = tile_entries(tiles, tiles.schedule(5))
    want = reference.sgd(entries, core, matrices, biases, OFFSET, step, DECAY, 0, move_core=False)
    assert got == pytest.approx(want[0], rel=1e-3 if case.dtype is np.float32 else 1e-9)
    check(case, unpad(padded), want[2])
    check(case, b, want[3])


@pytest.mark.parametrize("case", CP, ids=label)
def test_cp_als_solves_every_row_and_is_bit_identical_for_all_thread_counts(case: Any) -> None:
    columns, values, matrices, biases = case.build()
    core = reference.superdiagonal(len(case.shape), case.ranks[0])
    rows = build_all_rows(columns, values, case.shape, case.dtype)
    results = []
    for threads in (1, 2):
        padded, b = pad(matrices, case.dtype), case.kernel_biases(biases)
        for mode in (0, len(case.shape) - 1):
            before, earlier = unpad(padded), [x.astype(float) for x in b]
            rss = cp_als_mode(rows[mode], padded, mode, b, OFFSET, 0.3, 0.05, threads)
            want, want_bias = reference.least_squares(columns, values, core, before, earlier, OFFSET, mode, 0.3, 0.05)
            np.testing.assert_allclose(unpad(padded)[mode], want, **case.tolerance)
            if biases:
                np.testing.assert_allclose(b[mode], want_bias, **case.tolerance)
            left = reference.squared_error(columns, values, core, unpad(padded), b, OFFSET)
            assert rss == pytest.approx(left, rel=1e-3)
        assert not unpad(padded)[0][0].any()
        results.append([*padded.arrays, *b])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_cp_als_survives_a_singular_system() -> None:
    columns, values = reference.problem((6, 5, 4), 60)
    same = [np.repeat(f[:, :1], 17, axis=1) for f in reference.factors((6, 5, 4), (17,) * 3)]
    padded = pad(same, np.float32)
    rows = build_all_rows(columns, values, (6, 5, 4), np.float32)
    cp_als_mode(rows[0], padded, 0, (), 0.0, 0.0, 0.0, 1)
    assert np.isfinite(padded.flat).all()


def test_rows_of_another_mode_are_refused() -> None:
    columns, values = reference.problem((6, 5, 4), 60)
    rows = build_all_rows(columns, values, (6, 5, 4))
    padded = pad(reference.factors((6, 5, 4), (2, 2, 2)))
    with pytest.raises(ValueError, match="grouped by mode"):
        cp_als_mode(rows[1], padded, 0)
    with pytest.raises(ValueError, match="grouped by mode"):
        tucker_als_mode(rows[1], np.ones((2, 2, 2)), padded, 0)


@pytest.mark.parametrize("case", TUCKER, ids=label)
def test_tucker_predictions(case: Any) -> None:
    columns, _, matrices, biases = case.build()
    core = start_core(case)
    want = reference.predict(columns, core, matrices, biases, OFFSET)
    padded, b = pad(matrices, case.dtype), case.kernel_biases(biases)
    for threads in (1, 2):
        got = tucker_predict(columns, core, padded, threads, b, OFFSET)
        np.testing.assert_allclose(got, want, **case.tolerance)


# The mode that runs share is the first here, and all sizes fill their registers.
FULL = Case(shape=(6, 9, 14), ranks=(8, 8, 8), dtype=np.float64, biased=True)


@pytest.mark.parametrize("case", [*TUCKER, FULL], ids=label)
def test_tucker_sgd_is_a_joint_step_per_entry_with_the_core_moved_per_batch(case: Any) -> None:
    columns, values, matrices, biases = case.build()
    padded, b, core = pad(matrices, case.dtype), case.kernel_biases(biases), start_core(case).astype(case.dtype)
    tiles = build_tiles(columns, values, case.shape, 64, 1, seed=2, dtype=case.dtype)
    shared, key = mode_order(tiles)[-1], batch_key(tiles.seed, 1)
    assert shared == int(np.argmin(case.shape))
    batches = tile_batches(
        tiles, tiles.schedule(1), shared, BATCH, lambda tile, n: permute(n, next_random(key ^ np.uint64(tile)))
    )
    want = reference.sgd_in_batches(
        batches, shared, start_core(case), matrices, biases, OFFSET, STEP, DECAY, CORE_DECAY
    )
    got = tucker_sgd_pass(tiles, core, padded, b, OFFSET, STEP, DECAY, CORE_DECAY, 1)
    assert got == pytest.approx(want[0], rel=1e-3 if case.dtype is np.float32 else 1e-9)
    check(case, [core, *unpad(padded), *b], [want[1], *want[2], *want[3]])


def test_batches_of_one_entry_are_plain_sgd() -> None:
    case = TUCKER[2]
    columns, values, matrices, biases = case.build(100)
    entries = [(tuple(index), x) for index, x in zip(columns.T.tolist(), values, strict=True)]
    numbers = (OFFSET, STEP, DECAY, CORE_DECAY)
    plain = reference.sgd(entries, start_core(case), matrices, biases, *numbers, move_core=True)
    batched = reference.sgd_in_batches([[x] for x in entries], 3, start_core(case), matrices, biases, *numbers)
    assert batched[0] == pytest.approx(plain[0])
    check(case, [batched[1], *batched[2], *batched[3]], [plain[1], *plain[2], *plain[3]])


def test_tucker_sgd_with_one_entry_per_batch_is_plain_sgd() -> None:
    # One entry in all: the core moves with every pass.
    case = TUCKER[0]
    columns, values, matrices, biases = case.build(1)
    padded, core = pad(matrices, case.dtype), start_core(case)
    tiles = build_tiles(columns, values, case.shape, 64, 1, seed=2, dtype=case.dtype)
    want = (0.0, start_core(case), matrices, biases)
    for k in range(5):
        got = tucker_sgd_pass(tiles, core, padded, (), OFFSET, STEP, DECAY, CORE_DECAY, k)
        entries = tile_entries(tiles, tiles.schedule(k))
        want = reference.sgd(entries, want[1], want[2], [], OFFSET, STEP, DECAY, CORE_DECAY, move_core=True)
        assert got == pytest.approx(want[0], rel=1e-9)
    check(case, [core, *unpad(padded)], [want[1], *want[2]])


def test_tucker_sgd_with_two_threads_averages_cores_and_repeats_itself() -> None:
    case = TUCKER[1]
    columns, values, matrices, biases = case.build(9000)
    results = []
    for _ in range(2):
        padded, b, core = pad(matrices, case.dtype), case.kernel_biases(biases), start_core(case).astype(case.dtype)
        tiles = build_tiles(columns, values, case.shape, 64, 2, seed=2, dtype=case.dtype)
        assert tiles.threads == 2
        errors = [tucker_sgd_pass(tiles, core, padded, b, OFFSET, 1e-3, 1e-4, 1e-4, k) for k in range(3)]
        assert errors[2] < errors[0]
        results.append([core, *padded.arrays, *b])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("case", TUCKER, ids=label)
def test_tucker_als_solves_every_row_with_and_without_a_table(case: Any) -> None:
    columns, values, matrices, biases = case.build()
    core = start_core(case).astype(case.dtype)
    rows = build_all_rows(columns, values, case.shape, case.dtype)
    last = len(case.shape) - 1
    want, want_bias = reference.least_squares(columns, values, core, matrices, biases, OFFSET, last, 0.3, 0.05)
    for threads, table_bytes in ((1, 1 << 20), (2, 1 << 20), (2, 0)):
        padded, b = pad(matrices, case.dtype), case.kernel_biases(biases)
        rss = tucker_als_mode(rows[last], core, padded, last, b, OFFSET, 0.3, 0.05, threads, table_bytes)
        np.testing.assert_allclose(unpad(padded)[last], want, **case.tolerance)
        if biases:
            np.testing.assert_allclose(b[last], want_bias, **case.tolerance)
        left = reference.squared_error(columns, values, core, unpad(padded), b, OFFSET)
        assert rss == pytest.approx(left, rel=1e-3)


@pytest.mark.parametrize("case", TUCKER, ids=label)
def test_tucker_core_directly_and_by_conjugate_gradients(case: Any) -> None:
    columns, values, matrices, biases = case.build(900)
    padded, b = pad(matrices, case.dtype), case.kernel_biases(biases)
    design = np.ones((len(values), 1))
    for column, matrix in zip(columns, matrices, strict=True):
        design = (design[:, :, None] * matrix[column][:, None, :]).reshape(len(values), -1)
    target = values - OFFSET - sum(x[c] for x, c in zip(biases, columns, strict=False))
    want = np.linalg.solve(design.T @ design + 0.5 * np.eye(design.shape[1]), design.T @ target)
    rows = build_all_rows(columns, values, case.shape, case.dtype)
    solutions = []
    for mode, limit, threads in ((1, 512, 1), (1, 512, 2), (0, 1, 2)):
        core = start_core(case).astype(case.dtype)
        rss = tucker_core(rows[mode], core, padded, b, OFFSET, 0.5, threads, limit, max_iterations=500)
        np.testing.assert_allclose(core.ravel(), want, rtol=5e-3, atol=1e-3 if case.dtype is np.float32 else 1e-5)
        left = reference.squared_error(columns, values, core, unpad(padded), b, OFFSET)
        assert rss == pytest.approx(left, rel=1e-3)
        solutions.append(core)
    np.testing.assert_array_equal(solutions[0], solutions[1])


@pytest.mark.parametrize("case", [CP[2], TUCKER[2]], ids=label)
def test_published_updates_one_mode_after_the_other(case: Any) -> None:
    columns, values, matrices, biases = case.build(150)
    is_cp = case is CP[2]
    core = reference.superdiagonal(4, 3) if is_cp else start_core(case)
    order = np.random.default_rng(0).permutation(150)
    entries = [(columns[:, p], values[p]) for p in order]
    want = reference.published(entries, core, matrices, biases, OFFSET, STEP, DECAY, CORE_DECAY, move_core=not is_cp)
    padded, b, moved = pad(matrices), case.kernel_biases(biases), core.copy()
    if is_cp:
        got = cp_sgd_published(columns, values, order, padded, b, OFFSET, STEP, DECAY)
    else:
        got = tucker_sgd_published(columns, values, order, moved, padded, b, OFFSET, STEP, DECAY, CORE_DECAY)
    assert got == pytest.approx(want[0], rel=1e-9)
    check(case, [moved, *unpad(padded), *b], [want[1], *want[2], *want[3]])


def test_mixed_precisions_and_wrong_biases_are_refused() -> None:
    columns, values = reference.problem((6, 5, 4), 60)
    padded = pad(reference.factors((6, 5, 4), (2, 2, 2)), np.float32)
    with pytest.raises(ValueError, match="same dtype"):
        cp_sgd_pass(build_tiles(columns, values, (6, 5, 4), 64, 1), padded)
    with pytest.raises(ValueError, match="biases must be"):
        cp_als_mode(build_all_rows(columns, values, (6, 5, 4), np.float32)[0], padded, 0, (np.zeros(6),))


def test_predictions_take_coordinates_in_any_memory_order() -> None:
    case = CP[2]
    columns, _, matrices, _ = case.build()
    padded = pad(matrices)
    turned = np.asfortranarray(columns)
    np.testing.assert_array_equal(cp_predict(turned, padded), cp_predict(columns, padded))
    core = reference.superdiagonal(4, 3)
    np.testing.assert_allclose(tucker_predict(turned, core, padded), cp_predict(columns, padded), atol=1e-12)
