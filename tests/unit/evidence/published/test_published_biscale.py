"""Bi-scaling against its definition."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil_evidence.published import biscale


def matrix(seed: int, shape: Any = (9, 7), density: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    dense = rng.normal(3.0, 2.0, shape) + rng.normal(0, 3, (shape[0], 1))
    dense[rng.random(shape) > density] = np.nan
    return tv.ObservedTensor.from_dense(dense)


def plain_loop(x: Any, rounds: Any) -> Any:
    """One number at a time, from the definition; NaN is not observed."""
    n, m = x.shape
    a, b, t, g = np.zeros(n), np.zeros(m), np.ones(n), np.ones(m)
    seen = ~np.isnan(x)

    def residual() -> Any:
        return (x - a[:, None] - b) / (t[:, None] * g)

    for _ in range(rounds):
        r = residual()
        for j in range(m):
            b[j] += g[j] * r[seen[:, j], j].sum() / (1 / t[seen[:, j]]).sum()
        r = residual()
        for i in range(n):
            a[i] += t[i] * r[i, seen[i]].sum() / (1 / g[seen[i]]).sum()
        r = residual()
        for j in range(m):
            g[j] *= np.sqrt(np.mean(r[seen[:, j], j] ** 2))
        r = residual()
        for i in range(n):
            t[i] *= np.sqrt(np.mean(r[i, seen[i]] ** 2))
    return residual(), a, b, t, g


@pytest.mark.parametrize("density", [1.0, 0.7])
def test_rows_and_columns_are_standard(density: Any) -> None:
    result = biscale(matrix(0, (30, 25), density), rounds=500)
    assert result.converged
    scaled = result.tensor.to_dense()
    for axis in (0, 1):
        np.testing.assert_allclose(np.nanmean(scaled, axis=axis), 0.0, atol=1e-7)
        np.testing.assert_allclose(np.nanmean(scaled**2, axis=axis), 1.0, atol=1e-7)


@pytest.mark.parametrize("rounds", [1, 3, 20])
def test_against_a_plain_loop(rounds: Any) -> None:
    tensor = matrix(1, density=0.8)
    result = biscale(tensor, rounds=rounds, tol=0.0)
    scaled, a, b, t, g = plain_loop(tensor.to_dense(), rounds)
    np.testing.assert_allclose(result.tensor.to_dense(), scaled, atol=1e-9)
    found = (result.row_mean, result.column_mean, result.row_scale, result.column_scale)
    for got, want in zip(found, (a, b, t, g), strict=True):
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-9)
    assert result.rounds == rounds


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_are_scaled_apart(axis: Any) -> None:
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(6, 6, 6)) * rng.uniform(1, 5, 6) + 3
    dense[rng.random(dense.shape) < 0.1] = np.nan
    whole = biscale(tv.ObservedTensor.from_dense(dense), slice_mode=axis, rounds=6, tol=0.0).tensor.to_dense()
    for k in range(6):
        alone = biscale(tv.ObservedTensor.from_dense(np.take(dense, k, axis)), rounds=6, tol=0.0).tensor.to_dense()
        np.testing.assert_allclose(np.take(whole, k, axis), alone, atol=1e-9)


def test_held_out_entries_and_the_way_back() -> None:
    tensor = matrix(3, (12, 10), 0.9)
    held, train = tensor.take(slice(0, 20)), tensor.take(slice(20, None))
    result = biscale(train)
    np.testing.assert_allclose(result.transform(train).values, result.tensor.values, rtol=1e-12)
    scaled = result.transform(held)
    np.testing.assert_allclose(result.restore(held.coords, scaled.values), held.values, rtol=1e-10)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.floats(0.02, 0.9), st.sampled_from([(3, 4), (4, 3, 5), (1, 6, 2)]))
def test_sparse_slices_stay_finite_and_come_back(seed: int, density: Any, shape: tuple[int, ...]) -> None:
    """Single entries, rows that means alone explain, constant slices: nothing vanishes or blows up."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 6, shape).astype(float)
    dense[rng.random(shape) > density] = np.nan
    dense.flat[0] = 3.0
    tensor = tv.ObservedTensor.from_dense(dense)
    result = biscale(tensor)
    assert np.isfinite(result.tensor.values).all()
    np.testing.assert_allclose(result.restore(tensor.coords, result.tensor.values), tensor.values, rtol=1e-9)


def test_it_says_that_it_depends_on_the_data() -> None:
    assert "data-dependent" in biscale(matrix(0)).warning
    assert biscale(matrix(0).with_bounds((-50, 50))).tensor.bounds is None


def test_parameter_errors() -> None:
    with pytest.raises(tv.InputError, match="order 4"):
        biscale(tv.ObservedTensor([[0, 0, 0, 0]], [1.0], shape=(2, 2, 2, 2)))
    with pytest.raises(tv.InputError, match="rounds must be"):
        biscale(matrix(0), rounds=0)
    with pytest.raises(tv.InputError, match="tol must be"):
        biscale(matrix(0), tol=-1.0)
    with pytest.raises(tv.InputError, match="mode must be"):
        biscale(tv.ObservedTensor([[0, 0, 0]], [1.0], shape=(2, 2, 2)), slice_mode=5)


def test_least_scale_keeps_scales_from_vanishing() -> None:
    """Two entries in a row that the column means explain: without a floor the row's scale runs to zero."""
    tensor = tv.ObservedTensor([[0, 0], [0, 1], [1, 1]], [1.0, 2.0, 5.0], shape=(2, 2))
    result = biscale(tensor, least_scale=0.25)
    assert result.row_scale.min() >= 0.25
    assert result.column_scale.min() >= 0.25 * tensor.values.std()
    with pytest.raises(tv.InputError, match="least_scale must be"):
        biscale(tensor, least_scale=0.0)
