"""How large the errors of released models are on entries that none of them was fitted to: noisy mean squared errors.

In unit "value" positions are public and so are, with the models, their predictions p. Errors (x - p)^2 then differ
between models by what is linear in the value x. So one noisy sum tells how large errors are around the models' mean
prediction, and noisy sums of x times the deviations from it tell how they differ: the more alike the models are, the
less noise that takes. In unit "entry" an entry contributes a row: that it is there, and its error under every model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.design import make_entry_design
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.evaluate import baseline_at
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries, PrivateValues

Models = Sequence[CPModel | TuckerModel]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Noisy mean squared errors of models, in their order.

    Parameters
    ----------
    mean_squares
        The noisy mean squared errors; noise can make them negative.
    noise, difference_noise
        The standard deviation of the noise on each of them, and on the difference of two, where much of it cancels.
    parts
        What was spent.
    """

    mean_squares: tuple[float, ...]
    noise: float
    difference_noise: float
    parts: tuple[Part, ...]


def compare_models(data: PrivateValues | PrivateEntries, models: Models, spend: Spend) -> Comparison:
    """Measure models that are released, or functions of what is, on private data.

    Guarantee: ``spend``, for the unit of the data (docs/guarantees.md#selection).
    """
    compare = _compare_on_values if isinstance(data, PrivateValues) else _compare_on_entries
    return compare(data, models, spend)  # type: ignore[arg-type]


def _compare_on_values(data: PrivateValues, models: Models, spend: Spend) -> Comparison:
    half, everything = 0.5 * data.width, np.zeros(data.n_entries, dtype=np.int64)
    predicted = (_predict(data.columns, models, data.bounds) - data.middle) / half
    values = (data.values.reveal() - data.middle) / half
    center = predicted.mean(axis=1)
    apart = predicted - center[:, None]
    for_level, for_difference = spend.split(0.5, 0.5)
    farthest = 1.0 + float(np.max(np.abs(center), initial=0.0))
    level = for_level.sums((values - center) ** 2, 0.0, farthest**2, everything, 1)
    along = for_difference.linear(apart, values, 1.0, everything, 1)
    # (x - c - d)^2 = (x - c)^2 - 2 d x + 2 d c + d^2, of which the last two terms hold no value.
    known = np.sum(apart * (2.0 * center[:, None] + apart), axis=0)
    scale = half**2 / data.n_entries
    return Comparison(
        mean_squares=tuple(map(float, scale * (level.values[0] - 2.0 * along.values[0] + known))),
        noise=scale * float(np.sqrt(level.variance + 4.0 * along.variance)),
        difference_noise=scale * float(np.sqrt(8.0 * along.variance)),
        parts=(
            for_level.part("size of the errors", "sum of squared deviations from the mean prediction"),
            for_difference.part("differences of the errors", "values times deviations from the mean prediction"),
        ),
    )


def _compare_on_entries(data: PrivateEntries, models: Models, spend: Spend) -> Comparison:
    values, width = data.values.reveal(), data.bounds[1] - data.bounds[0]
    errors = ((values[:, None] - _predict(data.columns.reveal(), models, data.bounds)) / width) ** 2
    # Around a half, errors between 0 and 1 have half the length; the count, in halves too, brings it back.
    rows = np.concatenate([np.full((len(values), 1), 0.5), np.clip(errors, 0.0, 1.0) - 0.5], axis=1)
    everything = np.zeros(len(values), dtype=np.int64)
    noisy = spend.bounded_rows(rows, everything, 1, longest=0.5 * float(np.sqrt(len(models) + 1)))
    halves, totals = noisy.values[0, 0], noisy.values[0, 1:] + noisy.values[0, 0]
    scale = width**2 / max(2.0 * float(halves), 1.0)
    noise = scale * float(np.sqrt(2.0 * noisy.variance))
    return Comparison(
        mean_squares=tuple(map(float, scale * totals)),
        noise=noise,
        difference_noise=noise,
        parts=(spend.part("errors", "number of the entries, and sums of their squared errors"),),
    )


def _predict(columns: Array, models: Models, bounds: tuple[float, float]) -> Array:
    """Return (n, models) predictions within the bounds, every one computed from its own indices alone, bit by bit."""
    predicted = np.empty((columns.shape[1], len(models)))
    with np.errstate(all="ignore"):  # a warning would tell of an entry
        for at, model in enumerate(models):
            predicted[:, at] = _predict_alone(columns, model)
    return np.clip(np.nan_to_num(predicted, nan=0.5 * (bounds[0] + bounds[1])), *bounds)


def _predict_alone(columns: Array, model: CPModel | TuckerModel) -> Array:
    core = np.asarray(model.core, dtype=np.float64) if isinstance(model, TuckerModel) else None
    factors = [np.asarray(factor, dtype=np.float64) for factor in model.factors]
    design, rows = make_entry_design(columns, core, factors, 0), factors[0][columns[0]]
    total: Array = np.zeros(columns.shape[1]) + baseline_at(model, columns)
    for component in range(design.shape[1]):
        total += design[:, component] * rows[:, component]
    return total
