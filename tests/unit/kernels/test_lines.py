"""Filters along lines, and rows solved together, against what they compute written out densely."""

from typing import Any

import numpy as np
import pytest

from tensorveil.kernels.bayes_cp import Precisions, cp_bayes_mode
from tensorveil.kernels.coupled import RowSums, cp_coupled_mode, cp_point_sums
from tensorveil.kernels.lines import line_evidence, smooth_lines
from tensorveil.kernels.posterior import random_posterior
from tensorveil.kernels.rows import build_rows

PHI, V, S2, LENGTH = 0.8, 2.0, 0.5, 9
TIMES: Any = ([1, 2, 6], [], [0, 3, 4, 8])


def lines() -> Any:
    rng = np.random.default_rng(0)
    pointers = np.cumsum([0, *map(len, TIMES)])
    return pointers, np.concatenate(TIMES).astype(np.int64), rng.standard_normal(pointers[-1])


def covariance(a: Any, b: Any) -> Any:
    return V * PHI ** np.abs(np.subtract.outer(np.asarray(a, float), np.asarray(b, float)))


def test_evidence_of_lines_is_the_dense_density() -> None:
    pointers, times, rest = lines()
    expected = 0.0
    for line, at in enumerate(TIMES):
        r = rest[pointers[line] : pointers[line + 1]]
        dense = covariance(at, at) + S2 * np.eye(len(at))
        expected -= 0.5 * (np.linalg.slogdet(dense)[1] + r @ np.linalg.solve(dense, r)) if at else 0.0
    assert line_evidence(pointers, times, rest, PHI, V, S2) == pytest.approx(expected)


def test_evidence_of_many_entries_neither_overflows_nor_vanishes() -> None:
    rest = np.random.default_rng(2).standard_normal(3000)
    pointers, times = np.array([0, 3000]), np.arange(3000)
    for size in (1e-30, 1e30):
        found = line_evidence(pointers, times, rest * size, 0.0, V * size**2, S2 * size**2)
        dense = -0.5 * (3000 * np.log(V + S2) + 6000 * np.log(size) + np.sum(rest**2) / (V + S2))
        assert found == pytest.approx(dense)


@pytest.mark.parametrize("even", [True, False])
def test_smoothed_lines_are_the_dense_means_and_variances(even: bool) -> None:
    pointers, times, rest = lines()
    noise = np.full(len(rest), S2) if even else np.random.default_rng(1).uniform(0.1, 3.0, len(rest))
    out, spread = np.full((len(TIMES), LENGTH), np.nan), np.full(len(rest), np.nan)
    smooth_lines(pointers, times, rest, noise, PHI, V, out, spread)
    for line, at in enumerate(TIMES):
        part = slice(pointers[line], pointers[line + 1])
        dense = covariance(at, at) + np.diag(noise[part])
        expected = covariance(range(LENGTH), at) @ np.linalg.solve(dense, rest[part]) if at else np.zeros(LENGTH)
        np.testing.assert_allclose(out[line], expected, atol=1e-12)
        if at:
            left = covariance(at, at) - covariance(at, at) @ np.linalg.solve(dense, covariance(at, at))
            np.testing.assert_allclose(spread[part], np.diag(left), atol=1e-12)


def some_rows() -> Any:
    rng = np.random.default_rng(1)
    shape = (5, 6, 4)
    cells = rng.permutation(np.argwhere(np.ones(shape)))[:50]
    cells = cells[cells[:, 0] != 1]  # a row without entries
    return build_rows(np.ascontiguousarray(cells.T.astype(np.int32)), rng.standard_normal(len(cells)), shape, 0), rng


@pytest.mark.parametrize("law", [False, True])
def test_rows_solved_together_are_rows_solved_one_by_one(law: bool) -> None:
    rows, rng = some_rows()
    center, alpha, variance = rng.standard_normal(3), rng.uniform(1, 2, 3), 0.7
    one, other = (random_posterior(rows.shape, (3, 3, 3), 0.8, np.random.default_rng(2)) for _ in range(2))
    precisions = Precisions(table=np.linspace(2.0, 0.1, 50), step=0.1, logs=np.linspace(0, -5, 50)) if law else None
    expected, expected_logdet = cp_bayes_mode(rows, one, center, alpha, variance, None, None, precisions)

    def solve(sums: RowSums) -> Any:
        precision = sums.gram / variance + np.diag(alpha)
        spread = np.linalg.inv(precision)
        f = np.einsum("irs,is->ir", spread, sums.target / variance + alpha * center)
        zeros = np.zeros(len(f))
        return f, spread + f[:, :, None] * f[:, None], zeros, zeros, -float(np.linalg.slogdet(precision)[1].sum())

    found, logdet = cp_coupled_mode(rows, other, solve, variance, None, precisions)
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-12)
    np.testing.assert_allclose(other.second, one.second, atol=1e-12)
    for name in ("after", "before", "weights", "evidence"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))
    assert logdet == pytest.approx(expected_logdet)


def test_sums_over_points_written_out() -> None:
    rows, rng = some_rows()
    factors = tuple(rng.standard_normal((size, 3)) for size in rows.shape)
    biases = tuple(rng.standard_normal(size) for size in rows.shape)
    sums, square = cp_point_sums(rows, factors, biases)
    total = 0.0
    for i in range(rows.shape[0]):
        here = slice(rows.pointers[i], rows.pointers[i + 1])
        j, k = rows.coords[:, here]
        h, y = factors[1][j] * factors[2][k], rows.values[here] - biases[1][j] - biases[2][k]
        np.testing.assert_allclose(sums.gram[i], h.T @ h, atol=1e-12)
        np.testing.assert_allclose(sums.target[i], h.T @ y, atol=1e-12)
        np.testing.assert_allclose(sums.design[i], h.sum(axis=0), atol=1e-12)
        assert sums.value[i] == pytest.approx(y.sum(), abs=1e-12)
        total += y @ y
    assert square == pytest.approx(total)
