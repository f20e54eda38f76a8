"""Users' compiled solutions against plain numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.kernels import users
from users_reference import add_bounded


def problem(seed=0, d=5, n=30):
    rng = np.random.default_rng(seed)
    pointers = np.array([0, 7, 9, n])
    root = rng.normal(size=(d, d))
    return pointers, rng.normal(size=(n, d)), rng.normal(size=n), root @ root.T + np.eye(d), rng.normal(size=d)


def ridge(design, target, precision, mean):
    return np.linalg.solve(design.T @ design + precision, design.T @ target + precision @ mean)


def test_ridge_regression_of_every_user():
    pointers, X, y, P, mean = problem()
    out = np.empty((3, 5))
    users.ridge_users(pointers, X, y, P, mean, out)
    for i in range(3):
        part = slice(pointers[i], pointers[i + 1])
        np.testing.assert_allclose(out[i], ridge(X[part], y[part], P, mean), rtol=1e-10)


def test_leaving_one_out_is_solving_without_it():
    pointers, X, y, P, mean = problem()
    out, left = np.empty((30, 2)), np.empty(30)
    users.leave_one_out(pointers, X, y, P, mean, 3, out, left)
    for i in range(3):
        everyone = np.arange(pointers[i], pointers[i + 1])
        for p in everyone:
            rest = everyone[everyone != p]
            want = ridge(X[rest], y[rest], P, mean)
            np.testing.assert_allclose(out[p], want[3:], rtol=1e-8)
            np.testing.assert_allclose(left[p], y[p] - X[p, :3] @ want[:3], rtol=1e-8)


def test_moments_of_tastes():
    pointers, X, y, P, _ = problem()
    tastes, moments, errors = np.empty((3, 5)), np.empty((3, 15)), np.empty((3, 2))
    users.taste_moments(pointers, X, y, P, 0.7, tastes, moments, errors)
    for i in range(3):
        part = slice(pointers[i], pointers[i + 1])
        inverse = np.linalg.inv(X[part].T @ X[part] + P)
        mean = inverse @ X[part].T @ y[part]
        np.testing.assert_allclose(tastes[i], mean, rtol=1e-9)
        second = np.outer(mean, mean) + 0.7 * inverse
        np.testing.assert_allclose(moments[i], second[np.tril_indices(5)], rtol=1e-9)
        n = part.stop - part.start
        left = y[part] - X[part] @ mean
        free = (n - np.trace(inverse @ X[part].T @ X[part])) / n
        np.testing.assert_allclose(errors[i], [np.mean(left**2) / 0.7, free], rtol=1e-9)


@given(seed=st.integers(0, 10**6), width=st.integers(1, 3), scale=st.sampled_from([1e-3, 1.0, 1e6]))
def test_bounded_sums_are_those_of_the_definition(seed, width, scale):
    rng = np.random.default_rng(seed)
    pointers = np.array([0, 4, 4, 9])
    columns = rng.integers(0, 3, (2, 9)).astype(np.int32)
    offsets, scales = np.array([0, 3]), np.array([1.0, 0.5])
    parts, own = scale * rng.normal(size=(9, width)), scale * rng.normal(size=(3, 2))
    size, limit = 6 * width + 2, 1 << 24
    outs = []
    for add in (users.add_bounded, add_bounded):
        out, scratch = np.zeros(size, dtype=np.int64), np.zeros(size)
        given = (pointers, columns, offsets, scales, width, parts, own, 1000.0, limit, scratch, np.empty(10, np.int64))
        add(*given, out)
        assert not scratch.any()
        outs.append(out)
    assert np.abs(outs[0] - outs[1]).max() <= 3  # a step per user, where a float is rounded differently


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e308])
def test_what_is_no_number_is_left_out_or_bounded(wild):
    """A state that went wrong must not make a contribution longer."""
    pointers, columns = np.array([0, 2, 3]), np.array([[0, 1, 2]], dtype=np.int32)
    parts, own = np.array([[wild], [1.0], [0.5]]), np.empty((2, 0))
    out, scratch = np.zeros(3, dtype=np.int64), np.zeros(3)
    places = np.empty(2, np.int64)
    users.add_bounded(
        pointers, columns, np.zeros(1, int), np.ones(1), 1, parts, own, 1.0, 1 << 24, scratch, places, out
    )
    assert out.tolist() == [0, 0, 0]  # 0.5 of a step is cut off towards zero
    assert not scratch.any()


def test_pairs_of_equal_keys():
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


def test_lengths_count_repeated_rows_linearly():
    pointers, columns = np.array([0, 3, 4]), np.array([[5, 5, 1, 0], [0, 1, 1, 0]], dtype=np.int32)
    out, scratch = np.empty(2), np.zeros(8)
    users.slice_norms(pointers, columns, np.array([0, 6]), np.array([1.0, 2.0]), scratch, out)
    np.testing.assert_allclose(out, np.sqrt([2**2 + 1 + 4 * (1 + 2**2), 1 + 4]))
    assert not scratch.any()
