"""The errors of a release in unit "entry", measured last: a noisy histogram of the residuals of its own predictions.

As in unit value (`mechanisms/errors.py`), but which entries there are is private. An entry is in one bin of one level,
so adding or removing it moves one count by one. Levels are parted by what the model predicts at places where entries
may be, which are drawn by what is released.
"""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.entry_predictions import predict_alone
from tensorveil.mechanisms.errors import error_edges, part_predictions, read_level
from tensorveil.mechanisms.spend import Spend
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
    predictions = np.clip(predict_alone(data.columns.reveal(), solution), low, high)
    residual = data.values.reveal() - predictions
    bins = np.clip(np.searchsorted(edges, residual, side="right") - 1, 0, n_bins - 1)
    level = np.searchsorted(levels, predictions, side="right")
    ones = np.ones((len(bins), 1))
    noisy = spend.bounded_rows(ones, level * n_bins + bins, n_levels * n_bins, longest=1.0)
    ends = np.concatenate([[low], levels, [high]])
    masses = np.zeros((n_levels, n_bins))
    for row, counts in enumerate(noisy.values[:, 0].reshape(n_levels, n_bins)):
        own = max(float(counts.sum()), 1.0)
        masses[row] = read_level(counts, noisy.variance**0.5, own, edges, low - ends[row + 1], high - ends[row])
    return Errors(levels=levels, edges=edges, masses=masses / masses.sum())
