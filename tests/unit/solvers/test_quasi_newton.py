"""Quasi-Newton fits over all cells: the gradient against finite differences, the optimum against another solver."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.kernels import deviances
from tensorveil.solvers.lbfgs import _Grid, _Layout, _Listed
from tensorveil.solvers.losses import LOSSES, find_loss
from tensorveil.solvers.task import Task
from tensorveil.tensor.entries import MemoryEntries

SHAPES = [(7, 5), (5, 4, 6), (4, 3, 5, 2), (3, 2, 4, 2, 2)]
VALUES: dict[str, Any] = {
    "gaussian": lambda rng, n: rng.normal(size=n),
    "poisson": lambda rng, n: rng.poisson(2.0, n).astype(float),
    "bernoulli": lambda rng, n: np.ones(n),
    "gamma": lambda rng, n: rng.gamma(2.0, 1.0, n) + 1e-3,
}


def run(tasks: Any) -> Any:
    return [task() for task in tasks]


def task_of(shape: Any, loss: Any, *, zeros: Any, same: Any = (), biases: Any = True) -> Any:
    rng = np.random.default_rng(0)
    n = math.prod(shape)
    cells = rng.permutation(n)
    listed, left_out = cells[: n // 3], cells[n // 3 : n // 3 + 4]
    columns = np.stack(np.unravel_index(listed, shape)).astype(np.int32)
    excluded = np.stack(np.unravel_index(left_out, shape)).astype(np.int32)
    return Task(
        entries=MemoryEntries(columns=columns, values=VALUES[loss.name](rng, len(listed)), shape=shape),
        ranks=(3,) * len(shape), core=False, baseline="biases" if biases else "mean", dtype=np.dtype(float), threads=1,
        seed=0, loss=loss, zeros=zeros, excluded=excluded if zeros else np.empty((0, 0), np.int32), same=same,
    )  # fmt: skip


def brute(task: Any, layout: Any, x: Any, weight: Any) -> float:
    """The loss, every cell written out."""
    rows, biases, offset = layout.parts(x)
    grid = np.stack(np.unravel_index(np.arange(math.prod(task.shape)), task.shape))
    own = [rows[layout.place(mode)][grid[mode]] for mode in range(task.order)]
    linear = np.prod(own, axis=0).sum(axis=1) + offset.sum()
    for mode in range(task.order) if len(biases) else ():
        linear = linear + biases[layout.place(mode)][grid[mode]]
    truth, weights = np.zeros(len(linear)), np.full(len(linear), weight if task.zeros else 0.0)
    place = np.ravel_multi_index(tuple(task.columns), task.shape)
    truth[place], weights[place] = task.values, 1.0
    if task.zeros:
        weights[np.ravel_multi_index(tuple(task.excluded), task.shape)] = 0.0
    known = weights > 0
    return float(weights[known] @ task.loss.value(truth[known], linear[known]))


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=len)
@pytest.mark.parametrize("name", list(LOSSES))
def test_value_and_gradient_over_all_cells(name: Any, shape: Any, zeros: Any) -> None:
    if zeros and name == "gamma":
        pytest.skip("zeros are not positive")
    same = ((0, 2),) if len(shape) == 3 else ()
    shape = (5, 4, 5) if same else shape
    task = task_of(shape, LOSSES[name], zeros=zeros, same=same)
    layout = _Layout.of(task)
    cells: Any = _Grid(layout, task.values, 0.0, 0.3) if zeros else _Listed(layout, task.values)
    x = np.random.default_rng(1).normal(0.0, 0.7, layout.size)
    gradient = np.zeros_like(x)
    value = cells.descend(x, gradient, run)
    assert value == pytest.approx(brute(task, layout, x, 0.3), rel=1e-10)
    for k in range(0, len(x), 5):
        step = np.zeros_like(x)
        step[k] = 1e-6
        slope = (brute(task, layout, x + step, 0.3) - brute(task, layout, x - step, 0.3)) / 2e-6
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_compiled_deviances_are_those_in_numpy(name: Any) -> None:
    rng = np.random.default_rng(2)
    n = 9001  # more than two blocks
    x = (rng.random(n) < 0.3) * (1.0 if name == "bernoulli" else rng.integers(1, 9, n))
    m = np.concatenate([rng.normal(0, 5, n - 6), [-90.0, 90.0, 0.0, -0.0, 79.9, -79.9]])
    w, slopes = rng.random(n), np.empty(n)
    w[:50] = 0.0
    total = getattr(deviances, name)(x, m, w, slopes)
    assert total == pytest.approx(float(w @ LOSSES[name].value(x, m)), rel=1e-12)
    np.testing.assert_allclose(slopes, w * LOSSES[name].gradient(x, m), rtol=1e-8, atol=1e-12)
    assert math.isnan(getattr(deviances, name)(x[:9], np.full(9, np.nan), w[50:59], slopes[:9]))


def links(seed: Any = 3) -> Any:
    rng = np.random.default_rng(seed)
    linear = np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, 2)) for size in (20, 15, 12))) - 1
    coords = np.argwhere(rng.random(linear.shape) < 1 / (1 + np.exp(-2 * linear)))
    return tv.ObservedTensor(coords, np.ones(len(coords)), shape=linear.shape, unlisted="zero")


def test_few_cells_are_fitted_by_all_of_them_to_a_better_optimum_and_for_every_number_of_threads() -> None:
    tensor = links()
    options: dict[str, Any] = {"loss": "bernoulli", "random_state": 0, "regularization": 0.5}
    fits = [tv.CP(2, **options, threads=threads).fit(tensor) for threads in (1, 2)]
    assert np.array_equal(fits[0].model_.factors[1], fits[1].model_.factors[1])
    asked = tv.CP(2, **options, solver="lbfgs", threads=1).fit(tensor)
    assert np.array_equal(asked.model_.factors[0], fits[0].model_.factors[0])
    assert fits[0].converged_
    totals = []
    for fit in (fits[0], tv.CP(2, **options, solver="adam").fit(tensor)):
        penalty = sum(float(np.sum(factor**2)) for factor in fit.model_.factors)
        deviance = find_loss("bernoulli").value(tensor.to_dense(), fit.model_.link.linear(fit.dense())).sum()
        totals.append(float(deviance) + 0.5 * penalty)
    assert totals[0] <= totals[1] * (1 + 1e-6)
    errors = [record.train_error for record in fits[0].history_]
    assert errors[-1] < errors[0]
    # At an optimum every expected total is the observed one, as the offset is not penalised.
    assert fits[0].dense().sum() == pytest.approx(tensor.n_entries, rel=1e-3)


def test_objectives_fall_in_every_sweep_over_all_cells() -> None:
    rng = np.random.default_rng(4)
    x = rng.poisson(np.einsum("ir,jr,kr->ijk", *(rng.gamma(0.5, 1.0, (size, 2)) for size in (15, 12, 10))))
    coords = np.argwhere(x)
    tensor = tv.ObservedTensor(coords, x[tuple(coords.T)].astype(float), shape=x.shape, unlisted="zero")
    both: tuple[dict[str, Any], ...] = ({"loss": "poisson", "nonnegative": True}, {"solver": "als"})
    for options in both:
        fit = tv.CP(3, **options, random_state=0, regularization=0.0, sweeps=40, tol=0.0).fit(tensor)
        errors = [record.train_error for record in fit.history_]
        assert all(b <= a * (1 + 1e-9) for a, b in pairwise(errors))


def test_where_it_cannot_be_used_it_says_so() -> None:
    tensor = links()
    with pytest.raises(tv.InputError, match=r'solver="lbfgs" cannot fit .*nonnegative=True'):
        tv.CP(2, loss="bernoulli", nonnegative=True, solver="lbfgs").fit(tensor)
    with pytest.raises(tv.InputError, match=r'solver="lbfgs" cannot fit .*a core'):
        tv.Tucker(2, loss="bernoulli", solver="lbfgs").fit(tensor)
    with pytest.raises(tv.InputError, match=r'solver="lbfgs" is for CP with factors of any sign'):
        tv.Tucker(2, solver="lbfgs").fit(tensor.with_unlisted("unknown"))
    with pytest.raises(tv.InputError, match=r"learning_rate has no meaning for solver=\"lbfgs\""):
        tv.CP(2, loss="bernoulli", learning_rate=0.1).fit(tensor)


@pytest.mark.parametrize(
    ("value", "gradient", "message"),
    [
        (lambda x, m: np.full(len(x), np.nan), lambda x, m: m - x, "loss must be finite, with a finite gradient"),
        (lambda x, m: (m - x) ** 2, lambda x, m: (m - x)[:1], "must return one number per entry"),
        (lambda x, m: float(np.sum((m - x) ** 2)), lambda x, m: m - x, "must return one number per entry"),
        (3, lambda x, m: m - x, "value and gradient must be functions"),
    ],
)
def test_losses_of_ones_own_are_checked(value: Any, gradient: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        tv.CP(1, loss=tv.Loss(name="mine", value=value, gradient=gradient)).fit(links())
