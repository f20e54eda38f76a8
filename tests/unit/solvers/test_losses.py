"""Losses other than squared error, unlisted zeros, signs and shared factors: against brute force over all cells."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.kernels import stochastic
from tensorveil.solvers.loss import GAUSSIAN
from tensorveil.solvers.losses import LOSSES, find_loss
from tensorveil.tensor.unlisted import draw_zeros, known_cells

DRAW: dict[str, Any] = {
    "gaussian": lambda rng, mean: rng.normal(mean, 0.1),
    "poisson": lambda rng, mean: rng.poisson(mean).astype(float),
    "bernoulli": lambda rng, mean: (rng.random(mean.shape) < mean).astype(float),
    "gamma": lambda rng, mean: rng.gamma(4.0, mean / 4.0) + 1e-9,
}


def listed(x: Any, unlisted: Any = "zero") -> Any:
    coords = np.argwhere(x != 0)
    return tv.ObservedTensor(coords, x[tuple(coords.T)], shape=x.shape, unlisted=unlisted)


def everything(x: Any) -> Any:
    coords = np.argwhere(np.ones(x.shape))
    return tv.ObservedTensor(coords, x[tuple(coords.T)], shape=x.shape)


def planted(loss: str, shape: Any, rank: int = 2, seed: int = 0) -> Any:
    """Means of a planted model on the loss's scale, and values drawn around them."""
    rng = np.random.default_rng(seed)
    grid = np.ones((*[1] * len(shape), rank))
    for mode, size in enumerate(shape):
        factor = rng.normal(0.0, 0.8 if len(shape) > 2 else 0.6, (size, rank))
        grid = grid * factor.reshape([size if m == mode else 1 for m in range(len(shape))] + [rank])
    linear = 1.5 * grid.sum(axis=-1)
    mean = LOSSES[loss].link.mean(linear.copy())
    return mean, DRAW[loss](rng, mean)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("name", list(LOSSES))
def test_gradients_are_derivatives_and_deviances_are_zero_at_the_truth(name: Any, nonnegative: Any) -> None:
    loss = find_loss(name, nonnegative=nonnegative)
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.1, 0.9, 60)
    truth = DRAW[name](rng, mean)
    linear = rng.uniform(0.2, 2.0, 60) if nonnegative else rng.normal(size=60)
    step = 1e-6
    slope = (loss.value(truth, linear + step) - loss.value(truth, linear - step)) / (2 * step)
    np.testing.assert_allclose(loss.gradient(truth, linear), slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loss.link.linear(loss.link.mean(linear.copy())), linear, rtol=1e-6)
    positive = truth[truth > 0] if name != "bernoulli" else truth
    assert np.max(np.abs(loss.value(positive, loss.link.linear(positive)))) < 1e-6
    assert np.min(loss.value(truth, linear)) >= 0


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "gamma"])
def test_deviances_are_those_of_the_distributions(name: Any) -> None:
    from scipy import stats

    rng = np.random.default_rng(1)
    mean = rng.uniform(0.2, 0.8, 40)
    truth = np.maximum(DRAW[name](rng, mean), 0.0)
    law: dict[str, Any] = {
        "poisson": lambda m: stats.poisson.logpmf(truth, m),
        "bernoulli": lambda m: stats.bernoulli.logpmf(truth, m),
        "gamma": lambda m: stats.gamma.logpdf(truth, 1.0, scale=m),
    }
    other = rng.uniform(0.2, 0.8, 40)
    change = -2 * (law[name](mean) - law[name](other))
    loss = LOSSES[name]
    values = loss.value(truth, loss.link.linear(mean)) - loss.value(truth, loss.link.linear(other))
    np.testing.assert_allclose(values, change, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(6, 5), (5, 4, 3), (4, 3, 3, 2), (3, 3, 2, 2, 2)], ids=len)
def test_gradients_of_factors_are_derivatives_of_the_loss_over_all_cells(shape: Any) -> None:
    rng = np.random.default_rng(2)
    loss, order = LOSSES["bernoulli"], len(shape)
    rows = rng.normal(size=(sum(shape), 3))
    biases = rng.normal(size=sum(shape))
    starts = np.concatenate([[0], np.cumsum(shape)[:-1]])
    columns = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape)).astype(np.int32)
    truth = np.asarray(rng.random(columns.shape[1]) < 0.4).astype(float)

    def linear() -> Any:
        out = np.empty(len(truth))
        stochastic.linear_at(columns, rows, starts, biases, 0.3, 0, len(truth), out)
        return out

    parts = np.stack([rows[start + column] for start, column in zip(starts, columns, strict=True)])
    brute = 0.3 + parts.prod(axis=0).sum(axis=1)
    brute += sum(biases[start + column] for start, column in zip(starts, columns, strict=True))
    np.testing.assert_allclose(linear(), brute)
    gradient, bias = np.zeros_like(rows), np.zeros_like(biases)
    slopes = loss.gradient(truth, linear())
    for mode in range(order):
        stochastic.add_gradients(columns, rows, starts, slopes, np.array([mode]), gradient, bias)
    for array, found in ((rows, gradient), (biases, bias)):
        for place in [tuple(rng.integers(size) for size in array.shape) for _ in range(8)]:
            ends = []
            for step in (1e-6, -2e-6):
                array[place] += step
                ends.append(float(loss.value(truth, linear()).sum()))
            array[place] += 1e-6
            assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-5)


