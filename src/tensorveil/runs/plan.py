"""A comparison of private mechanisms before anything is spent: expected errors from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorveil.completion.needs import check_budget
from tensorveil.completion.private_matrix import plan_ranks
from tensorveil.completion.settings import cp_ranks, tucker_ranks
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import COMPARED
from tensorveil.mechanisms.planner import Plan, plan
from tensorveil.privacy import Budget, Unit
from tensorveil.release.result import make_plain
from tensorveil.runs.estimators import DEFAULT_RANK
from tensorveil.runs.reading import Reading, read_privately

__all__ = ["PlanRun", "Planned", "plan_budgets"]

ASSUMED = (
    "Unit value: positions are public. These are guesses for a typical tensor, because the values are not looked at: "
    "{spread}, a quarter of the variance biases, a third interactions; the noise of observations is not counted. "
    "Compare them with each other; your own errors will differ, and a release measures its own. Auto does not go by "
    "them: it measures in stages, and decides by what it has found. Planning costs no budget."
)
TYPICAL = "a standard deviation of a tenth of the bounds' width (declare yours with --spread)"


@dataclass(frozen=True, kw_only=True)
class PlanRun:
    """What is to be planned for.

    Parameters
    ----------
    bounds
        Where values can lie.
    epsilons, delta
        The budgets to compare.
    reading
        A file, of which only the positions are used, which are public in unit value; or else
    shape, entries
        the sizes of the modes and the number of entries.
    model, rank
        The form of the model: "cp", "tucker" or "matrix"; None for its default rank.
    spread
        A standard deviation of the values, if one is known without looking at them; None for a typical one.
    """

    bounds: tuple[float, float]
    epsilons: Sequence[float]
    delta: float = 0.0
    reading: Reading | None = None
    shape: tuple[int, ...] | None = None
    entries: int | None = None
    model: str = "cp"
    rank: Any = None
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Plans by epsilon, and the public facts that they were made from."""

    shape: tuple[int, ...]
    entries: int
    bounds: tuple[float, float]
    model: str
    rank: Any
    delta: float
    methods: tuple[str, ...]
    plans: dict[float, Plan]
    spread: float | None = None

    @property
    def assumed(self) -> str:
        """What the guesses rest on, in words."""
        declared = f"a standard deviation of {self.spread:g}, as declared" if self.spread is not None else TYPICAL
        return ASSUMED.format(spread=declared)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        budgets = [
            {
                "epsilon": epsilon,
                "delta": self.delta,
                "method": found.method,
                "expected": [{"method": each.method, "rmse": each.rmse} for each in found.predictions],
            }
            for epsilon, found in self.plans.items()
        ]
        return {
            "unit": "value",
            "shape": list(self.shape),
            "entries": self.entries,
            "bounds": list(self.bounds),
            "model": self.model,
            "rank": make_plain(self.rank),
            "delta": self.delta,
            "methods": list(self.methods),
            "budgets": budgets,
            "spread": self.spread,
            "assumed": self.assumed,
        }


def plan_budgets(run: PlanRun) -> Planned:
    """Predict the error of every mechanism at every budget."""
    shape, entries = _public_facts(run)
    low, high = run.bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    if entries > math.prod(shape):
        raise InputError("entries: there are more entries than cells in the shape. Check both.")
    rank = run.rank or DEFAULT_RANK[run.model]
    ranks = _plan_ranks(run.model, rank, shape)
    plans = {
        epsilon: plan(
            shape=shape, n_entries=entries, bounds=(low, high), ranks=ranks, core=run.model == "tucker",
            budget=_check(Budget(epsilon=epsilon, delta=run.delta)), unit=Unit.value(), spread=run.spread,
        )
        for epsilon in dict.fromkeys(run.epsilons)
    }  # fmt: skip
    return Planned(
        shape=shape,
        entries=entries,
        bounds=(low, high),
        model=run.model,
        rank=rank,
        delta=run.delta,
        methods=tuple(COMPARED),
        plans=plans,
        spread=run.spread,
    )


def _plan_ranks(model: str, rank: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if model == "matrix":
        return plan_ranks(rank, shape)
    return (cp_ranks if model == "cp" else tucker_ranks)(rank, shape)


def _public_facts(run: PlanRun) -> tuple[tuple[int, ...], int]:
    """Return shape and number of entries; of a file's values nothing is used, and none is refused."""
    if run.reading is not None:
        tensor = read_privately(run.reading, Unit.value(), run.bounds, None)
        return tensor.shape, tensor.n_entries
    if run.shape is None or run.entries is None:
        raise InputError("shape and entries must be given where there is no file. Try shape=(943, 1682).")
    return run.shape, run.entries


def _check(budget: Budget) -> Budget:
    check_budget(budget)
    return budget
