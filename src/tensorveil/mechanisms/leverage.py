"""How much a model that was fitted to perturbed values follows each of them; from public positions and the model alone.

An entry's residual is smaller than the error at a cell that the model has not seen: in least squares it is 1 - h times
as large, h being its leverage, the weight of its own value in its prediction (Hoaglin and Welsch 1978). Rows are
taken to be fitted mode by mode, each as a ridge regression on the other modes' factors whose prior variances are those
of the factors' columns; what the modes leave of an entry is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.design import make_row_design
from tensorveil.solvers.task import Solution

# No entry is taken to decide more than this share of its own prediction.
_MOST = 0.8
# Rows are worked on in blocks; a block's design and its matrices have at most about so many numbers.
_NUMBERS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Leverages:
    """By mode, the average leverage in the fit of every row."""

    by_row: tuple[Array, ...]

    def at(self, columns: Array) -> Array:
        """Return the leverage of every entry."""
        left = np.ones(columns.shape[1])
        for found, column in zip(self.by_row, columns, strict=True):
            left *= 1.0 - found[column]
        return np.asarray(np.minimum(1.0 - left, _MOST))


def find_leverages(columns: Array, solution: Solution, noise: float) -> Leverages:
    """Return the leverages of all entries; ``noise`` is the variance of what the fit takes for noise, per value.

    Within a row of a mode it is the average, which is cheaper and tells the same of a histogram.
    """
    biases = solution.biases or [np.zeros(1)] * len(solution.factors)
    spreads = [float(np.var(bias)) for bias in biases]
    return Leverages(
        by_row=tuple(_leverages_of(columns, solution, mode, noise, bias) for mode, bias in enumerate(spreads))
    )


def inflate_at(leverages: Leverages, noise: float, rest: float, columns: Array) -> Array:
    """Return what the residuals of entries are to be multiplied by; see `inflate`."""
    return inflate(leverages.at(columns), noise, rest)


def inflate(leverages: Array, noise: float, rest: float) -> Array:
    """Return what residuals are to be multiplied by to be as large as the errors at cells that were not seen.

    A residual is (1 - h) times the error less h times the entry's own noise, of which the variance is ``noise``; that
    of the errors is about ``rest``.
    """
    return np.asarray(1.0 / np.sqrt((1.0 - leverages) ** 2 + leverages**2 * noise / rest)).clip(1.0)


def _leverages_of(columns: Array, solution: Solution, mode: int, noise: float, bias: float) -> Array:
    """Return the average leverage in the fit of every row; ``bias`` is the variance of the mode's biases."""
    size = len(solution.factors[mode])
    spreads = np.var(solution.factors[mode], axis=0)
    used = np.flatnonzero(spreads)
    if not len(used) and not bias:
        return np.zeros(size)
    order = np.argsort(columns[mode], kind="stable")
    counts = np.bincount(columns[mode], minlength=size)
    ends = np.concatenate([[0], np.cumsum(counts)])
    found, first = np.zeros(size), 0
    while first < size:
        most = first + max(_NUMBERS // (len(used) + 1) ** 2, 1)
        last = max(min(int(np.searchsorted(ends, ends[first] + _NUMBERS // (len(used) + 1))), most, size), first + 1)
        part = columns[:, order[ends[first] : ends[last]]]
        design = make_row_design(part, solution.core, solution.factors, mode)
        design = design[:, used] * np.sqrt(spreads[used])  # rows have unit prior variance
        design = np.column_stack([design, np.full(len(design), bias**0.5)])
        found[first:last] = _average_in_rows(design, counts[first:last], noise)
        first = last
    return found


def _average_in_rows(design: Array, counts: Array, noise: float) -> Array:
    """Return the average leverage in every row; the entries of a row, so many, stand together."""
    rank, rows = design.shape[1], np.repeat(np.arange(len(counts)), counts)
    grams = np.empty((len(counts), rank, rank))
    for one in range(rank):
        for other in range(one + 1):
            grams[:, one, other] = np.bincount(rows, design[:, one] * design[:, other], len(counts))
            grams[:, other, one] = grams[:, one, other]
    inverse = np.linalg.inv(grams + noise * np.eye(rank))
    return np.asarray(np.einsum("irs,isr->i", grams, inverse) / np.maximum(counts, 1))
