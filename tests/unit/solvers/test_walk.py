"""Smooth priors against dense Gaussian posteriors, and what they are for: rows that nothing was observed of."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.kernels.coupled import RowSums
from tensorveil.kernels.posterior import Posterior, triangle
from tensorveil.solvers.priors.walk import Walk

SIZE, RANK, VARIANCE = 6, 2, 0.7
PHI, ALPHA, CENTER = np.array([0.0, 0.8]), np.array([2.0, 0.5]), np.array([0.3, -1.0])


def precision_of(phi: float, alpha: float, size: int, cycle: bool) -> Any:
    """The prior's precision: inverse of a stationary process' covariance, or the circulant of its own terms."""
    if not cycle:
        distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
        return alpha * np.linalg.inv(phi**distance)
    step = np.eye(size) - phi * np.roll(np.eye(size), 1, axis=0)
    return alpha / (1 - phi**2) * step.T @ step


def joint_precision(walk: Walk) -> Any:
    out = np.zeros((SIZE, RANK, SIZE, RANK))
    for r in range(RANK):
        within = precision_of(PHI[r], ALPHA[r], SIZE, walk.cycle)
        out[np.ix_(walk.order, np.array([r]), walk.order, np.array([r]))] = within[:, None, :, None]
    return out.reshape(SIZE * RANK, SIZE * RANK)


def some_sums(rng: np.random.Generator) -> RowSums:
    designs = [rng.standard_normal((n, RANK)) for n in (4, 0, 3, 5, 1, 2)]
    values = [rng.standard_normal(len(design)) for design in designs]
    return RowSums(
        gram=np.stack([d.T @ d for d in designs]),
        target=np.stack([d.T @ y for d, y in zip(designs, values, strict=True)]),
        design=np.stack([d.sum(axis=0) for d in designs]),
        value=np.array([y.sum() for y in values]),
        count=np.array([float(len(d)) for d in designs]),
    )


@pytest.fixture(params=[False, True], ids=["walk", "cycle"])
def walk(request: pytest.FixtureRequest) -> Walk:
    order = np.array([2, 0, 5, 1, 4, 3])
    return Walk(order=order, cycle=request.param, phi=PHI.copy(), cross=np.zeros(RANK))


@pytest.mark.parametrize("beta", [None, 3.0])
def test_rows_are_the_dense_posterior(walk: Walk, beta: float | None) -> None:
    rng = np.random.default_rng(0)
    sums, old = some_sums(rng), rng.standard_normal(SIZE)
    prior = joint_precision(walk)
    dense = prior.copy().reshape(SIZE, RANK, SIZE, RANK)
    for i in range(SIZE):
        dense[i, :, i, :] += sums.gram[i] / VARIANCE
    dense = dense.reshape(SIZE * RANK, -1)
    known = old if beta is not None else np.zeros(SIZE)
    right = (sums.target - known[:, None] * sums.design) / VARIANCE
    right = right.ravel() + prior @ np.tile(CENTER, SIZE)

    f, second, b, b_var, logdet = walk.solve(sums, CENTER, ALPHA, VARIANCE, beta, old)

    np.testing.assert_allclose(f.ravel(), np.linalg.solve(dense, right), rtol=1e-9)
    covariance = np.linalg.inv(dense).reshape(SIZE, RANK, SIZE, RANK)
    for i in range(SIZE):
        np.testing.assert_allclose(second[i] - np.outer(f[i], f[i]), covariance[i, :, i, :], atol=1e-12)
    assert logdet == pytest.approx(-np.linalg.slogdet(dense)[1])
    if beta is None:
        assert not b.any()
        assert not b_var.any()
    else:
        np.testing.assert_allclose(b_var, 1 / (sums.count / VARIANCE + beta))
        np.testing.assert_allclose(b, b_var * (sums.value - np.sum(sums.design * f, axis=1)) / VARIANCE)


def posterior_of(f: Any, second: Any) -> Posterior:
    low, high = np.tril_indices(RANK)
    return Posterior(
        shape=(SIZE,), ranks=(RANK,), starts=np.zeros(1, np.int64), mean=f, second=second[:, low, high].copy(),
        bias=np.zeros(SIZE), bias_variance=np.zeros(SIZE),
    )  # fmt: skip


def test_evidence_is_the_expected_log_density(walk: Walk) -> None:
    f, second, *_ = walk.solve(some_sums(np.random.default_rng(1)), CENTER, ALPHA, VARIANCE, None, np.zeros(SIZE))
    prior = joint_precision(walk)
    # The expectation needs the covariance of neighbours too, so it is taken from the dense posterior.
    dense = prior.reshape(SIZE, RANK, SIZE, RANK).copy()
    sums = some_sums(np.random.default_rng(1))
    for i in range(SIZE):
        dense[i, :, i, :] += sums.gram[i] / VARIANCE
    covariance = np.linalg.inv(dense.reshape(SIZE * RANK, -1))
    off = f.ravel() - np.tile(CENTER, SIZE)
    expected = 0.5 * (np.linalg.slogdet(prior)[1] - off @ prior @ off - np.trace(prior @ covariance) + SIZE * RANK)

    assert walk.evidence(posterior_of(f, second), 0, CENTER, ALPHA) == pytest.approx(expected)
    assert posterior_of(f, second).second.shape == (SIZE, triangle(RANK))


def test_learning_the_prior_raises_the_evidence(walk: Walk) -> None:
    f, second, *_ = walk.solve(some_sums(np.random.default_rng(2)), CENTER, ALPHA, VARIANCE, None, np.zeros(SIZE))
    posterior = posterior_of(f, second)

    def with_pseudo_row(center: Any, alpha: Any) -> float:  # the row at zero that is the center's own prior
        return walk.evidence(posterior, 0, center, alpha) + 0.5 * float(np.sum(np.log(alpha) - alpha * center**2))

    before = with_pseudo_row(CENTER, ALPHA)
    for _ in range(5):
        center, alpha = walk.learn(posterior, 0, ALPHA)
        after = with_pseudo_row(center, alpha)
        assert after >= before - 1e-9
        before = after


def smooth_problem(seed: int = 0) -> tuple[Any, Any]:
    """Sensors by days by hours, smooth in hours; hours 7 to 9 and day 4 have nothing observed."""
    rng = np.random.default_rng(seed)
    hours = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    curves = np.stack([np.sin(hours), np.cos(hours), np.sin(2 * hours)], axis=1)
    days = 1 + 0.2 * np.cumsum(rng.standard_normal((10, 3)), axis=0)
    truth = np.einsum("ir,jr,kr->ijk", rng.standard_normal((12, 3)), days, curves)
    seen = rng.random(truth.shape) < 0.3
    seen[:, :, 7:10] = False
    seen[:, 4] = False
    values = truth + 0.2 * rng.standard_normal(truth.shape)
    tensor = tv.ObservedTensor(np.argwhere(seen), values[seen], shape=truth.shape, modes=("sensor", "day", "hour"))
    return tensor, truth


@pytest.mark.parametrize("solver", ["bayes", "als"])
def test_hours_and_days_without_entries_lie_between_their_neighbours(solver: str) -> None:
    tensor, truth = smooth_problem()
    settings: dict[str, Any] = {"rank": 4, "solver": solver, "random_state": 0, "threads": 1}
    plain = tv.CP(**settings).fit(tensor).dense()
    smooth = tv.CP(**settings, smooth={"hour": "cycle", "day": "walk"}).fit(tensor).dense()

    def error(dense: Any, cells: Any) -> float:
        return float(np.sqrt(np.mean((dense[cells] - truth[cells]) ** 2)))

    spread = truth.std()
    for cells in (np.s_[:, :, 7:10], np.s_[:, 4]):
        assert error(smooth, cells) < 0.6 * error(plain, cells)
    assert error(smooth, np.s_[:, :, 7:10]) < 0.5 * spread


def test_tucker_and_matrices_take_smooth_modes() -> None:
    tensor, truth = smooth_problem()
    for smooth in (None, {"hour": "cycle"}):
        dense = tv.Tucker((3, 3, 3), random_state=0, threads=1, smooth=smooth).fit(tensor).dense()
        off = np.sqrt(np.mean((dense - truth)[:, :, 7:10] ** 2)) / truth.std()
        assert off < 0.6 if smooth else off > 0.6
    columns = np.stack([tensor.columns[0], tensor.columns[1] * 24 + tensor.columns[2]], axis=1)
    matrix = tv.ObservedTensor(columns, tensor.values, shape=(12, 240), modes=("sensor", "time"))
    fitted = tv.LowRankMatrix(random_state=0, threads=1, smooth={"time": "walk"}).fit(matrix)
    plain = tv.LowRankMatrix(random_state=0, threads=1).fit(matrix)
    flat = truth.reshape(12, 240)
    assert np.mean((fitted.dense() - flat) ** 2) < 0.8 * np.mean((plain.dense() - flat) ** 2)


def test_the_bound_rises_and_a_mode_that_is_not_smooth_loses_nothing() -> None:
    problem = tv.paper_problem("cp", random_state=0)
    plain = tv.CP(3, random_state=0, threads=1).fit(problem.train)
    smooth = tv.CP(3, random_state=0, threads=1, smooth={0: "walk"}).fit(problem.train)
    bounds = [record.bound for record in smooth.history_ if record.bound is not None][4:]
    assert all(b >= a - 1e-6 * abs(a) for a, b in pairwise(bounds))
    assert smooth.rmse(problem.held_out) < 1.03 * plain.rmse(problem.held_out)
