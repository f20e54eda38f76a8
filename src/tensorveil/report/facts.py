"""What a report is made of, as plain facts: captions, charts, tables. Studies, audits and runs fill these in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tensorveil.errors import InputError
from tensorveil.privacy.exact import show_at_least
from tensorveil.privacy.guarantee import STATUSES as GUARANTEE_STATUSES
from tensorveil.report.scales import number

__all__ = ["Caption", "Chart", "Level", "Series", "Standing", "TableOf", "epsilons"]

OPEN = "not private"
STATUSES = (*GUARANTEE_STATUSES, OPEN)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A method in a figure, and the standing of its guarantee: proven, claimed, refuted, or "not private"."""

    name: str
    status: str

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise InputError(f"status must be one of {', '.join(STATUSES)}; got {self.status!r}.")


@dataclass(frozen=True, kw_only=True)
class Caption:
    """What stands beneath every figure.

    Parameters
    ----------
    text
        What there is to see, in a sentence or two.
    unit
        What is protected: "value", "entry", "slice:user"; "none" where nothing is.
    epsilon
        The budget or budgets, as `epsilons` writes them; "infinite" without protection.
    delta
        Likewise; a number or text.
    runs
        How many runs (draws of noise, seeds) the figure summarises; 0 for a prediction, for which nothing was run.
    methods
        All methods in it, each with the standing of its guarantee.
    small_print
        What else a careful reader must know: "noise was seeded, so that the study can be repeated".
    """

    text: str
    unit: str
    epsilon: str
    delta: float | str
    runs: int
    methods: tuple[Standing, ...]
    small_print: str = ""

    def __post_init__(self) -> None:
        if not self.unit or not self.epsilon:
            raise InputError("a caption must state unit and epsilon. Try unit='value', epsilon='0.1 to 10'.")
        if self.runs < 0:
            raise InputError(f"runs must be at least 0, which means a prediction; got {self.runs}.")
        object.__setattr__(self, "methods", tuple(self.methods))

    @property
    def runs_text(self) -> str:
        """The number of runs in words."""
        return f"{self.runs:,}" if self.runs else "none, a prediction"

    @property
    def delta_text(self) -> str:
        """Delta in words, never smaller than it is."""
        return self.delta if isinstance(self.delta, str) else show_at_least(self.delta)


def epsilons(values: Sequence[float]) -> str:
    """Write budgets: one, a few, or their range.

    >>> epsilons([5.0]), epsilons([1, 2]), epsilons([0.1, 0.2, 0.5, 1, 2, 5, 10])
    ('5', '1, 2', '0.1 to 10')
    """
    known = sorted({float(value) for value in values})
    if not known:
        raise InputError("values must hold at least one epsilon. Try [1.0].")
    shown = [show_at_least(value) for value in known]
    return ", ".join(shown) if len(shown) <= 4 else f"{shown[0]} to {shown[-1]}"


@dataclass(frozen=True, kw_only=True)
class Series:
    """A curve: its points and, if there is one, the band around it."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("x", "y", "low", "high"):
            given = getattr(self, name)
            if given is None:
                continue
            values = tuple(float(value) for value in given)
            if len(values) != len(self.x) or not values:
                raise InputError(f"{name} must have one number per point, and there must be points.")
            if not all(math.isfinite(value) for value in values):
                raise InputError(f"{name} must be finite. Leave out points that have no number.")
            object.__setattr__(self, name, values)
        if (self.low is None) != (self.high is None):
            raise InputError("low and high belong together: give both or neither.")


@dataclass(frozen=True, kw_only=True)
class Level:
    """A horizontal line: what does not depend on the horizontal axis, such as the error of a constant."""

    name: str
    y: float


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves on common axes. ``most`` cuts the vertical axis; curves above it leave the picture."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    caption: Caption
    levels: tuple[Level, ...] = ()
    log_x: bool = False
    log_y: bool = False
    markers: bool = True
    band: str = "lowest to highest"
    most: float | None = None

    def __post_init__(self) -> None:
        for name in ("series", "levels"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.series:
            raise InputError("a chart must have at least one series.")
        points = [value for series in self.series for value in series.x]
        if self.log_x and not all(math.isfinite(value) and value > 0 for value in points):
            raise InputError("x must be above 0 on a logarithmic axis. Try log_x=False.")


Cell = str | float | int | None


@dataclass(frozen=True, kw_only=True)
class TableOf:
    """A table of cells: a column of names, then numbers or words; ``caption`` speaks for all of it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: Caption

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InputError("every row must have one cell per column.")


def cell_text(cell: Cell) -> str:
    """Write one cell of a table."""
    if cell is None:
        return "–"
    return cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else number(cell, 4)
