"""Which mechanism to use: the error of each, predicted from public quantities alone.

Nothing is known about the data but shape, number of entries, bounds, rank and budget, so a typical tensor is assumed:
a standard deviation of a tenth of the bounds' width, of whose variance a quarter are biases, a third interactions, and
the rest noise. Estimating numbers of total variance S from noisy statistics leaves S x / (S + x), x the noise they add
to predictions: Bayesian shrinkage, which all decoders here do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tensorveil.errors import InputError
from tensorveil.mechanisms import gradient, output
from tensorveil.privacy import Budget, Unit, gaussian_mu

_SPREAD = 0.1
_BIASES, _INTERACTIONS = 0.25, 0.35
# Finding directions under noise costs more than estimating along known ones. Like the assumptions above, set by hand
# so that the choices on the reference case and on MovieLens 100K come out right; not checked on a grid of cases.
_SEARCH = 3.0
# What promises less than this share off the constant's error is not worth the risk that the data are not typical.
_WORTH = 0.08


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The error that is expected of a mechanism: RMSE of predicted against true values without observation noise."""

    method: str
    rmse: float
    noise: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The mechanism to run with "laplace" or "gaussian" noise, and the table it was chosen from, best first."""

    method: str
    noise: str
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True, kw_only=True)
class _Case:
    """Public quantities, in units of the bounds' width."""

    shape: tuple[int, ...]
    n: int
    ranks: tuple[int, ...]
    core: bool
    epsilon: float | None
    mu: float | None

    @property
    def variance(self) -> float:
        return _SPREAD**2

    @property
    def residual(self) -> float:
        return self.variance * (1 - _BIASES - _INTERACTIONS)

    @property
    def parameters(self) -> float:
        rows = sum(size * rank for size, rank in zip(self.shape, self.ranks, strict=True))
        return float(rows + (math.prod(self.ranks) if self.core else 0))

    def part(self, share: float) -> _Case:
        """Return the case with a share of the budget."""
        if self.epsilon is not None:
            return replace(self, epsilon=share * self.epsilon)
        assert self.mu is not None
        return replace(self, mu=math.sqrt(share) * self.mu)

    def noise(self, steps: float) -> float:
        """Variance of the noise on one number of unit sensitivity, when the budget is split over so many steps."""
        if self.epsilon is not None:
            return 2.0 * (steps / self.epsilon) ** 2
        assert self.mu is not None
        return steps / self.mu**2


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
) -> Plan:
    """Predict the error of every mechanism and choose, unless ``method`` names one.

    >>> from tensorveil.privacy import Budget, Unit
    >>> facts = {"shape": (943, 1682), "n_entries": 90570, "bounds": (1.0, 5.0), "ranks": (10, 10), "core": False}
    >>> [plan(budget=Budget(epsilon=e, delta=0.0), unit=Unit.value(), **facts).method for e in (0.01, 1.0, 10.0)]
    ['mean', 'margins', 'input']
    """
    if unit.kind == "entry":
        # Many numbers per row: Gaussian noise, where a delta allows it.
        noise = "laplace" if budget.delta == 0 else "gaussian"
        return Plan(method="gram" if method == "auto" else method, noise=noise, predictions=())
    if n_entries is None or n_entries < 1:
        raise InputError("n_entries must be at least 1. Give the number of entries, which is public in this unit.")
    pure = _Case(shape=shape, n=n_entries, ranks=ranks, core=core, epsilon=budget.epsilon, mu=None)
    cases = {"laplace": pure}
    if budget.delta > 0:  # pure epsilon is allowed all the same, and better where few numbers are released
        cases["gaussian"] = replace(pure, epsilon=None, mu=gaussian_mu(budget.epsilon, budget.delta))
    width = bounds[1] - bounds[0]
    found = [
        min(
            (
                Prediction(method=name, rmse=width * math.sqrt(error(case)), noise=noise)
                for noise, case in cases.items()
            ),
            key=lambda prediction: prediction.rmse,
        )
        for name, error in ERRORS.items()
    ]
    found.sort(key=lambda prediction: prediction.rmse)
    constant = next(prediction for prediction in found if prediction.method == "mean")
    best = found[0] if found[0].rmse <= (1 - _WORTH) * constant.rmse else constant
    chosen = best if method == "auto" else next(prediction for prediction in found if prediction.method == method)
    return Plan(method=chosen.method, noise=chosen.noise, predictions=tuple(found))


def _shrunk(signal: float, noise: float) -> float:
    return signal * noise / (signal + noise) if signal > 0 else 0.0


def _mean(case: _Case) -> float:
    return (_BIASES + _INTERACTIONS) * case.variance + case.noise(1) / case.n**2


def _margins(case: _Case) -> float:
    order = len(case.shape)
    error = _INTERACTIONS * case.variance
    for size in case.shape:
        entries = case.n / size
        noise = case.noise(order) / entries**2 + (case.variance - _BIASES * case.variance) / entries
        error += _shrunk(_BIASES * case.variance / order, noise)
    offset = 1.0 / sum(case.n**2 / (size * case.noise(order)) for size in case.shape)
    return error + offset


def _input(case: _Case) -> float:
    equivalent = math.sqrt(2.0 / case.noise(1))  # the epsilon of Laplace noise with this variance
    share = min(max(280.0 / (equivalent * case.n), 0.01), 0.3)
    limit = _SPREAD * min(1 + 0.1 * equivalent, 2.5)
    per_entry = (2 * limit) ** 2 * case.noise(1) / (1 - share - 0.03) ** 2 + case.residual
    signal = (_BIASES + _INTERACTIONS) * case.variance
    error = _shrunk(signal, _SEARCH * per_entry * case.parameters / case.n)
    return error + case.noise(1) / (share * case.n) ** 2


def _margins_input(case: _Case) -> float:
    # Measured: never better than the better of its two parts, because the margins' noise enters every residual.
    return 1.1 * min(_margins(case), _input(case))


def _central(case: _Case, steps: float, start_share: float) -> float:
    """Start from perturbed values, then steps that release all rows of a mode with noise of their own sensitivity."""
    signal = (_BIASES + _INTERACTIONS) * case.variance
    noise = 0.0
    for size, rank in zip(case.shape, case.ranks, strict=True):
        entries = max(case.n / size, 1.0)
        # |(H'H)^-1 h| is at most about 3 sqrt(rank) / entries for designs of unit mean square; norm-shaped noise in
        # d = rank dimensions has (d + 1) / 2 times the variance of Laplace noise; rank coordinates enter a prediction.
        norm = (rank + 1) / 2 if case.epsilon is not None else 1.0
        width = 2 * 2.5 * _SPREAD
        noise += rank * norm * width**2 * case.noise(steps / (1 - start_share)) * 9 * rank / entries**2
    noise += case.residual * case.parameters / case.n
    # A start that has found a share of the signal leaves about the square of what it has missed.
    missed = min(_input(case.part(start_share)) / signal, 1.0)
    return signal * missed**2 + _shrunk(signal, noise) + case.noise(50) / case.n**2


def _output(case: _Case) -> float:
    return _central(case, output.SWEEPS * (len(case.shape) + case.core), output.START_SHARE)


def _gradient(case: _Case) -> float:
    return _central(case, gradient.PASSES * (len(case.shape) + case.core), gradient.START_SHARE)


ERRORS: dict[str, Callable[[_Case], float]] = {
    "mean": _mean,
    "margins": _margins,
    "input": _input,
    "margins+input": _margins_input,
    "output": _output,
    "gradient": _gradient,
}
