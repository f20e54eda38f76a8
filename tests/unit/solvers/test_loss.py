"""The two seams under the solvers: another loss, and entries that are not kept as one array."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.models.link import Link
from tensorveil.solvers.als import ALS, solve_als
from tensorveil.solvers.loss import GAUSSIAN, Loss, rmse
from tensorveil.solvers.task import Scaling, Solution, Task, standard_scaling
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import Block, MemoryEntries

# What a second loss would bring along: counts, predicted as exponentials.
LOG = Link(name="log", mean=np.exp, linear=np.log)
POISSON = Loss(
    name="poisson",
    value=lambda truth, linear: np.exp(linear) - truth * linear,
    gradient=lambda truth, linear: np.exp(linear) - truth,
    link=LOG,
    measure="mean loss",
    summary=float,
    domain="whole numbers of at least 0",
    accepts=lambda values: bool((values >= 0).all() and (values == np.rint(values)).all()),
)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Entries in several pieces, as a store on disk would keep them."""

    pieces: tuple[Block, ...]
    shape: tuple[int, ...]

    @property
    def n_entries(self) -> Any:
        return sum(len(piece.values) for piece in self.pieces)

    def blocks(self, most: Any = None) -> Iterator[Any]:
        yield from self.pieces

    def load(self) -> Any:
        return MemoryEntries(
            columns=np.concatenate([piece.columns for piece in self.pieces], axis=1),
            values=np.concatenate([piece.values for piece in self.pieces]),
            shape=self.shape,
        )


def in_parts(entries: Any, most: Any) -> Any:
    return Parts(pieces=tuple(entries.blocks(most)), shape=entries.shape)


def task_of(entries: Any, **changes: Any) -> Any:
    facts = {"ranks": (2, 2, 2), "core": False, "baseline": "mean", "dtype": np.dtype(float), "threads": 1, "seed": 0}
    return Task(entries=entries, **{**facts, **changes})


@pytest.mark.parametrize("loss", [GAUSSIAN, POISSON], ids=lambda loss: loss.name)
def test_gradients_are_derivatives_of_values(loss: Any) -> None:
    rng = np.random.default_rng(0)
    truth, linear, step = rng.integers(0, 9, 50).astype(float), rng.normal(size=50), 1e-6
    slope = (loss.value(truth, linear + step) - loss.value(truth, linear - step)) / (2 * step)
    np.testing.assert_allclose(loss.gradient(truth, linear), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_squared_error_is_measured_as_its_root_mean_and_scored_as_r_squared(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(3.0, 1.0, 500)
    prediction = (truth + 0.3 * rng.normal(size=500)).astype(dtype)
    assert rmse(prediction, truth) == np.sqrt(np.mean((prediction.astype(float) - truth) ** 2))
    squares = np.sum((truth - prediction) ** 2) / np.sum((truth - truth.mean()) ** 2)
    assert GAUSSIAN.score(prediction, truth) == 1.0 - squares
    assert (GAUSSIAN.score(truth[:1], truth[:1]), GAUSSIAN.score(truth[1:2], truth[:1])) == (1.0, 0.0)


def test_errors_over_blocks_are_those_over_arrays() -> None:
    problem = tv.synthetic_cp((12, 10, 8), 2, random_state=0)
    model = tv.CP(2, random_state=0, sweeps=5).fit(problem.train).model_
    whole = rmse(model.predict(problem.train.coords), problem.train.values)
    assert GAUSSIAN.error_over(model.predict, problem.train.entries) == whole
    parts = in_parts(problem.train.entries, 37)
    assert GAUSSIAN.error_over(model.predict, parts) == pytest.approx(whole, rel=1e-12)


def test_another_loss_measures_through_its_link_and_checks_its_domain() -> None:
    counts = MemoryEntries(columns=np.zeros((2, 3), np.int32), values=np.array([0.0, 2.0, 5.0]), shape=(1, 1))
    mean = np.array([0.5, 2.0, 4.0])
    expected = float(np.mean(mean - counts.values * np.log(mean)))
    assert POISSON.error(mean, counts.values) == pytest.approx(expected)
    assert POISSON.error_over(lambda coords: mean, counts) == pytest.approx(expected)
    POISSON.check(counts)
    with pytest.raises(InputError, match=r'values must be whole numbers of at least 0 for loss="poisson"'):
        POISSON.check(MemoryEntries(columns=counts.columns, values=np.array([0.5, 1.0, 2.0]), shape=(1, 1)))
    GAUSSIAN.check(counts)


def test_values_are_scaled_only_where_the_loss_allows_it() -> None:
    entries = tv.synthetic_cp((12, 10, 8), 2, random_state=0).train.entries
    scaled = standard_scaling(task_of(entries))
    assert scaled.offset == entries.values.mean()
    assert scaled.scale == pytest.approx(entries.values.std())
    assert standard_scaling(task_of(entries, loss=POISSON)) == Scaling(offset=0.0, scale=1.0)


def test_records_name_the_measure_of_the_loss() -> None:
    task = task_of(tv.synthetic_cp((12, 10, 8), 2, random_state=0).train.entries, loss=POISSON)
    watch = Watch(iterations=1, tol=0.0, patience=1, loss=task.loss)
    nothing = Solution(factors=(), core=None, offset=0.0, biases=None)
    watch.step(train_error=task.error(3.0, standard_scaling(task)), criterion=0.0, size=1.0, solution=lambda: nothing)
    assert (watch.history[0].measure, watch.history[0].train_error) == ("mean loss", 3.0 / task.n_entries)


def test_a_solver_takes_entries_that_are_kept_in_parts() -> None:
    entries = tv.synthetic_cp((12, 10, 8), 2, random_state=0).train.entries
    found = []
    for given in (entries, in_parts(entries, 100)):
        settings = ALS(sweeps=5)
        watch = Watch(iterations=5, tol=settings.tol, patience=1)
        found.append(solve_als(task_of(given), settings, watch))
    for one, two in zip(found[0].factors, found[1].factors, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_other_values_at_the_same_coordinates() -> None:
    task = task_of(tv.synthetic_cp((12, 10, 8), 2, random_state=0).train.entries)
    other = task.with_values(-task.values)
    np.testing.assert_array_equal(other.values, -task.values)
    assert other.columns is task.columns
    assert (other.shape, other.loss, other.seed) == (task.shape, GAUSSIAN, task.seed)
