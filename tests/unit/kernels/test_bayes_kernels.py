"""The variational updates against a direct transcription of their formulas, orders 2 to 5."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from tensorveil.kernels.bayes_cp import Precisions, cp_bayes_mode
from tensorveil.kernels.bayes_tucker import CorePosterior, tucker_bayes_core, tucker_bayes_mode
from tensorveil.kernels.posterior import random_posterior
from tensorveil.kernels.rows import build_rows

SHAPES = {2: (5, 7), 3: (5, 6, 4), 4: (4, 3, 5, 3), 5: (3, 4, 2, 3, 2)}
VARIANCE = 0.7


def entries(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    cells = np.array(list(product(*map(range, shape))))
    chosen = cells[rng.permutation(len(cells))[: max(12, len(cells) // 3)]]
    chosen = chosen[chosen[:, 0] != 1]  # a row without entries
    return np.ascontiguousarray(chosen.T.astype(np.int32)), rng.standard_normal(len(chosen))


def full(posterior: Any, mode: Any, i: Any) -> Any:
    """E[ff'] of one row as a matrix."""
    rank = posterior.ranks[mode]
    out = np.zeros((rank, rank))
    low = np.tril_indices(rank)
    out[low] = posterior.second[posterior.starts[mode] + i, : len(low[0])]
    return out + out.T - np.diag(np.diag(out))


def given_biases(posterior: Any, rng: np.random.Generator) -> None:
    posterior.bias[:] = rng.standard_normal(len(posterior.bias))
    posterior.bias_variance[:] = rng.uniform(0.1, 0.2, len(posterior.bias))


def row_system(columns: Any, values: Any, posterior: Any, mode: Any, i: Any, design: Any) -> Any:
    """Sums over one row's entries, entry by entry; ``design`` gives E[h], E[hh'] of an entry."""
    rank = posterior.ranks[mode]
    S, v, u, y_sum, y_square, n = np.zeros((rank, rank)), np.zeros(rank), np.zeros(rank), 0.0, 0.0, 0
    for e in np.flatnonzero(columns[mode] == i):
        at = [posterior.starts[k] + columns[k, e] for k in range(len(columns)) if k != mode]
        y = values[e] - posterior.bias[at].sum()
        h, hh = design(columns[:, e])
        S, v, u = S + hh, v + y * h, u + h
        y_sum, y_square, n = y_sum + y, y_square + y * y + posterior.bias_variance[at].sum(), n + 1
    return S, v, u, y_sum, y_square, n


def solved(system: Any, center: Any, alpha: Any, beta: Any) -> Any:
    """Mean and covariance of the row, bias and its variance, and the expected residual."""
    S, v, u, y_sum, y_square, n = system
    w = v + VARIANCE * alpha * center
    C = np.linalg.inv(S / VARIANCE + np.diag(alpha))
    b, b_var = 0.0, 0.0
    if beta is None:
        f = C @ w / VARIANCE
    else:
        b_var = 1 / (n / VARIANCE + beta)
        top = np.linalg.inv(C)
        joint = np.block([[top, u[:, None] / VARIANCE], [u[None] / VARIANCE, np.array([[1 / b_var]])]])
        *f, b = np.linalg.solve(joint, np.append(w, y_sum) / VARIANCE)
        f = np.array(f)
    second = C + np.outer(f, f)
    residual = y_square - 2 * b * y_sum + n * (b * b + b_var) - 2 * f @ (v - b * u) + np.sum(S * second)
    return f, second, b, b_var, residual, np.linalg.slogdet(C)[1]


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("beta", [None, 2.0])
@pytest.mark.parametrize("rank", [1, 3])
def test_cp_rows(order: int, beta: Any, rank: Any) -> None:
    rng = np.random.default_rng(order)
    shape = SHAPES[order]
    columns, values = entries(shape, rng)
    posterior = random_posterior(shape, (rank,) * order, 0.8, rng)
    if beta is not None:
        given_biases(posterior, rng)
    center, alpha = rng.standard_normal(rank), rng.uniform(0.5, 2.0, rank)
    mode = order - 2

    def design(index: Any) -> Any:
        others = [k for k in range(order) if k != mode]
        means = [posterior.mean[posterior.starts[k] + index[k]] for k in others]
        seconds = [full(posterior, k, index[k]) for k in others]
        return np.prod(means, axis=0), np.prod(seconds, axis=0)

    systems = [row_system(columns, values, posterior, mode, i, design) for i in range(shape[mode])]
    expected = [solved(s, center, alpha, beta) for s in systems]
    rows = build_rows(columns, values, shape, mode)
    sums, logdet = cp_bayes_mode(rows, posterior, center, alpha, VARIANCE, beta, threads=2)
    for i, (f, second, b, b_var, _, _) in enumerate(expected):
        np.testing.assert_allclose(posterior.factor(mode)[i], f, atol=1e-10)
        np.testing.assert_allclose(full(posterior, mode, i), second, atol=1e-10)
        if beta is not None:
            assert posterior.bias[posterior.starts[mode] + i] == pytest.approx(b, abs=1e-10)
            assert posterior.bias_variance[posterior.starts[mode] + i] == pytest.approx(b_var)
    assert sums.after == pytest.approx(sum(x[4] for x in expected), abs=1e-8)
    assert logdet == pytest.approx(sum(x[5] for x in expected), abs=1e-8)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("beta", [None, 2.0])
def test_tucker_rows_and_core(order: int, beta: Any) -> None:
    rng = np.random.default_rng(order)
    shape, ranks = SHAPES[order], (2, 3, 1, 2, 2)[:order]
    columns, values = entries(shape, rng)
    posterior = random_posterior(shape, ranks, 0.8, rng)
    if beta is not None:
        given_biases(posterior, rng)
    size = int(np.prod(ranks))
    noise = rng.standard_normal((size, size))
    core = CorePosterior(mean=rng.standard_normal(ranks), covariance=0.01 * noise @ noise.T)
    mode = order - 1
    others = [k for k in range(order) if k != mode]
    flat = core.mean.ravel()
    moment = (core.covariance + np.outer(flat, flat)).reshape(*ranks, *ranks)

    def design(index: Any) -> Any:
        h, hh = core.mean, moment
        for k in reversed(others):  # contract the other modes, last axis first
            mean = posterior.mean[posterior.starts[k] + index[k], : ranks[k]]
            h = np.tensordot(h, mean, axes=(k, 0))
        letters = "abcdefghijklmnop"
        left, right = letters[:order], letters[order : 2 * order]
        terms = ",".join(left[k] + right[k] for k in others)
        seconds = [full(posterior, k, index[k]) for k in others]
        hh = np.einsum(f"{left}{right},{terms}->{left[mode]}{right[mode]}", moment, *seconds)
        return h, hh

    systems = [row_system(columns, values, posterior, mode, i, design) for i in range(shape[mode])]
    center, alpha = rng.standard_normal(ranks[mode]), rng.uniform(0.5, 2.0, ranks[mode])
    expected = [solved(s, center, alpha, beta) for s in systems]
    rows = build_rows(columns, values, shape, mode)
    sums, logdet = tucker_bayes_mode(rows, posterior, core, center, alpha, VARIANCE, beta, threads=2)
    for i, (f, second, b, b_var, _, _) in enumerate(expected):
        np.testing.assert_allclose(posterior.factor(mode)[i], f, atol=1e-9)
        np.testing.assert_allclose(full(posterior, mode, i), second, atol=1e-9)
        if beta is not None:
            assert posterior.bias[posterior.starts[mode] + i] == pytest.approx(b, abs=1e-9)
            assert posterior.bias_variance[posterior.starts[mode] + i] == pytest.approx(b_var)
    assert logdet == pytest.approx(sum(x[5] for x in expected), abs=1e-8)
    check_core(columns, values, posterior, core, sums, ranks)


def check_core(columns: Any, values: Any, posterior: Any, core: Any, sums: Any, ranks: Any) -> None:
    """The core's update against the regression on Kronecker products, entry by entry."""
    order, size = len(ranks), int(np.prod(ranks))
    gram, target, square = np.zeros((size, size)), np.zeros(size), 0.0
    for e in range(len(values)):
        at = [posterior.starts[k] + columns[k, e] for k in range(order)]
        y = values[e] - posterior.bias[at].sum()
        mean, second = np.ones(1), np.ones((1, 1))
        for k in range(order):
            mean = np.kron(mean, posterior.mean[at[k], : ranks[k]])
            second = np.kron(second, full(posterior, k, columns[k, e]))
        gram, target = gram + second, target + y * mean
        square += y * y + posterior.bias_variance[at].sum()
    gamma = 1.3
    covariance = np.linalg.inv(gram / VARIANCE + gamma * np.eye(size))
    mean = covariance @ target / VARIANCE
    residual, logdet = tucker_bayes_core(sums, core, gamma, VARIANCE)
    np.testing.assert_allclose(core.mean.ravel(), mean, atol=1e-9)
    np.testing.assert_allclose(core.covariance, covariance, atol=1e-9)
    moment = covariance + np.outer(mean, mean)
    assert residual == pytest.approx(square - 2 * mean @ target + np.sum(gram * moment), abs=1e-8)
    assert logdet == pytest.approx(np.linalg.slogdet(covariance)[1], abs=1e-8)


def test_threads_do_not_change_the_result() -> None:
    rng = np.random.default_rng(0)
    shape = (40, 30, 20)
    columns = np.stack([rng.integers(0, s, 3000) for s in shape]).astype(np.int32)
    values = rng.standard_normal(3000)
    rows = build_rows(columns, values, shape, 0)
    results = []
    for threads in (1, 2, 3):
        posterior = random_posterior(shape, (4,) * 3, 0.5, np.random.default_rng(1))
        sums = cp_bayes_mode(rows, posterior, np.zeros(4), np.ones(4), VARIANCE, 1.0, threads=threads)
        results.append((sums, posterior.mean.copy()))
    assert results[0][0] == results[1][0] == results[2][0]
    np.testing.assert_array_equal(results[0][1], results[2][1])


def test_rows_with_precisions_of_their_own() -> None:
    """A table of precisions: rows are weighted ridge solutions, weights looked up by residuals before the step."""
    rng = np.random.default_rng(8)
    columns = np.argwhere(np.ones((4, 6))).T.astype(np.int32)
    values = rng.standard_normal(24)
    rows = build_rows(columns, values, (4, 6), 0)
    posterior = random_posterior((4, 6), (3, 3), 0.5, rng)
    logs = np.array([0.0, -1.0, -3.0, -4.0])
    law = Precisions(table=np.array([4.0, 2.0, 1.0, 0.5]), step=0.4, logs=logs)
    center, alpha = np.array([0.0, 0.1, 0.2]), np.array([1.0, 2.0, 3.0])
    expected, squares, total, evidence = [], 0.0, 0.0, 0.0
    for i in range(4):
        precision, right = np.diag(alpha), alpha * center
        for j, y in enumerate(values.reshape(4, 6)[i]):
            h, hh = posterior.factor(1)[j], full(posterior, 1, j)
            square = y**2 - 2 * y * posterior.factor(0)[i] @ h + np.sum(full(posterior, 0, i) * hh)
            weight = np.interp(np.sqrt(square), 0.4 * np.arange(4), law.table)
            precision, right, squares = precision + weight * hh, right + weight * y * h, squares + square
            total += weight
            evidence += np.interp(np.sqrt(square), 0.4 * np.arange(4), logs)
        expected.append(np.linalg.solve(precision, right))
    sums, _ = cp_bayes_mode(rows, posterior, center, alpha, VARIANCE, None, precisions=law)
    np.testing.assert_allclose(posterior.factor(0), expected, atol=1e-10)
    assert sums.before == pytest.approx(squares)
    assert sums.weights == pytest.approx(VARIANCE * total)
    assert sums.evidence == pytest.approx(evidence)


def test_rows_without_entries_keep_their_prior() -> None:
    posterior = random_posterior((3, 2), (2, 2), 0.5, np.random.default_rng(0))
    columns = np.array([[0, 2], [0, 1]], dtype=np.int32)
    rows = build_rows(columns, np.ones(2), (3, 2), 0)
    cp_bayes_mode(rows, posterior, np.array([0.0, 2.0]), np.array([4.0, 8.0]), VARIANCE, 5.0)
    np.testing.assert_allclose(full(posterior, 0, 1), np.diag([0.25, 0.125 + 4.0]))
    np.testing.assert_allclose(posterior.factor(0)[1], [0.0, 2.0])
    assert posterior.bias[1] == 0
    assert posterior.bias_variance[1] == pytest.approx(0.2)
