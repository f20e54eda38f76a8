"""Steps on noisy row sums, and the rules that choose limits and shares."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms import refinement, tradeoffs
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.gradient import step_rows
from tensorveil.mechanisms.output import run_output, solve_rows
from tensorveil.mechanisms.refinement import RowSums
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private


def row_problem(noise: Any, rows: int = 400, rank: int = 3, entries: int = 20, seed: int = 0) -> Any:
    """Rows to find, where they were before, and sums that determine them up to noise."""
    rng = np.random.default_rng(seed)
    before = rng.standard_normal((rows, rank))
    truth = before + 0.5 * rng.standard_normal((rows, rank))
    designs = rng.standard_normal((rows, entries, rank))
    gram = np.einsum("iep,ieq->ipq", designs, designs)
    error = np.einsum("iep,ie->ip", designs, rng.standard_normal((rows, entries)))
    right = np.einsum("ipq,iq->ip", gram, truth) + error + np.sqrt(noise) * rng.standard_normal((rows, rank))
    return before, truth, RowSums(right=right, gram=gram, second=gram, noise=noise, variance=1.0)


def distance(rows: Any, truth: Any) -> Any:
    return float(np.sqrt(np.mean((rows - truth) ** 2)))


@pytest.mark.parametrize("noise", [0.0, 100.0, 1e4])
def test_solutions_are_the_posterior_mean(noise: Any) -> None:
    """The prior's covariance is estimated to be that of the moves, and then no linear estimate is better."""
    before, truth, sums = row_problem(noise)
    best = np.empty_like(before)
    for i in range(len(before)):
        error = sums.second[i] + noise * np.eye(3)
        reach = sums.gram[i] @ (0.25 * np.eye(3)) @ sums.gram[i] + error
        best[i] = before[i] + 0.25 * sums.gram[i] @ np.linalg.solve(reach, sums.right[i] - sums.gram[i] @ before[i])
    assert distance(solve_rows(before, sums), truth) < 1.05 * distance(best, truth)


def test_pure_noise_moves_nothing_far() -> None:
    before, truth, sums = row_problem(1e8)
    for step in (solve_rows, step_rows):
        assert distance(step(before, sums), before) < 0.3 * distance(before, truth)


def test_gradient_steps_approach_the_solution() -> None:
    before, truth, sums = row_problem(0.0)
    rows = before
    for _ in range(20):
        rows = step_rows(rows, sums)
    assert distance(rows, truth) < 0.7 * distance(before, truth)


def test_a_single_row_such_as_a_core_is_solve_rows() -> None:
    before, truth, sums = row_problem(1.0, rows=1, rank=6, entries=4000)
    assert distance(solve_rows(before, sums), truth) < 0.1 * distance(before, truth)


def test_weights_limit_the_longest_design() -> None:
    rng = np.random.default_rng(0)
    design = rng.standard_normal((1000, 3))
    design[0] *= 1000
    target = refinement.Target(
        known=np.zeros(1000), residual=Private(np.zeros(1000)), limit=1.0, slope=1.0, variance=1.0
    )
    spend = Spend(source=SeededSource(0), epsilon=0.1)
    weighted = refinement._weigh(design, refinement._choose_longest(design, target, spend, 100.0))
    weights = weighted[:, 0] / design[:, 0]
    assert np.all((weights > 0) & (weights <= 1))
    assert np.max(np.linalg.norm(weighted, axis=1)) < 10
    nothing = np.zeros((4, 2))
    assert refinement._choose_longest(nothing, target, spend, 4.0) is None
    assert np.array_equal(refinement._weigh(nothing, None), nothing)


def test_less_noise_widens_limits_and_shares() -> None:
    gains = [10.0**k for k in range(-8, 3)]
    spreads = [tradeoffs.best_spreads(gain) for gain in gains]
    shares = [tradeoffs.refinement_share(gain, 1.0 / gain) for gain in gains]
    assert spreads == sorted(spreads, reverse=True)
    assert shares == sorted(shares, reverse=True)
    assert (spreads[-1], shares[-1]) == (0.8, 0.1)
    assert spreads[0] > 3
    assert shares[0] == 0.5


