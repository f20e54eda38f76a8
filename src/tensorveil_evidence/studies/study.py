"""What a study is: cells that can be computed apart, rows that they give, a figure and a page made of all rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

PROVEN, CLAIMED, REFUTED, NOT_PRIVATE = "proven", "claimed", "refuted", "not private"
STATUSES = (PROVEN, CLAIMED, REFUTED, NOT_PRIVATE)
PAPER_SIZE = "-paper-size"  # what follows the name of a study that is run at its paper's size
FIRST_RUN = 100  # seeds of runs start here: smaller ones were looked at when settings were chosen

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number that was measured.

    ``status`` is that of the method's guarantee, as its guarantee says. ``value`` is None where the method diverged.
    """

    panel: str
    method: str
    status: str
    run: int
    x: float | None = None
    metric: str = "RMSE"
    value: float | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A piece of a study that is computed in one go, kept when done, and never computed twice."""

    settings: Settings

    @property
    def key(self) -> str:
        """Its name, in words that can be a file's."""
        words = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return "".join(letter if letter.isalnum() or letter in " =.,-+" else "_" for letter in words)


@dataclass(frozen=True, kw_only=True)
class Results:
    """All rows of a study, and how they came about."""

    rows: Sequence[Row]
    quick: bool
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def core_minutes(self) -> float:
        """CPU time that the cells took together."""
        return sum(self.seconds.values()) / 60


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A caption: what is shown, the unit, epsilon, delta, the number of runs, the standing of every method."""

    shown: str
    unit: str
    epsilon: str
    delta: str
    runs: str
    guarantees: str
    small_print: str

    def __str__(self) -> str:
        facts = f"Unit: {self.unit}. Epsilon: {self.epsilon}. Delta: {self.delta}. Runs per point: {self.runs}."
        return f"{self.shown} {facts} {self.guarantees} {self.small_print}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A published figure or table.

    Parameters
    ----------
    name, title
        What `tensorveil study` takes; one line.
    source
        The paper, and which figure or table of it.
    runs
        Seeds per point in a quick run, and in full.
    cells
        The cells for so many runs; the second argument is True for a quick run.
    compute
        A cell's settings to its rows; a pure function of them.
    draw
        Results to a matplotlib figure.
    page
        Results to the text of docs/studies/NAME.md between the figure and the way to repeat it.
    caption
        Results to the paragraph under the figure.
    settings
        Everything else that the rows depend on; cells computed under others are not used.
    minutes
        About how long it takes on one core, quick and in full.
    dataset
        The named dataset that it needs, if any.
    axis
        What rows' places on the horizontal axis are.
    also
        Files that it needs besides, by the names of their folders in the data folder.
    lacks
        Says what else is missing that it needs, and how to get it; None if nothing is.
    paper_size
        Makes the same study at its paper's size, which is called NAME-paper-size; None where that is its own.
    """

    name: str
    title: str
    source: str
    runs: tuple[int, int]
    cells: Callable[[int, bool], Sequence[Cell]]
    compute: Callable[[Settings], Iterable[Row]]
    draw: Callable[[Results], Any]
    page: Callable[[Results], str]
    caption: Callable[[Results], Stated]
    settings: Settings
    minutes: tuple[float, float]
    dataset: str | None = None
    axis: str = "epsilon"
    also: tuple[str, ...] = ()
    lacks: Callable[[], str | None] = lambda: None
    paper_size: Callable[[], Study] | None = None

    def digest(self, cell: Cell, version: str) -> str:
        """Return what a kept cell is recognised by: it changes with the settings and with the program's version."""
        facts = {"study": self.name, "version": version, "settings": dict(self.settings), "cell": dict(cell.settings)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def as_json(row: Row) -> dict[str, Any]:
    """Return a row as plain data."""
    return asdict(row)


def as_row(content: Mapping[str, Any]) -> Row:
    """Read a row back."""
    return Row(**content)


def seeds_of(number: int) -> list[int]:
    """Return the seeds of so many runs."""
    return list(range(FIRST_RUN, FIRST_RUN + number))
