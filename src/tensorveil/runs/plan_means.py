"""Means of local reports before anybody reports: which accuracy an epsilon has, and which epsilon an accuracy takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tensorveil.errors import InputError
from tensorveil.local import choose
from tensorveil.local.requirements import check_bounds, check_shape, check_unit
from tensorveil.privacy import Unit
from tensorveil.runs.guesses import Guessed, check_question, find_budget

__all__ = ["MeansRun", "PlannedMeans", "plan_means"]

MOST_EPSILON = 40.0  # the largest that a local mechanism takes
MOST_PEOPLE = 10**15
ASSUMED = (
    "{unit}: the error per entry of the mean of all reports, if everybody holds the tensor whose report is worst: by "
    "closed form, and no guess; for other tensors it is less, or the same. {spread} Reports are unbiased, so that the "
    "error falls with the root of the number of people. Planning costs no budget."
)
OF_PEOPLE = "It is the error about the mean of these people (declare by how much people differ with --spread)."
OF_POPULATION = (
    "It is the error about the mean of the population that people are drawn from, who differ by a standard deviation "
    "of {spread:g}, as declared."
)


@dataclass(frozen=True, kw_only=True)
class MeansRun:
    """What is to be planned for: a mean of tensors that are randomised before they leave their owners.

    Parameters
    ----------
    shape
        Shape of one person's tensor.
    people
        How many people report.
    unit
        "tensor", "tensor:differ=M" or "local entry".
    epsilons, delta
        The budgets of one report to compare; a delta above 0 admits Gaussian noise.
    rmse
        The error per entry that the mean may have: the smallest epsilon that reaches it is looked for.
    bounds, radius
        Declared range of the entries, or the largest norm of a tensor: one of the two.
    spread
        By how much people's entries differ, as a standard deviation, if the mean of a population is wanted.
    """

    shape: tuple[int, ...]
    people: int
    unit: Unit | str
    epsilons: tuple[float, ...] = ()
    delta: float = 0.0
    rmse: float | None = None
    bounds: tuple[float, float] | None = None
    radius: float | None = None
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedMeans:
    """Errors of means by epsilon, and the public facts that they were computed from."""

    run: MeansRun
    unit: Unit
    budgets: tuple[Guessed, ...]
    answer: Guessed | None

    @property
    def assumed(self) -> str:
        """What the errors are about, in words."""
        spread = self.run.spread
        about = OF_PEOPLE if spread is None else OF_POPULATION.format(spread=spread)
        return ASSUMED.format(unit=f"Unit {self.unit}", spread=about)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        run = self.run
        return {
            "unit": str(self.unit),
            "shape": list(run.shape),
            "people": run.people,
            "bounds": None if run.bounds is None else list(run.bounds),
            "radius": run.radius,
            "delta": run.delta,
            "budgets": [each.to_json() for each in self.budgets],
            "rmse": run.rmse,
            "answer": None if self.answer is None else self.answer.to_json(),
            "spread": run.spread,
            "assumed": self.assumed,
        }


def plan_means(run: MeansRun) -> PlannedMeans:
    """Compute the error of the mean at every budget, and the smallest budget that reaches an error.

    Nothing is read, so nothing is spent; what is computed is exact.

    >>> run = MeansRun(shape=(10,), people=100_000, unit="tensor", bounds=(0, 1), rmse=0.01)
    >>> plan_means(run).answer.epsilon
    1.1
    """
    shape = check_shape(run.shape)
    unit = check_unit(run.unit, shape)
    check_question(run.epsilons, run.rmse)
    _check(run, shape)

    def compute(epsilon: float) -> Guessed:
        found = choose(shape, epsilon, unit, bounds=run.bounds, radius=run.radius, delta=run.delta)
        errors = {
            each.mechanism.command: each.mean_rmse(run.people, spread=run.spread or 0.0) for each in found.candidates
        }
        return Guessed(epsilon=epsilon, method=found.mechanism.command, errors=errors)

    return PlannedMeans(
        run=run,
        unit=unit,
        budgets=tuple(compute(epsilon) for epsilon in dict.fromkeys(run.epsilons)),
        answer=None if run.rmse is None else find_budget(compute, run.rmse, most=MOST_EPSILON),
    )


def _check(run: MeansRun, shape: tuple[int, ...]) -> None:
    """Refuse what no people, and no differences between people, can be."""
    people, spread = run.people, run.spread
    if isinstance(people, bool) or not isinstance(people, int) or not 1 <= people <= MOST_PEOPLE:
        raise InputError("people must be a whole number of at least 1: how many report. Try people=10000.")
    if spread is None:
        return
    if run.bounds is not None:
        low, high = check_bounds(run.bounds)
        most = 0.5 * (high - low)
    else:
        most = run.radius or math.inf
    if isinstance(spread, bool) or not isinstance(spread, int | float) or not 0 < spread <= most:
        raise InputError(
            "spread must be a standard deviation of people's entries: above 0, and at most half the width of the "
            "bounds, or the radius. Leave it out if you know none."
        )
