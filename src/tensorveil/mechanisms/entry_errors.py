"""The errors of a release in unit "entry", measured last: a noisy histogram of the residuals of its own predictions.

As in unit value (`mechanisms/errors.py`), but which entries there are is private. An entry is in one bin of one level,
so adding or removing it moves one count by one. Levels are parted by what the model predicts at places where entries
may be, which are drawn by what is released.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.deferred import each
from tensorveil.mechanisms.entry_predictions import predict_alone, predict_within
from tensorveil.mechanisms.errors import error_edges, part_predictions, read_level
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import count_once, find_bins
from tensorveil.models.errors import Errors
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.solvers.task import Solution


def private_entry_errors(data: PrivateEntries, solution: Solution, places: Array, n: float, spend: Spend) -> Errors:
    """Measure the residuals of a model that is already private; there are about n entries, at about these places.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#errors).
    """
    low, high = data.bounds
    noise = spend.noise**0.5  # of a count: one entry moves one
    levels = part_predictions(np.clip(predict_alone(places, solution), low, high), n, noise)
    edges = error_edges(high - low)
    n_bins, n_levels = len(edges) - 1, len(levels) + 1
    predictions = each(partial(predict_within, solution, data.bounds), data.columns.reveal())
    counted = each(partial(_find_places, levels, edges), data.values.reveal(), predictions)
    noisy = spend.bounded_rows(each(count_once, counted), counted, n_levels * n_bins, longest=1.0)
    ends = np.concatenate([[low], levels, [high]])
    masses = np.zeros((n_levels, n_bins))
    for row, counts in enumerate(noisy.values[:, 0].reshape(n_levels, n_bins)):
        own = max(float(counts.sum()), 1.0)
        masses[row] = read_level(counts, noisy.variance**0.5, own, edges, low - ends[row + 1], high - ends[row])
    return Errors(levels=levels, edges=edges, masses=masses / masses.sum())


def _find_places(levels: Array, edges: Array, values: Array, predictions: Array) -> Array:
    """Return where an entry counts: in a bin of the level of its prediction."""
    bins = find_bins(edges, values - predictions)
    return np.asarray(np.searchsorted(levels, predictions, side="right") * (len(edges) - 1) + bins)
