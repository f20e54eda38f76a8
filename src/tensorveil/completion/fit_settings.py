"""The settings that the estimators without privacy share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorveil.completion.params import Params
from tensorveil.solvers.loss import Loss
from tensorveil.solvers.task import Baseline


@dataclass(kw_only=True, eq=False, repr=False)
class FitSettings(Params):
    """How to fit a model without privacy.

    Parameters
    ----------
    solver
        "bayes" (variational, most accurate, no tuning), "als" (alternating least squares, fast), "sgd" (stochastic
        gradient descent on squared error, fastest per pass on many millions of entries), "lbfgs"
        (any loss, by its exact gradient over all known cells; CP and matrices) or "adam" (any loss, by stochastic
        gradients). "auto" (default) takes "bayes" where that fits the loss, else "als", else "lbfgs" where few cells
        are known, else "adam".
    loss
        What values are: "gaussian" (default; any numbers, squared error), "poisson" (counts), "bernoulli" (yes or no, 1
        or 0), "gamma" (positive numbers), or a `Loss` of your own. Predictions are expected values: counts,
        probabilities.
    nonnegative
        Whether all factors are non-negative. Predictions are then sums of parts (for "bernoulli" the odds are), without
        a baseline.
    unlisted_weight
        For tensors whose unlisted cells are zeros: how much such a cell counts beside a listed one (default 1). Below
        1, predictions rank cells and are no longer expected values.
    same
        Modes that are the same thing and share a factor, such as ("head", "tail"): names or positions.
    baseline
        "mean" (default), "none", or "biases": a mean plus one bias per index of every mode, as for ratings.
    sweeps
        Maximum number of passes over the data; default 100 (bayes, sgd, lbfgs, of which a sweep is five
        steps), 50 (als) or 200 (adam).
    regularization
        Penalty on squared factor entries, on values scaled to unit variance (als: default 3, sgd: 0.01, lbfgs and
        adam: 1, as if factors were standard normal).
    regularization_per_entry
        For "als": this much more of that penalty for every entry of a row, so that rows of many entries are drawn to
        zero as strongly as others (default 0; Zhou and others 2008). Try 0.03 for ratings.
    learning_rate
        For "sgd" and "adam": the first step size (default 0.005, 0.05).
    noise_variance
        For "bayes": variance of noise that is known to have been added to the values.
    smooth
        Modes whose neighbouring indices are alike, such as ``{"day": "walk", "hour": "cycle"}``: rows without entries
        then lie between their neighbours. How alike is learnt, per component. A pair of modes that make one time, the
        slower one first, as in ``{("day", "hour"): "walk"}``, adds what the model leaves over along time in every line
        of the other modes. For "bayes"; for "als", of `CP` and `LowRankMatrix`.
    side
        Tables of features by mode, such as ``{"film": films}``: pandas, polars or Arrow, with a column named as the
        mode that holds its labels. How much each feature says is learnt; rows without entries follow from theirs. For
        "bayes"; for "als", of `CP` and `LowRankMatrix`.
    implicit
        Modes whose rows know which of their cells were observed, or True for all: that somebody rated a film tells of
        both, whatever the rating. For "bayes".
    tol
        Stop when the relative change of error (or evidence bound) is at most this.
    validation_fraction, patience
        Hold out a part of the entries, stop when its error has not fallen for ``patience`` sweeps, keep the best.
    restarts
        Number of starts. The second start of "bayes" is the spectrum of the data, the others are random.
    keep
        Of several starts the "best" (default), or the "mean" of all: a model of the sum of their ranks, which errs less
        where entries are few.
    shape
        Shape of the tensor when ``fit`` gets coordinates instead of an `ObservedTensor`.
    dtype
        "float32" or "float64"; default: that of the values.
    threads
        Number of threads; default: all processors this process may use.
    random_state
        Seed of starting points and shuffles. It never seeds noise.
    verbose
        Show a progress bar.
    """

    solver: str = "auto"
    loss: str | Loss = "gaussian"
    baseline: Baseline = "mean"
    sweeps: int | None = None
    regularization: float | None = None
    regularization_per_entry: float | None = None
    learning_rate: float | None = None
    noise_variance: float | None = None
    nonnegative: bool = False
    unlisted_weight: float | None = None
    same: Sequence[str | int] | None = None
    smooth: Mapping[Any, str] | None = None
    side: Mapping[Any, Any] | None = None
    implicit: Sequence[str | int] | bool | None = None
    tol: float | None = None
    validation_fraction: float = 0.0
    patience: int = 5
    restarts: int = 1
    keep: str = "best"
    shape: Sequence[int] | None = None
    dtype: Any = None
    threads: int | None = None
    random_state: Any = None
    verbose: bool = False
