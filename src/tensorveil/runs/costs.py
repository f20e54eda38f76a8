"""How much memory and time a fit takes, roughly: from its size and a small table of measured costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final

from tensorveil.completion.needs import estimate_fit
from tensorveil.mechanisms.crosstab_plan import MOST_CELLS

__all__ = ["Cost", "estimate_open", "estimate_private"]

# Nanoseconds of CPU time per entry, mode and sweep: a + b R^2 (sgd: a + b R), for rank R. Measured by
# `python -m benchmarks.costs` on one core of an ordinary server under other load: right within a factor of three or so.
PER_ENTRY: Final[Mapping[str, tuple[float, float, int]]] = {
    "bayes": (40.0, 0.5, 2),
    "als": (10.0, 0.06, 2),
    "sgd": (2.0, 0.3, 1),
}
# How many times longer than an open fit of 100 sweeps a private one takes: rounded from a few small fits, and rougher.
PRIVATE: Final[Mapping[str, float]] = {"value": 10.0, "entry": 10.0, "slice": 7.0}
SWEEPS: Final[Mapping[str, int]] = {"bayes": 100, "als": 50, "sgd": 100}
# Nanoseconds per row and cubed rank of a sweep: small systems of equations.
PER_ROW: Final = 2.0
# The interpreter, its libraries and compiled code.
BASE: Final = 200_000_000
# What fits for single values and for entries need besides, and bytes per cell of two-way tables for values.
PRIVATE_BASE: Final[Mapping[str, int]] = {"value": 50_000_000, "entry": 10_000_000, "slice": 0}
PER_CELL: Final = 64
# In unit entry a two-way table leaves three numbers per cell: how certain it is, what it says, how entries crowd. At
# work are eight numbers per cell of one table at a time, that of all modes among them: counts and sums as released,
# what is expected, what is left of both, and what these are computed from.
KEPT_PER_CELL: Final = 3 * 8
WORK_PER_CELL: Final = 8 * 8
_SMALL: Final = 1 << 16  # modes up to this size have coordinates of two bytes in what solvers keep


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a fit takes at most, roughly: seconds on one core, if it makes all its sweeps, and bytes of memory.

    Bytes are those of the whole process, interpreter and data included.
    """

    seconds: float
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{_words(self.seconds)}, {_size(self.bytes)}"


def estimate_open(
    shape: tuple[int, ...], entries: int, *, solver: str = "bayes", ranks: tuple[int, ...] | None = None,
) -> Cost:  # fmt: skip
    """Estimate an open fit of all sweeps; by default of rank 8.

    >>> small, large = (estimate_open((943, 1682), n) for n in (10_000, 100_000))
    >>> small.seconds < large.seconds, small.bytes < large.bytes
    (True, True)
    """
    ranks = ranks or (8,) * len(shape)
    fixed, slope, power = PER_ENTRY[solver]
    per_sweep = 1e-9 * entries * sum(fixed + slope * rank**power for rank in ranks)
    per_sweep += 1e-9 * PER_ROW * sum(size * rank**3 for size, rank in zip(shape, ranks, strict=True))
    return Cost(seconds=SWEEPS[solver] * per_sweep, bytes=_count_bytes(shape, entries, solver, ranks))


def _count_bytes(shape: tuple[int, ...], entries: int, solver: str, ranks: tuple[int, ...]) -> int:
    """Return the peak of an open fit of values in double precision, the tensor and the interpreter included.

    Measured within a tenth, at a million entries and four (`python -m benchmarks.costs memory`).
    """
    order = len(shape)
    coords = [2 if all(size <= _SMALL for m, size in enumerate(shape) if m != mode) else 4 for mode in range(order)]
    per_entry = 4 * order + 8  # the tensor
    if solver == "sgd":
        per_entry += 2 * order + 8
    else:  # by the rows of every mode; the variational solver keeps scaled values besides
        per_entry += sum((order - 1) * wide + 8 for wide in coords) + (8 if solver == "bayes" else 0)
    widths = [8 * (2 * rank + (rank * (rank + 1) // 2 if solver == "bayes" else 0)) for rank in ranks]
    return BASE + entries * per_entry + sum(size * width for size, width in zip(shape, widths, strict=True))


def estimate_private(
    shape: tuple[int, ...], entries: int, *, unit: str, ranks: tuple[int, ...], core: bool = False
) -> Cost:
    """Estimate a private fit by "auto" for a kind of unit."""
    # A core's statistics are about as many as the products of the other modes' components.
    wide = tuple(math.prod(ranks) // rank for rank in ranks) if core else ranks
    fit = estimate_open(shape, entries, ranks=wide)
    bytes_ = BASE + PRIVATE_BASE[unit] + _count_tables(shape, unit) + estimate_fit(shape, ranks, entries)
    return Cost(seconds=PRIVATE[unit] * fit.seconds, bytes=bytes_)


def _count_tables(shape: tuple[int, ...], unit: str) -> int:
    """Return the bytes of tables that are decoded whole, if the budget is large enough for all of them."""
    if unit == "slice":
        return 0
    pairs = [cells for cells in (one * other for one, other in combinations(shape, 2)) if cells <= MOST_CELLS]
    if unit == "value":
        return PER_CELL * sum(pairs)
    everything = [cells for cells in (math.prod(shape),) if cells <= MOST_CELLS]
    return KEPT_PER_CELL * sum(pairs) + WORK_PER_CELL * max([*pairs, *everything], default=0)


def _words(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 90:
        return f"about {_round(seconds):g} s"
    if seconds < 5400:
        return f"about {_round(seconds / 60):g} min"
    return f"about {_round(seconds / 3600):g} h"


def _size(count: int) -> str:
    if count < 10**6:
        return "under 1 MB"
    unit, name = (10**9, "GB") if count >= 10**9 else (10**6, "MB")
    return f"{_round(count / unit):g} {name}"


def _round(number: float) -> float:
    """Round to one digit, or to two from 10 on: more would claim too much."""
    digits = 1 - math.floor(math.log10(max(number, 1e-9)))
    return round(number, max(digits - 1, 0) if number < 10 else digits)
