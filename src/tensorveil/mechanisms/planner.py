"""What to expect of each mechanism before anything is spent: a guess of its error, from public quantities alone.

Nothing is known about the data but shape, number of entries, bounds, rank and budget, so a typical tensor is assumed:
a standard deviation of a tenth of the bounds' width, unless one is declared, of whose variance a quarter are biases, a
third interactions, and the rest noise. Real tensors differ; so "auto" does not choose by these guesses, but runs the
mechanism that decides while it measures. They tell whether noise should be Laplace or Gaussian, and about how much a
budget may buy.

Estimating numbers of total variance S from noisy statistics leaves S x / (S + x), x the noise they add to predictions:
Bayesian shrinkage, which all decoders here do. Directions are found only where components stand out of the noise.
Variances are shares of the values' variance.

Every mechanism predicts its own error, in its own file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorveil.errors import InputError
from tensorveil.mechanisms.case import TYPICAL_SPREAD, Case
from tensorveil.mechanisms.catalogue import COMPARED, METHODS
from tensorveil.mechanisms.entry_guess import EXPECTED
from tensorveil.mechanisms.method import Expected
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.mechanisms.staged import METHOD as ADAPTIVE
from tensorveil.privacy import Budget, Unit, gaussian_mu


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The error that is expected of a mechanism: RMSE of predicted against true values without observation noise."""

    method: str
    rmse: float
    noise: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The mechanism to run, and how it was chosen.

    Parameters
    ----------
    method, noise
        The mechanism, and the noise that it adds: "laplace" or "gaussian".
    predictions
        The expected errors that it was chosen by, best first; empty where nothing is compared.
    ranks
        The rank of every mode that was planned for. A fit that finds its rank itself may start from another one.
    n_entries
        The number of entries that was planned for, where it is public: in unit "value" only.
    spread
        The standard deviation of the values that was declared; None if a typical one was assumed.
    """

    method: str
    noise: str
    predictions: tuple[Prediction, ...]
    ranks: tuple[int, ...]
    n_entries: int | None = None
    spread: float | None = None

    @property
    def guess(self) -> float | None:
        """The error that was expected of the mechanism before anything was spent; None where nothing is predicted."""
        return next((each.rmse for each in self.predictions if each.method == self.method), None)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from tensorveil.markup import notebook_card

        facts = [("method", self.method), ("noise", self.noise), ("ranks", ", ".join(map(str, self.ranks)))]
        rows = [(each.method, f"{each.rmse:.3g}", each.noise) for each in self.predictions]
        return notebook_card("Plan", facts, head=("method", "guessed RMSE", "noise"), rows=rows)


def plan(
    *,
    shape: tuple[int, ...],
    n_entries: int | None,
    bounds: tuple[float, float],
    ranks: tuple[int, ...],
    core: bool,
    budget: Budget,
    unit: Unit,
    method: str = "auto",
    spread: float | None = None,
) -> Plan:
    """Guess the error of every mechanism; "auto" is the one that adapts, unless ``method`` names another.

    ``spread`` is a declared standard deviation of the values; by default a typical one is assumed. In unit "entry"
    ``n_entries`` is a declared number, or None: without one nothing is guessed. It is no part of the plan.

    >>> from tensorveil.privacy import Budget, Unit
    >>> facts = {"shape": (943, 1682), "n_entries": 90570, "bounds": (1.0, 5.0), "ranks": (10, 10), "core": False}
    >>> plans = [plan(budget=Budget(epsilon=e, delta=0.0), unit=Unit.value(), **facts) for e in (1.0, 10.0)]
    >>> plans[0].method, [each.predictions[0].method for each in plans]
    ('staged', ['margins', 'input'])
    """
    # Without a prediction to choose by, Gaussian noise is used where a delta allows it: it suits many numbers at once.
    usual = "laplace" if budget.delta == 0 else "gaussian"
    width = bounds[1] - bounds[0]
    share = TYPICAL_SPREAD if spread is None else check_spread(spread, width) / width
    facts: dict[str, Any] = {"shape": shape, "ranks": ranks, "core": core, "spread": share}
    if unit.kind == "entry":
        chosen = BY_UNIT["entry"][0] if method == "auto" else method
        noise = METHODS[chosen].noise or usual
        guesses: tuple[Prediction, ...] = ()
        if n_entries is not None:
            cases = {noise: _make_case(budget, noise, n_entries=n_entries, **facts)}
            guesses = _predict_all(EXPECTED, cases, share * width)
        return Plan(method=chosen, noise=noise, predictions=guesses, ranks=ranks, spread=spread)
    if n_entries is None or n_entries < 1:
        raise InputError("n_entries must be at least 1. Give the number of entries, which is public in this unit.")
    # Pure epsilon is allowed with a delta all the same, and better where few numbers are released.
    kinds = ("laplace",) if budget.delta == 0 else ("laplace", "gaussian")
    cases = {noise: _make_case(budget, noise, n_entries=n_entries, **facts) for noise in kinds}
    found = _predict_all(COMPARED, cases, share * width)
    by_name = {prediction.method: prediction for prediction in found}
    wanted = ADAPTIVE.name if method == "auto" else method
    noise = by_name[wanted].noise if wanted in by_name else usual
    return Plan(method=wanted, noise=noise, predictions=found, ranks=ranks, n_entries=n_entries, spread=spread)


def _make_case(budget: Budget, noise: str, **facts: Any) -> Case:
    """Return the case of one kind of noise."""
    if noise == "laplace":
        return Case(epsilon=budget.epsilon, mu=None, **facts)
    return Case(epsilon=None, mu=gaussian_mu(budget.epsilon, budget.delta), **facts)


def _predict_all(expected: Mapping[str, Expected], cases: Mapping[str, Case], spread: float) -> tuple[Prediction, ...]:
    """Predict the errors of all mechanisms, best first."""
    found = (_predict(name, each, cases, spread) for name, each in expected.items())
    return tuple(sorted(found, key=lambda prediction: prediction.rmse))


def check_spread(spread: float, width: float) -> float:
    """Return a spread that values within the bounds can have."""
    if isinstance(spread, bool) or not isinstance(spread, int | float) or not 0 < spread <= 0.5 * width:
        raise InputError(
            "spread must be a standard deviation of the values: above 0, and at most half the width of the bounds. "
            "Leave it out if you know none."
        )
    return float(spread)


def _predict(name: str, expected: Expected, cases: Mapping[str, Case], spread: float) -> Prediction:
    """Predict the error of one mechanism, with the better kind of noise."""
    return min(
        (
            Prediction(method=name, rmse=spread * math.sqrt(expected(case)), noise=noise)
            for noise, case in cases.items()
        ),
        key=lambda prediction: prediction.rmse,
    )