def test_drawn_cells_are_unlisted_and_uniform_whatever_the_threads() -> None:
    shape = np.array([7, 5, 3])
    rng = np.random.default_rng(3)
    taken = np.stack(np.unravel_index(rng.choice(105, 60, replace=False), (7, 5, 3))).astype(np.int32)
    table = stochastic.build_table(60)
    stochastic.insert_cells(table, taken)
    n = 45_000
    columns, found = np.empty((3, n), np.int32), np.empty(n, np.uint8)
    stochastic.draw_cells(table, shape, np.uint64(9), 0, n, columns, found)
    counts = np.bincount(np.ravel_multi_index(tuple(columns), (7, 5, 3)), minlength=105)
    assert found.all()
    assert not counts[np.ravel_multi_index(tuple(taken), (7, 5, 3))].any()
    free = counts[counts > 0]
    assert len(free) == 45
    assert abs(free - 1000).max() < 200  # six standard deviations
    halves = np.empty_like(columns)
    for low, high in ((0, 20_000), (20_000, n)):
        stochastic.draw_cells(table, shape, np.uint64(9), low, high, halves, found)
    assert np.array_equal(halves, columns)


def test_known_cells_are_all_cells_or_stand_for_all() -> None:
    x = np.zeros((6, 5))
    x[0, 1], x[3, 2] = 2.0, 5.0
    cells = known_cells(listed(x))
    assert np.array_equal(np.sort(np.ravel_multi_index(tuple(cells.columns), x.shape)), np.arange(30))
    assert cells.values.sum() == 7.0
    some, weight = draw_zeros((6, 5), [listed(x).columns], seed=0, most=0, sample=50)
    assert not x[tuple(some)].any()
    assert weight * some.shape[1] == pytest.approx(28)


@pytest.mark.parametrize("weight", [1.0, 0.2])
@pytest.mark.parametrize("shape", [(9, 8), (7, 6, 5)], ids=len)
def test_squared_error_of_unlisted_zeros_in_closed_form_is_that_of_listing_them(shape: Any, weight: Any) -> None:
    _, x = planted("poisson", shape)
    fit = tv.CP(
        2, solver="als", baseline="mean", random_state=0, sweeps=400, tol=0.0, regularization=0.5,
        unlisted_weight=weight,
    ).fit(listed(x))  # fmt: skip
    model = fit.model_
    weights = np.where(x > 0, 1.0, weight)
    squares = float(np.sum(weights * (model.dense() - x) ** 2))
    assert fit.history_[-1].train_error == pytest.approx(math.sqrt(squares / weights.sum()), rel=1e-6)
    # At the optimum the gradient over all cells, written out, is zero.
    scale = math.sqrt(np.mean((x - x.mean()) ** 2))
    factors = [factor / scale ** (1 / len(shape)) for factor in model.factors]
    errors = weights * (model.dense() - x) / scale
    for mode in range(len(shape)):
        columns = np.stack(np.unravel_index(np.arange(x.size), shape))
        design = np.prod([factors[m][columns[m]] for m in range(len(shape)) if m != mode], axis=0)
        gradient = 0.5 * factors[mode]
        np.add.at(gradient, columns[mode], errors.reshape(-1)[:, None] * design)
        assert np.abs(gradient).max() < 1e-4