@pytest.mark.parametrize("core", [False, True])
def test_refinement_beats_its_start(core: Any) -> None:
    """Many entries per row: steps that share one draw of noise take much off the error of a start with half of it."""
    problem = (tv.synthetic_tucker if core else tv.synthetic_cp)((40, 40, 40), 2, missing=0.2, random_state=0)
    bounds = (-0.25, 1.25)
    truth = problem.clean_at(problem.held_out.coords)

    def error(method: Any, epsilon: float) -> Any:
        estimator = tv.PrivateTucker if core else tv.PrivateCP
        settings: dict[str, Any] = {"unit": "value", "bounds": bounds, "method": method, "random_state": 0}
        errors = []
        for seed in range(5):
            fitted = estimator(2, epsilon=epsilon, delta=0.0, noise_seed=seed, **settings).fit(problem.train)
            errors.append(np.sqrt(np.mean((fitted.predict(problem.held_out) - truth) ** 2)))
        return float(np.mean(errors))

    assert error("output", 5.0) < 0.9 * error("input", 2.5)


def test_a_large_core_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refinement, "_LARGEST_DESIGN", 10)
    problem = tv.synthetic_tucker((8, 8, 8), 2, random_state=0)
    data = PrivateValues(
        columns=problem.train.columns, values=Private(np.clip(problem.train.values, -0.25, 1.25)), shape=(8, 8, 8),
        bounds=(-0.25, 1.25),
    )  # fmt: skip
    form = Form(ranks=(2, 2, 2), core=True, sweeps=5, restarts=1, threads=1, seed=0)
    outcome = run_output(data, form, Spend(source=SeededSource(0), epsilon=5.0))
    parts: Any = outcome.parts
    assert not any("core" in part.name for part in parts)
    assert sum(part.event.epsilon for part in parts) <= 5.0


def test_a_start_that_is_hardly_clear_keeps_nearly_all() -> None:
    shares = [tradeoffs.refinement_share(1e-6, clear) for clear in (0.5, 3.0, 9.0, 12.0, 60.0)]
    assert shares[:2] == [0.1, 0.1]
    assert shares == sorted(shares)
    assert shares[-1] == 0.5


def test_noise_blurs_and_entries_clear() -> None:
    def clear(noise: Any, n: int) -> Any:
        return tradeoffs.clarity(noise, n, (50, 50, 50), (3, 3, 3), tradeoffs.input_gain(noise, n, 450))

    assert clear(1.0, 20_000) > clear(10.0, 20_000) > clear(100.0, 20_000)
    assert clear(1.0, 40_000) > clear(1.0, 20_000)


def test_a_row_of_few_entries_without_noise_is_solved() -> None:
    """A law found it: one entry in a row of two coefficients is singular, once noise is lost in rounding."""
    design = np.array([[[1.0, 0.7]], [[0.3, 0.9]]])
    gram = np.einsum("iep,ieq->ipq", design, design)
    sums = RowSums(right=gram @ np.array([1.0, 2.0]), gram=gram, second=gram, noise=1e-30, variance=1.0)
    assert np.isfinite(solve_rows(np.ones((2, 2)), sums)).all()


@pytest.mark.parametrize("step", [solve_rows, step_rows])
@pytest.mark.parametrize("rows", [2, 1])
@pytest.mark.parametrize("size", [1e-162, 1e-120, 1e-80])
def test_what_is_switched_off_moves_nothing(step: Any, rows: Any, size: Any) -> None:
    """Auditing found it: a core of 1e-162 has a curvature of the smallest float, and a step divided by it overflows."""
    design = np.full((4, 1), size)
    target = refinement.Target(known=np.zeros(4), residual=Private(np.zeros(4)), limit=4.0, slope=1.0, variance=1.0)
    column = np.arange(4) % rows
    data = PrivateValues(
        columns=np.zeros((2, 4), np.int32), values=Private(np.zeros(4)), shape=(1, 1), bounds=(-4.0, 4.0)
    )
    spend = Spend(source=SeededSource(1), epsilon=1.0)
    sums = refinement._row_sums(data, lambda _: design, lambda _: column, rows, target, spend)
    before = np.ones((rows, 1))
    assert distance(step(before, sums), before) < 1e-6


def test_a_large_budget_is_not_spent_on_tight_limits() -> None:
    """Whatever the number of parameters: at epsilon 20 pictures are not bent."""
    assert tradeoffs.input_spreads(2.0 / 20**2, 10.0) > 2
    assert tradeoffs.input_spreads(2.0 / 1.0**2, 10.0) < 1
