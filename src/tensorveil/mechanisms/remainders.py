"""What a model of perturbed values leaves over along time, where somebody said that neighbouring times are alike.

The remainder of each line (a sensor, a pair of zones) is an autoregression under noise of a known variance, as in open
fits (solvers/priors/series.py). Its correlation and its variance are chosen by the evidence of the perturbed values;
there is a remainder only if that of most values brings the others clearly nearer. Where values are answers in windows
that are near more often than not, an entry counts as far as its answer is likely to be, given what the others say of
it. Post-processing only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorveil.kernels.lines import line_evidence
from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.fitting import Perturbed
from tensorveil.solvers.bayes import scatter_precisions
from tensorveil.solvers.priors.series import Lines, Process, Series, find_lines, fit_process, smooth_cells

# Perturbed residuals count as at most this many standard deviations of their noise: answers may be anywhere.
_FAR = 3.0
# What the others say of a value has to take error away, by so many standard deviations of chance.
_CLEAR = 3.0
# Values are hidden in so many parts, one after the other.
_PARTS = 5
# What a process leaves of the residuals that is no noise has at least this share of its variance.
_LEAST = 0.02
# Answers are told apart where they are near with at least the first chance: with wider windows they would be chosen by
# what is believed of them. The second is the least chance of one to be near.
_MOSTLY, _NEVER = 0.75, 1e-9
# Which answers are near follows from the remainder, and the other way round.
_TURNS = 4
# Noise hides processes: so many entries decide on one.
_ENOUGH = 200_000
# A remainder is a number per cell: larger tensors have none.
_MOST_CELLS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Remainder:
    """A number per cell; and, by entry, how much the others alone would say beyond that: errors of cells not seen."""

    table: Array
    unseen: Array

    def times(self, factor: float) -> Remainder:
        """Return a multiple."""
        return Remainder(table=self.table * factor, unseen=self.unseen * factor)


def find_remainder(perturbed: Perturbed, left: Array, times: Sequence[Series]) -> Remainder | None:
    """Return what perturbed values, less the model, show along the best of several times, if along any."""
    if not times or np.prod(perturbed.shape, dtype=float) > _MOST_CELLS:
        return None
    series, process, _ = max((_fit(perturbed, _clip(perturbed, left), each) for each in times), key=lambda fit: fit[2])
    if not _helps(perturbed, left, series, process):
        return None
    near = perturbed.scatter is not None and perturbed.scatter.inside > _MOSTLY
    return (_smooth_answers if near else _smooth_even)(perturbed, left, series, process)


def _clip(perturbed: Perturbed, left: Array) -> Array:
    far = _FAR * perturbed.noise**0.5
    return np.clip(left, -far, far)


def _helps(perturbed: Perturbed, left: Array, series: Series, process: Process) -> bool:
    """Tell whether the remainder of most values clearly brings the others nearer.

    The noise of a value has nothing to do with the others, so what it adds to squares is the same without remainder.
    """
    parts = np.random.default_rng(0).integers(_PARTS, size=len(left))
    gains = np.empty(len(left))
    for hidden in (parts == k for k in range(_PARTS)):
        rest = replace(perturbed, columns=perturbed.columns[:, ~hidden], scatter=None)
        others = _smooth_even(rest, left[~hidden], series, process).table[tuple(perturbed.columns[:, hidden])]
        gains[hidden] = others * (2.0 * left[hidden] - others)
    return bool(np.mean(gains) > _CLEAR * np.std(gains) / len(gains) ** 0.5)


def _fit(perturbed: Perturbed, left: Array, series: Series) -> tuple[Series, Process, float]:
    """Return the process of one time, and its evidence."""
    lines = find_lines(perturbed.columns, perturbed.shape, series)
    process = fit_process(lines, left, _ENOUGH)
    values = np.ascontiguousarray(left[lines.order])
    evidence = line_evidence(lines.pointers, lines.times, values, process.phi, process.variance, process.noise)
    return series, process, float(evidence)


def _smooth_even(perturbed: Perturbed, left: Array, series: Series, process: Process) -> Remainder:
    """Return the remainder if all values are as noisy."""
    lines = find_lines(perturbed.columns, perturbed.shape, series)
    return _smooth(perturbed, _clip(perturbed, left), np.full(len(left), process.noise), series, lines, process)[0]


def _smooth_answers(perturbed: Perturbed, left: Array, series: Series, process: Process) -> Remainder:
    """Return the remainder of answers in windows."""
    scatter = perturbed.scatter
    assert scatter is not None
    lines = find_lines(perturbed.columns, perturbed.shape, series)
    # What no neighbour tells of a value counts as noise; so near answers have this variance.
    near = scatter.near + max(process.noise - perturbed.noise, _LEAST * process.variance)
    left, known, unknown = left + scatter.shift, np.zeros(len(left)), process.variance
    for _ in range(_TURNS):  # whether an answer is near is for the others to say
        law = scatter_precisions(scatter, near + unknown)
        precisions = np.interp(np.abs(left - known) / law.step, np.arange(len(law.table)), law.table)
        noise = near / np.maximum(precisions * (near + unknown), _NEVER)
        found, leverages = _smooth(perturbed, left, noise, series, lines, process)
        known = found.table[tuple(perturbed.columns)] + found.unseen
        unknown = float(np.mean(leverages / (1.0 - leverages) * noise))
    return found


def _smooth(
    perturbed: Perturbed, left: Array, noise: Array, series: Series, lines: Lines, process: Process
) -> tuple[Remainder, Array]:
    """Return the remainder, and by entry how far it follows the entry's own value."""
    table, spread = smooth_cells(lines, left, process, perturbed.shape, series, noise)
    leverages = spread / noise
    own = left - table[tuple(perturbed.columns)]
    return Remainder(table=table, unseen=-own * leverages / (1.0 - leverages)), leverages