def test_counts_with_unlisted_zeros_are_fitted_as_if_all_were_listed() -> None:
    rng = np.random.default_rng(4)
    factors = [rng.gamma(0.6, 1.0, (size, 2)) for size in (12, 10, 8)]
    x = rng.poisson(np.einsum("ir,jr,kr->ijk", *factors)).astype(float)
    options: dict[str, Any] = {"loss": "poisson", "nonnegative": True, "random_state": 0, "regularization": 0.0}
    ours = tv.CP(2, **options, sweeps=60, tol=0.0).fit(listed(x))
    dense = tv.CP(2, **options, sweeps=60, tol=0.0).fit(everything(x))
    np.testing.assert_allclose(ours.predict(everything(x)), dense.predict(everything(x)), rtol=1e-5)
    # A Poisson optimum keeps the margins, and is better than the truth.
    np.testing.assert_allclose(ours.dense().sum(axis=(1, 2)), x.sum(axis=(1, 2)), rtol=1e-3, atol=1e-6)
    loss = find_loss("poisson", nonnegative=True)
    deviance = float(loss.value(x, ours.dense()).mean())
    assert deviance < float(loss.value(x, np.einsum("ir,jr,kr->ijk", *factors)).mean())
    assert ours.history_[-1].train_error == pytest.approx(deviance, rel=1e-6)
    errors = [record.train_error for record in ours.history_]
    assert all(b <= a + 1e-9 for a, b in pairwise(errors))


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "gamma"])
@pytest.mark.parametrize("estimator", [tv.CP, tv.Tucker])
def test_planted_models_are_recovered(name: Any, estimator: Any) -> None:
    mean, x = planted(name, (30, 25, 20), seed=5)
    tensor = everything(x) if name == "gamma" else listed(x)
    fit = estimator(2, loss=name, random_state=0, restarts=3, sweeps=60).fit(tensor)
    loss = LOSSES[name]
    deviance = float(loss.value(x, loss.link.linear(fit.dense())).mean())
    best = float(loss.value(x, loss.link.linear(mean)).mean())
    constant = float(loss.value(x, loss.link.linear(np.full(x.shape, x.mean()))).mean())
    assert deviance < best + 0.35 * (constant - best)
    # Only canonical links keep the mean at an optimum; the logarithm is not that of gamma.
    assert fit.dense().mean() == pytest.approx(x.mean(), rel=0.1 if name == "gamma" else 0.05)
    assert fit.score(tensor) == pytest.approx(1 - deviance / constant, abs=1e-6)


def test_adam_is_the_same_for_every_number_of_threads_and_for_a_loss_of_ones_own() -> None:
    _, x = planted("bernoulli", (40, 30, 20))
    own = tv.Loss(
        name="mine", value=LOSSES["bernoulli"].value, gradient=LOSSES["bernoulli"].gradient,
        link=LOSSES["bernoulli"].link, measure="mean deviance",
    )  # fmt: skip
    fits = [
        tv.CP(3, loss=loss, solver="adam", random_state=0, sweeps=4, threads=threads).fit(listed(x))
        for loss, threads in (("bernoulli", 1), ("bernoulli", 2), (own, 1))
    ]
    assert np.array_equal(fits[1].model_.factors[0], fits[0].model_.factors[0])
    # The compiled deviance and the one that is made of its two functions differ in the last digits.
    np.testing.assert_allclose(fits[2].model_.factors[0], fits[0].model_.factors[0], rtol=1e-6, atol=1e-9)
    with pytest.raises(tv.InputError, match="loss of your own cannot be folded into"):
        fits[2].fold_in(tv.ObservedTensor([[0, 1, 1]], [1.0], shape=(1, 30, 20)), 0)


def test_a_fit_whose_steps_lead_nowhere_any_more_has_converged() -> None:
    _, x = planted("poisson", (15, 12, 8))
    long, short = (tv.CP(2, loss="poisson", random_state=0, sweeps=n).fit(everything(x)) for n in (400, 3))
    assert long.converged_
    assert len(long.history_) < 400
    assert not short.converged_


@pytest.mark.parametrize("estimator", [tv.CP, tv.Tucker])
def test_modes_that_are_the_same_thing_share_a_factor(estimator: Any) -> None:
    rng = np.random.default_rng(6)
    x = (rng.random((12, 5, 12)) < 0.3).astype(float)
    modes = [tv.Mode("head"), tv.Mode("relation"), tv.Mode("tail")]
    tensor = listed(x).with_modes(modes)
    fit = estimator(3, loss="bernoulli", same=("head", "tail"), baseline="biases", random_state=0, sweeps=5)
    model = fit.fit(tensor).model_
    assert np.array_equal(model.factors[0], model.factors[2])
    assert np.array_equal(model.biases[0], model.biases[2])
    dense = model.dense()
    assert (np.abs(dense - dense.transpose(2, 1, 0)).max() < 1e-6) == (estimator is tv.CP)  # a core knows directions
    with pytest.raises(tv.InputError, match="same must name modes of the same size"):
        estimator(3, loss="bernoulli", same=("head", "relation")).fit(tensor)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli", "gamma"])
def test_nonnegative_factors_are(name: Any) -> None:
    _, x = planted(name, (15, 12, 8))
    tensor = everything(np.abs(x))
    fit = tv.CP(2, loss=name, nonnegative=True, solver="adam", random_state=0, sweeps=10).fit(tensor)
    assert all(np.all(factor >= 0) for factor in fit.model_.factors)
    assert (fit.model_.offset, fit.model_.biases) == (0.0, None)
    errors = [record.train_error for record in fit.history_]
    assert errors[-1] < errors[0]


