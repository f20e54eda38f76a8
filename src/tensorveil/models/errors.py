"""What errors to expect of a model's predictions: a histogram of its residuals, by level of the prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError

Floats = NDArray[Any]

# What the arrays are called in a model's file.
_LEVELS, _EDGES, _MASSES = "error_levels", "error_edges", "error_masses"


@dataclass(frozen=True, kw_only=True, eq=False)
class Errors:
    """How values are spread around predictions. Of a private model, this is part of the release.

    Parameters
    ----------
    levels
        Rising numbers that part the predictions into levels: none for a single level, two for three.
    edges
        Rising edges of the bins of residuals, value less prediction.
    masses
        (levels, bins): the share of all residuals that is in each level and bin; together 1.

    >>> errors = Errors(levels=[], edges=[-2.0, 0.0, 2.0], masses=[[0.5, 0.5]])
    >>> round(errors.rmse, 3), [bound.tolist() for bound in errors.interval([3.0], 0.8)]
    (1.155, [[1.4], [4.6]])
    """

    levels: Floats
    edges: Floats
    masses: Floats

    def __post_init__(self) -> None:
        for name in ("levels", "edges", "masses"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.levels.ndim != 1 or self.edges.ndim != 1 or not _rises(self.levels) or not _rises(self.edges):
            raise InputError("levels and edges must be rising, finite numbers.")
        if self.masses.shape != (len(self.levels) + 1, len(self.edges) - 1):
            raise InputError("masses must have a row for every level and a column for every bin.")
        # Infinities and NaN fail both comparisons.
        if not (np.all(self.masses >= 0) and abs(float(self.masses.sum()) - 1.0) < 1e-6):
            raise InputError("masses must be shares: none negative, and together 1.")

    @property
    def rmse(self) -> float:
        """The root mean square of the residuals, which are taken to be spread evenly within every bin."""
        low, high = self.edges[:-1], self.edges[1:]
        return math.sqrt(float(self.masses.sum(axis=0) @ (low**2 + low * high + high**2)) / 3.0)

    def interval(self, predictions: Floats, coverage: float) -> tuple[Floats, Floats]:
        """Return where values lie with this probability: the same share is left out above and below.

        The prediction itself is always inside.
        """
        check_coverage(coverage)
        predictions = np.asarray(predictions, dtype=np.float64)
        tail = 0.5 * (1.0 - coverage)
        quantiles = np.array([self._quantiles(masses, tail) for masses in self.masses])
        found = quantiles[np.searchsorted(self.levels, predictions, side="right")]
        return predictions + np.minimum(found[..., 0], 0.0), predictions + np.maximum(found[..., 1], 0.0)

    def _quantiles(self, masses: Floats, tail: float) -> Floats:
        """Return the residuals below which, and above which, this share of a level lies; of an empty one, all bins."""
        if not masses.any():
            return self.edges[[0, -1]]
        below = np.concatenate([[0.0], np.cumsum(masses / masses.sum())])
        return np.interp([tail, 1.0 - tail], below, self.edges)

    def to_arrays(self) -> dict[str, Floats]:
        """Return the arrays to store, by name."""
        return {_LEVELS: self.levels, _EDGES: self.edges, _MASSES: self.masses}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self | None:
        """Build errors of stored arrays; None if there are none."""
        if _MASSES not in arrays:
            return None
        return cls(levels=arrays[_LEVELS], edges=arrays[_EDGES], masses=arrays[_MASSES])


def check_coverage(coverage: float) -> None:
    """Refuse what is no share."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
        raise InputError("interval must lie between 0 and 1: the share of values inside. Try interval=0.9.")


def _rises(numbers: Floats) -> bool:
    return bool(np.all(np.isfinite(numbers)) and np.all(np.diff(numbers) > 0))
