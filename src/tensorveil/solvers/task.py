"""What a solver takes and what it returns, the same for every solver and model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.link import IDENTITY, Link
from tensorveil.solvers.loss import GAUSSIAN, Loss
from tensorveil.tensor.entries import Entries, MemoryEntries, mean_square, mean_value

Array = NDArray[Any]
Baseline = Literal["none", "mean", "biases"]
Progress = Callable[["Record"], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Entries to fit, the form of the model (CP if ``core`` is False, all ranks equal; else Tucker) and the loss.

    ``columns`` and ``values`` are all entries in memory, which every present solver needs to group or tile them; what
    only passes over the data asks ``entries`` for blocks. With ``zeros`` all cells that are not listed hold 0, but for
    those ``excluded`` (order, n), of which nothing is known; ``excluded_entries`` of them are not zero. Modes in
    ``same`` are the same thing: they share a factor. ``elsewhere`` works on the parts of a store, if not this machine
    (`solvers.stored_rows.Elsewhere`).
    """

    entries: Entries
    ranks: tuple[int, ...]
    core: bool
    baseline: Baseline
    dtype: np.dtype[Any]
    threads: int | None
    seed: int
    loss: Loss = GAUSSIAN
    zeros: bool = False
    excluded: Array = field(default_factory=lambda: np.empty((0, 0), np.int32))
    excluded_entries: int = 0
    nonnegative: bool = False
    same: tuple[tuple[int, ...], ...] = ()
    elsewhere: Any = None

    @property
    def n_cells(self) -> int:
        """Number of cells, listed or not."""
        return math.prod(self.shape)

    @property
    def tied(self) -> tuple[tuple[int, ...], ...]:
        """Modes by the factor they have: those that are the same thing together, all others alone."""
        groups = {mode: group for group in self.same for mode in group}
        return tuple(dict.fromkeys(groups.get(mode, (mode,)) for mode in range(self.order)))

    @property
    def has_offset(self) -> bool:
        """Whether linear parts have a constant that the fit has to find: values that are scaled are centred instead."""
        return self.baseline != "none" and not (self.loss.scalable or self.nonnegative)

    @property
    def n_zeros(self) -> int:
        """Number of cells that hold 0 without being listed."""
        return self.n_cells - self.n_entries - self.excluded.shape[1] if self.zeros else 0

    @property
    def zero_weight(self) -> float:
        """What an unlisted zero has to count so that zeros are to entries as before some of both were left out."""
        left_out = self.excluded.shape[1] - self.excluded_entries
        entries = self.n_entries / (self.n_entries + self.excluded_entries)
        return float(entries * (self.n_zeros + left_out) / max(self.n_zeros, 1))

    @property
    def share_listed(self) -> float:
        """Share of the known cells that is listed, zeros weighted."""
        return self.n_entries / (self.n_entries + self.zero_weight * self.n_zeros)

    def mean_known(self) -> float:
        """Return the mean of the entries, or of all cells where those that are not listed are zeros."""
        return mean_value(self.entries) * self.share_listed

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.entries.shape

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return self.entries.n_entries

    @property
    def columns(self) -> Array:
        """Coordinates (order, n)."""
        return self.entries.load().columns

    @property
    def values(self) -> Array:
        """Values (n,)."""
        return self.entries.load().values

    def with_values(self, values: Array) -> Task:
        """Return the task of fitting other values at the same coordinates."""
        return replace(self, entries=MemoryEntries(columns=self.columns, values=values, shape=self.shape))

    def error(self, total: float, scaling: Scaling) -> float:
        """Return the loss's measure in the units of the data, from the sum of the loss over the scaled entries."""
        return self.loss.summary(max(total, 0.0) / self.n_entries) * scaling.scale

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line of a fit's history. It is computed from the data: a diagnostic, not part of a release.

    Errors are by the loss's measure, which ``measure`` names.
    """

    restart: int
    iteration: int
    iterations: int
    seconds: float
    train_error: float
    validation_error: float | None = None
    bound: float | None = None
    measure: str = GAUSSIAN.measure


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The parts of a fitted model, in the units of the data; ``core`` is None for CP."""

    factors: tuple[Array, ...]
    core: Array | None
    offset: float
    biases: tuple[Array, ...] | None
    noise_variance: float | None = None
    # What is added cell by cell, in the shape of the tensor; see solvers/priors/series.py.
    remainder: Array | None = None
    # How predictions follow, where that is for the solution to say: in private fits of counts and of yes and no.
    link: Link = IDENTITY


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How the solver sees the values: (x - offset) / scale."""

    offset: float
    scale: float

    def apply(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Return the values as the solver sees them."""
        if self.offset == 0.0 and self.scale == 1.0:
            return values.astype(dtype, copy=False)
        out: Array = (values - values.dtype.type(self.offset)) / values.dtype.type(self.scale)
        return out.astype(dtype, copy=False)

    def apply_in_place(self, values: Array) -> None:
        """Do to values what `apply` does, to the last bit, without a copy."""
        if self.offset != 0.0 or self.scale != 1.0:
            values -= values.dtype.type(self.offset)
            values /= values.dtype.type(self.scale)

    def undo(
        self,
        factors: tuple[Array, ...],
        core: Array | None,
        biases: tuple[Array, ...] | None,
        variance: float | None = None,
    ) -> Solution:
        """Return the fitted parts in the units of the data."""
        if core is None:
            share = self.scale ** (1.0 / len(factors))
            factors = tuple(f * f.dtype.type(share) for f in factors)
        else:
            core = core * core.dtype.type(self.scale)
        return Solution(
            factors=factors,
            core=core,
            offset=self.offset,
            biases=None if biases is None else tuple(b * b.dtype.type(self.scale) for b in biases),
            noise_variance=None if variance is None else variance * self.scale**2,
        )


def standard_scaling(task: Task) -> Scaling:
    """Centre and scale to unit variance, where the loss allows it: settings then do not depend on the data's units."""
    if not task.loss.scalable:
        return Scaling(offset=0.0, scale=1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        offset = 0.0 if task.baseline == "none" else mean_value(task.entries)
        spread = float(np.sqrt(mean_square(task.entries, offset)))
    if not (math.isfinite(offset) and math.isfinite(spread)):
        raise InputError("values must have finite squares; these are too large. Measure them in another unit.")
    return Scaling(offset=offset, scale=spread if spread > 0 else 1.0)


def known_scaling(task: Task) -> Scaling:
    """Centre and scale as `standard_scaling`, counting the cells that are zero without being listed.

    Non-negative models have no offset.
    """
    if not task.loss.scalable or not (task.zeros or task.nonnegative):
        return standard_scaling(task)
    offset = 0.0 if task.baseline == "none" or task.nonnegative else task.mean_known()
    share = task.share_listed
    square = mean_square(task.entries, offset) * share + offset**2 * (1.0 - share)
    if not math.isfinite(square):
        raise InputError("values must have finite squares; these are too large. Measure them in another unit.")
    return Scaling(offset=offset, scale=math.sqrt(square) if square > 0 else 1.0)


def start_spread(task: Task, target: float = 1.0) -> float:
    """Return the standard deviation of random factors whose model has about variance ``target``."""
    terms = float(np.prod(task.ranks)) if task.core else float(task.ranks[0])
    return float((target / terms) ** (0.5 / task.order))
