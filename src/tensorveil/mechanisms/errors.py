"""The errors of a release, measured last: a noisy histogram of the residuals of its own predictions.

Predictions follow from released numbers and public positions, so the level that an entry's prediction falls into is
public. A value therefore is in one of the bins of its level, and another value would move two counts by one, as in any
histogram. With few entries there are fewer levels, so that noise stays small in each.

Bins are on a logarithmic scale on both sides of zero. Beyond the last bin that stands out of its noise, on either side,
counts are taken to fall at least as fast as a power of the residual: a single noisy count far out would otherwise
outweigh everything else in the mean square. But where a few large residuals make most of the error, that is too little
by far. So a part of the budget buys a noisy sum of what squares are above a limit, beyond which the histogram sees next
to nothing; of what both say the sum counts the more the less noise it has.

Residuals of the entries themselves are smaller than those of other cells, because the model has seen the entries. By
how much follows from positions, the model and what it was fitted to (`leverage`), all public or released, so each
residual may be multiplied by its own number before it is put into a bin. Where an entry's remainder along time follows
from its own perturbed value too, what the others alone say of it takes its place.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.deferred import Beside, Deferred, beside, each, here, put_together
from tensorveil.mechanisms.fitting import predict_solution, solution_within
from tensorveil.mechanisms.shape import fall_off, make_edges, project
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import side_share
from tensorveil.models.errors import Errors
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.solvers.task import Solution

# The share of the budget: usually; about so many over the number of entries where these are few; at most.
_SHARE, _FEW, _MOST = 0.035, 400.0, 0.14
# Of that, the share of the histogram; the rest is for large residuals.
COUNTS = 0.7
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
# Squares beyond the limit are at most this share of all that the histogram sees. How far the histogram may be off, as a
# share of all squares; and how much of what it says of large residuals is there at least.
_HARDLY_SEEN, _FAR_SHARE, _LEAST_FAR = 0.15, 0.05, 0.3


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
) -> tuple[Errors, tuple[Part, ...]]:
    """Measure the residuals of a model that is already private, each multiplied by its ``inflation``, if given.

    ``unseen``, by cell, is what an entry would be predicted beside that if the model had not seen it. Both are public,
    or follow from what is already private.

    Guarantee: ``spend``, unit value (docs/guarantees.md#errors).
    """
    raw = predict_solution(solution, data.columns, threads)
    predictions = solution.link.mean(raw if unseen is None else raw + unseen[tuple(data.columns)])
    predictions = np.clip(predictions, *data.bounds)
    values = data.values.reveal()
    predicted = beside(values, predictions, partial(solution_within, solution, unseen, data.bounds))
    residual = each(np.subtract, values, predicted)
    if inflation is not None:
        residual = each(np.multiply, residual, inflation)
    for_counts, for_squares = spend.split(COUNTS, 1.0 - COUNTS)
    levels, edges = _choose_levels(predictions, for_counts), make_edges(data.width, _PER_OCTAVE, _OCTAVES)
    masses = _count_residuals(residual, predicted, data.bounds, levels, edges, for_counts)
    parts = [for_counts.part("errors", "histogram of the residuals of the released predictions")]
    farthest = max(float(predictions.max()) - data.bounds[0], data.bounds[1] - float(predictions.min()))
    limit = _find_limit(masses.sum(axis=0), edges)
    if limit < farthest:
        everything = beside(values, put_together(data.columns), put_together)
        total, noise = _sum_squares(residual, farthest, limit / farthest, everything, for_squares)
        parts.append(for_squares.part("far errors", "squares of large residuals, above a limit"))
        masses = _weigh_tails(masses, edges / farthest, limit / farthest, total, noise)
    return Errors(levels=levels, edges=edges, masses=masses / masses.sum()), tuple(parts)


def _count_residuals(
    residual: Array | Deferred,
    predicted: Array | Beside,
    bounds: tuple[float, float],
    levels: Array,
    edges: Array,
    spend: Spend,
) -> Array:
    """Return about how many residuals are in each bin, by level of the prediction.

    Guarantee: ``spend``, unit value (docs/guarantees.md#errors).
    """
    n_bins, n_levels = len(edges) - 1, len(levels) + 1
    noisy = spend.counts(each(partial(_find_places, levels, edges), residual, predicted), n_levels * n_bins)
    predictions = here(predicted)
    level = np.searchsorted(levels, predictions, side="right")
    entries = np.bincount(level, minlength=n_levels)
    masses = np.zeros((n_levels, n_bins))
    for row, counts in enumerate(noisy.values.reshape(n_levels, n_bins)):
        own = predictions[level == row]
        low, high = bounds[0] - float(own.max()), bounds[1] - float(own.min())  # no residual is beyond
        masses[row] = read_level(counts, noisy.variance**0.5, int(entries[row]), edges, low, high)
    return masses


def _sum_squares(
    residual: Array | Deferred, farthest: float, limit: float, everything: Array | Beside, spend: Spend
) -> tuple[float, float]:
    """Return the sum of what squares, of residuals over the farthest, are above that of a limit; its noise's variance.

    Guarantee: ``spend``, unit value (docs/guarantees.md#errors).
    """
    beyond = each(partial(_square_beyond, farthest, limit), residual)
    total = spend.sums(beyond, 0.0, 1.0 - limit**2, everything, 1)
    return float(total.values[0]), total.variance


def _square_beyond(farthest: float, limit: float, residual: Array) -> Array:
    return np.asarray(np.clip((residual / farthest) ** 2 - limit**2, 0.0, 1.0 - limit**2))


def mean_squares(edges: Array) -> Array:
    """Return the mean square of residuals that are spread evenly within a bin."""
    low, high = edges[:-1], edges[1:]
    return np.asarray((low**2 + low * high + high**2) / 3.0)


def _find_limit(counts: Array, edges: Array) -> float:
    """Return the least edge beyond which the histogram sees next to nothing of the squares."""
    far = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    shares = counts * mean_squares(edges / edges[-1])
    shares = shares / max(float(shares.sum()), 1e-300)
    limits = np.unique(far)
    return float(next(limit for limit in limits if shares[far > limit].sum() <= _HARDLY_SEEN))


def _weigh_tails(masses: Array, edges: Array, limit: float, total: float, noise: float) -> Array:
    """Make counts beyond a limit more or fewer, so that their squares above it are about what was measured.

    ``total`` is that sum, ``noise`` its variance, and no residual is beyond 1. What the histogram says is taken to be
    off by as much as it says, and by a share of the whole.
    """
    far, squares = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:])), mean_squares(edges)
    outside = (far > limit) & (far <= 1.0)
    above = np.maximum(squares - limit**2, 0.0)
    seen = float(masses[:, far > limit].sum(axis=0) @ above[far > limit])
    differ = (seen + _FAR_SHARE * float(masses.sum(axis=0) @ squares)) ** 2
    found = max(seen + (total - seen) * differ / (differ + noise + 1e-300), _LEAST_FAR * seen)
    changed = masses.copy()
    if found < seen:
        changed[:, far > limit] *= found / seen
    else:  # what is missing is spread evenly over the squares that there may be
        missing = (found - seen) / max(int(np.count_nonzero(outside)), 1)
        more = np.where(outside, missing / np.maximum(above, 0.5 * limit**2), 0.0)
        changed += more * masses.sum(axis=1, keepdims=True) / float(masses.sum())
    return changed


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
