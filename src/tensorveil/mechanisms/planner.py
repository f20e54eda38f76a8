"""Which mechanism to use: the error of each, predicted from public quantities alone.

Nothing is known about the data but shape, number of entries, bounds, rank and budget, so a typical tensor is assumed:
a standard deviation of a tenth of the bounds' width, of whose variance a quarter are biases, a third interactions, and
the rest noise. Estimating numbers of total variance S from noisy statistics leaves S x / (S + x), x the noise they add
to predictions: Bayesian shrinkage, which all decoders here do. Directions are found only where components stand out of
the noise. Variances are shares of the values' variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tensorveil.errors import InputError
from tensorveil.mechanisms import gradient, output
from tensorveil.mechanisms.tradeoffs import (
    BIASES,
    SIGNAL,
    bending,
    best_spreads,
    bias_error,
    clarity,
    clipped_noise,
    input_gain,
    input_spreads,
    mean_share,
    parameters,
    refinement_share,
    row_gain,
    sum_bending,
    sum_shares,
)
from tensorveil.privacy import Budget, Unit, gaussian_mu

_SPREAD = 0.1
_INTERACTIONS = SIGNAL - BIASES
# What promises less than this share off the constant's error is not worth the risk that the data are not typical.
_WORTH = 0.05
# Components are lost below the first of these clarities, and found above the second; from a start that had less than
# the whole budget, above the third: what it misses no later step finds.
_LOST, _CLEAR, _CLEAR_START = 0.8, 1.7, 3.0
# Each mode is moved once, along directions of the others that are not yet moved: this much over the square root of the
# entries per row is the share of a start's error that stays. Measured on planted tensors, 130 to 3000 entries per row.
_STAYS = 5.0
# Gradient steps go part of the way that solutions go.
_BEHIND = 1.15


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The error that is expected of a mechanism: RMSE of predicted against true values without observation noise."""

    method: str
    rmse: float
    noise: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The mechanism to run with "laplace" or "gaussian" noise, and the table it was chosen from, best first.

    ``ranks`` and ``n_entries`` are the public facts that were planned for; the number of entries is public, and kept,
    in unit value only.
    """

    method: str
    noise: str
    predictions: tuple[Prediction, ...]
    ranks: tuple[int, ...]
    n_entries: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Case:
    """Public quantities; the budget is a pure epsilon or a mu."""

    shape: tuple[int, ...]
    n: int
    ranks: tuple[int, ...]
    core: bool
    epsilon: float | None
    mu: float | None

    @property
    def parameters(self) -> float:
        return parameters(self.shape, self.ranks, self.core)

    def part(self, share: float) -> _Case:
        """Return the case with a share of the budget."""
        if self.epsilon is not None:
            return replace(self, epsilon=share * self.epsilon)
        assert self.mu is not None
        return replace(self, mu=math.sqrt(share) * self.mu)

    @property
    def noise(self) -> float:
        """Variance of the noise on one number of sensitivity 1."""
        if self.epsilon is not None:
            return 2.0 / self.epsilon**2
        assert self.mu is not None
        return 1.0 / self.mu**2

    @property
    def mean_noise(self) -> float:
        """Variance of the noise on the mean, had it all of the budget."""
        return self.noise / (_SPREAD * self.n) ** 2

    @property
    def side_noise(self) -> float:
        """Variance of the noise on the mean, where it has the share that goes before other things."""
        return self.part(mean_share(self.noise, self.n)).mean_noise

    @property
    def input_gain(self) -> float:
        return input_gain(self.noise, self.n, self.parameters)

    @property
    def clarity(self) -> float:
        return clarity(self.noise, self.n, self.shape, self.ranks, self.input_gain)

    def row_gains(self, steps: float) -> float:
        """Gain of the noise on the row sums of all modes, when the budget is split over so many steps."""
        noise, shaped = self.part(1 / steps).noise, self.epsilon is not None
        return sum(row_gain(noise, self.n, s, r, shaped) for s, r in zip(self.shape, self.ranks, strict=True))


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
        return Plan(method="gram" if method == "auto" else method, noise=noise, predictions=(), ranks=ranks)
    if n_entries is None or n_entries < 1:
        raise InputError("n_entries must be at least 1. Give the number of entries, which is public in this unit.")
    pure = _Case(shape=shape, n=n_entries, ranks=ranks, core=core, epsilon=budget.epsilon, mu=None)
    cases = {"laplace": pure}
    if budget.delta > 0:  # pure epsilon is allowed all the same, and better where few numbers are released
        cases["gaussian"] = replace(pure, epsilon=None, mu=gaussian_mu(budget.epsilon, budget.delta))
    spread = _SPREAD * (bounds[1] - bounds[0])
    found = [
        min(
            (
                Prediction(method=name, rmse=spread * math.sqrt(error(case)), noise=noise)
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
    return Plan(method=chosen.method, noise=chosen.noise, predictions=tuple(found), ranks=ranks, n_entries=n_entries)


def _shrunk(signal: float, noise: float) -> float:
    return signal * noise / (signal + noise) if signal > 0 else 0.0


def _mean(case: _Case) -> float:
    return SIGNAL + case.mean_noise


def _margins(case: _Case) -> float:
    counts = [np.array([case.n / size]) for size in case.shape]
    rest = case.part(0.97 - mean_share(case.noise, case.n))
    shares, spreads = sum_shares(rest.noise, counts, power=2 if case.epsilon is not None else 1)
    noises = (rest.part(share).noise * (2 * spreads) ** 2 for share in shares)
    found = sum(bias_error(noise, count, len(counts)) for noise, count in zip(noises, counts, strict=True))
    return _INTERACTIONS + found + sum_bending(spreads) + case.side_noise


def _start(case: _Case) -> float:
    """Return the error of input perturbation where it finds the components."""
    spreads = input_spreads(case.noise, case.input_gain)
    per_value = clipped_noise(case.input_gain, spreads) + (1 - SIGNAL) * case.parameters / case.n
    return _shrunk(SIGNAL, per_value) + bending(spreads)


def _overall(case: _Case, error: float, clear: float) -> float:
    """Return the error that is expected where components may be lost: biases, which are found all the same, remain."""
    found = min(max(math.log(case.clarity / _LOST) / math.log(clear / _LOST), 0.0), 1.0)
    count = float(sum(case.shape))
    spreads = input_spreads(case.noise, case.input_gain)
    per_value = clipped_noise(input_gain(case.noise, case.n, count), spreads) + (1 - BIASES) * count / case.n
    lost = _INTERACTIONS + _shrunk(BIASES, per_value) + sum_bending(spreads)
    return found * error + (1 - found) * min(lost, SIGNAL)


def _input(case: _Case) -> float:
    case = case.part(0.94)  # the rest is for mean, spread and slope
    return _overall(case, _start(case), _CLEAR) + case.side_noise


def _margins_input(case: _Case) -> float:
    # Measured: never better than the better of its two parts, because the margins' noise enters every residual.
    return 1.1 * min(_margins(case), _input(case))


def _refined(case: _Case, sweeps: int) -> float:
    """Predict the error after steps that follow a start from perturbed values."""
    share = refinement_share(case.input_gain, case.clarity)
    first = case.part(0.93 * (1 - share))
    start = _start(first)
    gain = case.part(share).row_gains(sweeps * (len(case.shape) + case.core))
    spreads = best_spreads(gain)
    left = 1 - SIGNAL + start  # variance of the residual from the start, to whose spread noise is scaled
    steps = left * clipped_noise(gain, spreads) + (1 - SIGNAL) * case.parameters / case.n
    stays = _STAYS / math.sqrt(case.n * len(case.shape) / sum(case.shape))
    error = _shrunk(start, steps) + min(stays, 1.0) * start + left * bending(spreads)
    return _overall(first, error, _CLEAR_START) + case.side_noise


def _output(case: _Case) -> float:
    return _refined(case, output.SWEEPS)


def _gradient(case: _Case) -> float:
    return _BEHIND * _refined(case, gradient.PASSES)


ERRORS: dict[str, Callable[[_Case], float]] = {
    "mean": _mean,
    "margins": _margins,
    "input": _input,
    "margins+input": _margins_input,
    "output": _output,
    "gradient": _gradient,
}
