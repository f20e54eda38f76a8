"""What a model of perturbed values leaves over along time, where somebody said that neighbouring times are alike.

The remainder of each line (a sensor, a pair of zones) is an autoregression under noise of a known variance, as in open
fits (solvers/priors/series.py). Its correlation and its variance are chosen by the evidence of the perturbed values; if
that hardly prefers them to no remainder at all, there is none. Where values are answers in windows, an entry counts as
far as its answer is likely to be near, given what is already known of it. Post-processing only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorveil.kernels.lines import line_evidence
from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.fitting import Perturbed
from tensorveil.solvers.bayes import scatter_precisions
from tensorveil.solvers.priors.series import Lines, Process, Series, find_lines, fit_process, smooth_cells

# Perturbed residuals count as at most this many standard deviations of their noise: answers may be anywhere.
_FAR = 3.0
# A remainder has to be this many times as likely as none, on a logarithmic scale.
_WORTH = 10.0
# What a process leaves of the residuals that is no noise has at least this share of its variance.
_LEAST = 0.02
# Answers are near with this chance at least.
_NEVER = 1e-9
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


def find_remainder(perturbed: Perturbed, left: Array, times: Sequence[Series]) -> Remainder | None:
    """Return what perturbed values, less the model, show along the best of several times, if along any."""
    if not times or np.prod(perturbed.shape, dtype=float) > _MOST_CELLS:
        return None
    far = _FAR * perturbed.noise**0.5
    clipped = np.clip(left, -far, far)
    found = [_fit(perturbed, clipped, series) for series in times]
    series, lines, process, worth = max(found, key=lambda each: each[3])
    if worth < _WORTH:
        return None
    if perturbed.scatter is None:
        return _smooth(perturbed, clipped, np.full(len(left), process.noise), series, lines, process)[0]
    return _smooth_answers(perturbed, left, series, lines, process)


def _fit(perturbed: Perturbed, left: Array, series: Series) -> tuple[Series, Lines, Process, float]:
    """Return the process of one time, and how much likelier it is than no process."""
    lines = find_lines(perturbed.columns, perturbed.shape, series)
    process = fit_process(lines, left, _ENOUGH)
    data = lines.pointers, lines.times, np.ascontiguousarray(left[lines.order])
    alone = line_evidence(*data, 0.0, 0.0, max(float(np.mean(left**2)), 1e-300))
    worth = line_evidence(*data, process.phi, process.variance, process.noise) - alone
    return series, lines, process, float(worth)


def _smooth_answers(perturbed: Perturbed, left: Array, series: Series, lines: Lines, process: Process) -> Remainder:
    """Return the remainder of answers in windows."""
    scatter = perturbed.scatter
    assert scatter is not None
    # What no neighbour tells of a value counts as noise; so near answers have this variance.
    near = scatter.near + max(process.noise - perturbed.noise, _LEAST * process.variance)
    left, known, unknown = left + scatter.shift, np.zeros(len(left)), process.variance
    for _ in range(_TURNS):
        law = scatter_precisions(scatter, near + unknown)
        precisions = np.interp(np.abs(left - known) / law.step, np.arange(len(law.table)), law.table)
        noise = near / np.maximum(precisions * (near + unknown), _NEVER)
        found, leverages = _smooth(perturbed, left, noise, series, lines, process)
        known = found.table[tuple(perturbed.columns)]
        unknown = float(np.mean(leverages * noise))
    return found


def _smooth(
    perturbed: Perturbed, left: Array, noise: Array, series: Series, lines: Lines, process: Process
) -> tuple[Remainder, Array]:
    """Return the remainder, and by entry how far it follows the entry's own value."""
    table, spread = smooth_cells(lines, left, process, perturbed.shape, series, noise)
    leverages = spread / noise
    own = left - table[tuple(perturbed.columns)]
    return Remainder(table=table, unseen=-own * leverages / (1.0 - leverages)), leverages
