"""Sparse-plus-low-rank products and thin algebra, against the dense matrices that they never form."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.kernels.padded import aligned_zeros, padded_rank
from tensorveil.kernels.rows import build_rows
from tensorveil.kernels.sparse_residual import residual_times, residual_transposed_times, scatter_copies
from tensorveil.kernels.thin import cross, orthonormal
from tensorveil.kernels.threads import workers


def padded(matrix: Any, dtype: Any) -> Any:
    out = aligned_zeros((len(matrix), padded_rank(matrix.shape[1])), dtype)
    out[:, : matrix.shape[1]] = matrix
    return out


def products(Y: Any, mask: Any, A: Any, B: Any, L: Any, dtype: Any, threads: Any) -> Any:
    columns = np.argwhere(mask).T.astype(np.int32)
    rows = build_rows(np.ascontiguousarray(columns), Y[mask].astype(dtype), Y.shape, 0, threads=threads)
    a, b, left = (padded(f, dtype) for f in (A, B, L))
    s, out = np.empty(rows.n_entries, dtype), np.empty_like(a)
    copies = scatter_copies(len(b), b.shape[1], np.dtype(dtype))
    with workers(threads) as run:
        squares = residual_times(rows, a, b, s, out, run)
        transposed = residual_transposed_times(rows, s, left, copies, run)
    rank = A.shape[1]
    assert not out[:, rank:].any()
    assert not transposed[:, rank:].any()
    return squares, out[:, :rank], transposed[:, :rank].copy()


@settings(max_examples=30)
@given(
    st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 3, 5, 10, 17]), st.floats(0.0, 1.0),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_products_are_those_of_the_dense_matrix(m: Any, n: int, rank: Any, share: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y, mask = rng.standard_normal((m, n)), rng.random((m, n)) < share
    mask[rng.integers(m), rng.integers(n)] = True
    A, B, L = (rng.standard_normal((size, rank)) for size in (m, n, m))
    S = np.where(mask, Y - A @ B.T, 0.0)
    squares, right, left = products(Y, mask, A, B, L, np.float64, 1)
    assert squares == pytest.approx(np.sum(S**2), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(right, S @ B, atol=1e-11 * (1 + n))
    np.testing.assert_allclose(left, S.T @ L, atol=1e-11 * (1 + m))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_the_same_for_every_number_of_threads(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    Y, mask = rng.standard_normal((300, 120)), rng.random((300, 120)) < 0.2
    A, B, L = (rng.standard_normal((size, 7)) for size in (300, 120, 300))
    one = products(Y, mask, A, B, L, dtype, 1)
    for threads in (2, 3):
        for got, want in zip(products(Y, mask, A, B, L, dtype, threads), one, strict=True):
            np.testing.assert_array_equal(got, want)


def test_large_results_get_few_copies() -> None:
    assert len(scatter_copies(100, 8, np.dtype(np.float32))) == 8
    assert len(scatter_copies(3_000_000, 16, np.dtype(np.float32))) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orthonormal_columns_that_span_the_same(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    tall = (rng.standard_normal((9000, 6)) * 10.0 ** np.arange(-3, 3)).astype(dtype)
    Q, T = orthonormal(tall)
    close = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(cross(Q, Q), np.eye(6), atol=close)
    np.testing.assert_allclose(Q @ T, tall, rtol=0, atol=close * 1e3)
    assert np.allclose(T, np.triu(T))
    assert Q.dtype == dtype


@pytest.mark.parametrize(
    "tall",
    [np.zeros((8, 3)), np.ones((8, 3)), np.eye(3), np.outer(np.arange(6.0), [1.0, 1.0 + 1e-9])],
    ids=["zeros", "equal columns", "square", "nearly parallel"],
)
def test_orthonormal_whatever_the_rank(tall: Any) -> None:
    Q, T = orthonormal(tall)
    np.testing.assert_allclose(Q.T @ Q, np.eye(tall.shape[1]), atol=1e-12)
    np.testing.assert_allclose(Q @ T, tall, atol=1e-12)


def test_cross_sums_in_float64() -> None:
    """A million equal numbers: float32 sums of that length are off in the third digit."""
    column = np.full((1 << 20, 1), 0.1, np.float32)
    assert cross(column, column)[0, 0] == pytest.approx(2**20 * float(np.float32(0.1)) ** 2, rel=1e-5)
