"""Chains of rows against the dense Gaussian posterior that they factorise."""

import numpy as np
import pytest

from tensorveil.kernels.chain import solve_chain


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(("size", "cycle"), [(1, False), (2, False), (7, False), (3, True), (4, True), (9, True)])
def test_a_chain_is_the_dense_posterior(size: int, cycle: bool, rank: int) -> None:
    rng = np.random.default_rng(size)
    root = rng.standard_normal((size, rank, rank + 2))
    blocks = root @ root.transpose(0, 2, 1) + 3 * np.eye(rank)
    coupling, right = -rng.uniform(0.2, 0.9, rank), rng.standard_normal((size, rank))
    dense = np.zeros((size, rank, size, rank))
    pairs = [(t, t + 1) for t in range(size - 1)] + ([(size - 1, 0)] if cycle else [])
    for t in range(size):
        dense[t, :, t, :] = blocks[t]
    for s, t in pairs:
        dense[s, :, t, :] += np.diag(coupling)
        dense[t, :, s, :] += np.diag(coupling)
    flat = dense.reshape(size * rank, size * rank)
    covariance = np.linalg.inv(flat).reshape(size, rank, size, rank)

    mean, spread, cross, logdet = solve_chain(blocks, right, coupling, cycle=cycle)

    np.testing.assert_allclose(mean.ravel(), np.linalg.solve(flat, right.ravel()), rtol=1e-9)
    for t in range(size):
        np.testing.assert_allclose(spread[t], covariance[t, :, t, :], rtol=1e-9, atol=1e-12)
    expected = sum((np.diag(covariance[s, :, t, :]) for s, t in pairs), np.zeros(rank))
    np.testing.assert_allclose(cross, expected, rtol=1e-9, atol=1e-12)
    assert logdet == pytest.approx(-np.linalg.slogdet(flat)[1])
