"""The errors of a release, measured last: a noisy histogram of the residuals of its own predictions.

Predictions follow from released numbers and public positions, so the level that an entry's prediction falls into is
public. A value therefore is in one of the bins of its level, and another value would move two counts by one, as in any
histogram. With few entries there are fewer levels, so that noise stays small in each.

Bins are on a logarithmic scale on both sides of zero. Beyond the last bin that stands out of its noise, on either side,
counts are taken to fall at least as fast as a power of the residual: a single noisy count far out would otherwise
outweigh everything else in the mean square.

Residuals of the entries themselves are smaller than those of other cells, because the model has seen the entries. By
how much follows from positions, the model and what it was fitted to (`leverage`), all public or released, so each
residual may be multiplied by its own number before it is put into a bin. Where an entry's remainder along time follows
from its own perturbed value too, what the others alone say of it takes its place.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.deferred import Beside, beside, each
from tensorveil.mechanisms.fitting import predict_solution, solution_within
from tensorveil.mechanisms.shape import fall_off, make_edges, project
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import side_share
from tensorveil.models.errors import Errors
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.solvers.task import Solution

# The share of the budget: usually; about so many over the number of entries where these are few; at most.
_SHARE, _FEW, _MOST = 0.025, 300.0, 0.12
_PER_OCTAVE, _OCTAVES = 2, 10
# At most so many levels, and in each at least this many entries per standard deviation of the noise of a count. A
# single level may have fewer; but below the last number counts tell nothing, and residuals are taken to be anywhere.
_LEVELS, _PER_NOISE, _LEAST = 3, 100.0, 10.0
# A bin stands out from this many standard deviations of its noise on.
_CLEAR = 3.0
# Counts per bin fall at least as fast as this power of the residual. Of 1, 1.5, 2 and 2.5 this has the least error on
# the real tensors that are not set aside.
_FALL = 1.5
# Tails that stand out nowhere hold at most this share.
_MOST_IN_TAILS = 0.5


def errors_share(spend: Spend, n: int) -> float:
    """Return the share of a budget to keep for the errors."""
    return side_share(spend.noise, n, pure=spend.epsilon is not None, usual=_SHARE, few=_FEW, most=_MOST)


def private_errors(
    data: PrivateValues,
    solution: Solution,
    threads: int | None,
    spend: Spend,
    inflation: Array | Beside | None = None,
    unseen: Array | None = None,
) -> tuple[Errors, Part]:
    """Measure the residuals of a model that is already private, each multiplied by its ``inflation``, if given.

    ``unseen``, by cell, is what an entry would be predicted beside that if the model had not seen it. Both are public,
    or follow from what is already private.

    Guarantee: ``spend``, unit value (docs/guarantees.md#errors).
    """
    raw = predict_solution(solution, data.columns, threads)
    predictions = solution.link.mean(raw if unseen is None else raw + unseen[tuple(data.columns)])
    predictions = np.clip(predictions, *data.bounds)
    levels = _choose_levels(predictions, spend)
    edges = make_edges(data.width, _PER_OCTAVE, _OCTAVES)
    n_bins, n_levels = len(edges) - 1, len(levels) + 1
    values = data.values.reveal()
    predicted = beside(values, predictions, partial(solution_within, solution, unseen, data.bounds))
    residual = each(np.subtract, values, predicted)
    if inflation is not None:
        residual = each(np.multiply, residual, inflation)
    noisy = spend.counts(each(partial(_find_places, levels, edges), residual, predicted), n_levels * n_bins)
    level = np.searchsorted(levels, predictions, side="right")
    entries = np.bincount(level, minlength=n_levels)
    masses = np.zeros((n_levels, n_bins))
    for row, counts in enumerate(noisy.values.reshape(n_levels, n_bins)):
        own = predictions[level == row]
        low, high = data.bounds[0] - float(own.max()), data.bounds[1] - float(own.min())  # no residual is beyond
        masses[row] = read_level(counts, noisy.variance**0.5, int(entries[row]), edges, low, high)
    part = spend.part("errors", "histogram of the residuals of the released predictions")
    return Errors(levels=levels, edges=edges, masses=masses / masses.sum()), part


def _find_places(levels: Array, edges: Array, residual: Array, predictions: Array) -> Array:
    """Return the bin of every residual, in the level of its prediction."""
    n_bins = len(edges) - 1
    bins = np.clip(np.searchsorted(edges, residual, side="right") - 1, 0, n_bins - 1)
    places: Array = np.searchsorted(levels, predictions, side="right") * n_bins + bins
    return places


def error_edges(width: float) -> Array:
    """Return the edges of the bins of residuals, for bounds of this width."""
    return make_edges(width, _PER_OCTAVE, _OCTAVES)


def read_level(counts: Array, noise: float, n: float, edges: Array, low: float, high: float) -> Array:
    """Return the counts of one level before noise, about n in all, none of them beyond ``low`` or ``high``."""
    first = max(int(np.searchsorted(edges, low, side="right")) - 1, 0)
    last = min(int(np.searchsorted(edges, high, side="left")), len(counts))
    found = np.zeros(len(counts))
    found[first:last] = _denoise(counts[first:last], noise, n, edges[first : last + 1])
    return found


def _choose_levels(predictions: Array, spend: Spend) -> Array:
    noise = (spend.noise * (4.0 if spend.epsilon is not None else 2.0)) ** 0.5  # of a count: one value moves two
    return part_predictions(predictions, len(predictions), noise)


def part_predictions(predictions: Array, n: float, noise: float) -> Array:
    """Part the predictions into levels with about as many entries each, as many levels as noise allows."""
    most = int(np.clip(n / (_PER_NOISE * noise), 1, _LEVELS))
    found: Array = np.unique(np.quantile(predictions, np.arange(1, most) / most, method="higher"))
    above: Array = found[found > predictions.min()]  # a level without entries has no law
    return above


def _denoise(counts: Array, noise: float, n: float, edges: Array) -> Array:
    """Return counts with the total n that are not negative and fall in the tails; without any that stand out, even."""
    clear = np.flatnonzero(counts > _CLEAR * noise)
    if not len(clear) or n < _LEAST * noise:
        even: Array = n * np.diff(edges) / (edges[-1] - edges[0])
        return even
    first, last = int(clear[0]), int(clear[-1])
    kept = fall_off(counts, first, last, edges, _FALL)
    inside = np.arange(first, last + 1)
    outside = float(kept.sum() - kept[inside].sum())
    kept *= min(1.0, _MOST_IN_TAILS * n / max(outside, 1e-300))
    kept[inside] = project(counts[inside], n - min(outside, _MOST_IN_TAILS * n))
    return kept