@pytest.mark.parametrize(
    "options", [{"solver": "als"}, {"loss": "poisson", "nonnegative": True}, {"loss": "bernoulli"}]
)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_held_out_cells_are_not_taken_for_zeros(options: Any, share: Any) -> None:
    """A fit that counted held-out entries among the zeros would predict that share too little."""
    rng = np.random.default_rng(7)
    x = (rng.random((60, 50, 10)) < 0.2).astype(float)
    fit = tv.CP(1, **options, validation_fraction=share, random_state=0, regularization=0.0, sweeps=15).fit(listed(x))
    assert fit.dense().mean() == pytest.approx(x.mean(), rel=0.05)
    assert fit.history_[0].validation_error is not None


@pytest.mark.parametrize("unlisted", ["unknown", "zero"])
@pytest.mark.parametrize("name", ["poisson", "bernoulli"])
def test_folding_in_rows_finds_those_of_the_fit(name: Any, unlisted: Any) -> None:
    _, x = planted(name, (40, 25, 20), seed=8)
    shown = listed(x, "zero") if unlisted == "zero" else everything(x)
    fit = tv.CP(2, loss=name, random_state=0, sweeps=40).fit(shown)
    first = listed(x[:3], "zero") if unlisted == "zero" else everything(x[:3])
    rows = fit.solve_rows(first, 0, regularization=0.1).rows
    loss = LOSSES[name]
    model = tv.CPModel(
        factors=(rows, *fit.model_.factors[1:]), offset=fit.model_.offset, link=fit.model_.link, loss=name
    )
    new = float(loss.value(x[:3], loss.link.linear(model.dense())).mean())
    old = float(loss.value(x[:3], loss.link.linear(fit.dense()[:3])).mean())
    assert new < old * 1.02
    assert len(fit.fold_in(first, 0).model_.factors[0]) == 43


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1.0, -2.0], {"loss": "poisson"}, r'values must be counts: whole numbers of at least 0 for loss="poisson"'),
        ([1.0, 0.5], {"loss": "poisson"}, r'values must be counts.*loss="gamma"'),
        ([1.0, 2.0], {"loss": "bernoulli"}, r'values must be 0 or 1 for loss="bernoulli". For counts'),
        ([1.0, 0.0], {"loss": "gamma"}, r'values must be above 0 for loss="gamma"'),
        ([1.0, 1.0], {"loss": "weibull"}, r'loss must be one of "gaussian", "poisson", "bernoulli", "gamma"'),
        ([1.0, 1.0], {"loss": "poisson", "solver": "bayes"}, r'solver="bayes" cannot fit loss="poisson". Try'),
        ([1.0, 1.0], {"nonnegative": True, "baseline": "biases"}, r'baseline="biases" has no meaning'),
        ([1.0, -1.0], {"nonnegative": True}, r"values must be at least 0 with nonnegative=True"),
        ([1.0, 1.0], {"unlisted_weight": 0.5}, r"unlisted_weight is for tensors whose unlisted cells are zeros"),
        ([1.0, 1.0], {"same": ("mode_0",)}, r"same must name at least two modes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(values: Any, options: Any, message: Any) -> None:
    tensor = tv.ObservedTensor([[0, 1], [1, 0]], values, shape=(2, 3))
    with pytest.raises(tv.InputError, match=message):
        tv.CP(1, **options).fit(tensor)


def test_bounds_and_unlisted_zeros_must_fit_the_loss() -> None:
    tensor = tv.ObservedTensor([[0, 1], [1, 0]], [1.0, 1.0], shape=(2, 3))
    with pytest.raises(tv.InputError, match=r'bounds must be between 0 and 1 for loss="bernoulli"'):
        tv.CP(1, loss="bernoulli").fit(tensor.with_bounds((0, 5)))
    with pytest.raises(tv.InputError, match=r'bounds must be at least 0 for loss="poisson"'):
        tv.CP(1, loss="poisson").fit(tensor.with_bounds((-1, 5)))
    with pytest.raises(tv.InputError, match=r'unlisted="zero" cannot be fitted with loss="gamma"'):
        tv.CP(1, loss="gamma").fit(tensor.with_unlisted("zero"))
    with pytest.raises(tv.InputError, match=r'bounds must contain 0 with unlisted="zero"'):
        tv.CP(1).fit(tensor.with_bounds((1, 5)).with_unlisted("zero"))
    with pytest.raises(tv.InputError, match=r'unlisted="zero" needs unit="entry"'):
        tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=(0, 1)).fit(tensor.with_unlisted("zero"))
    with pytest.raises(tv.InputError, match=r'rank="auto" is for squared error of listed entries'):
        tv.LowRankMatrix(loss="bernoulli").fit(tensor)
    assert GAUSSIAN.reach == (-math.inf, math.inf)
