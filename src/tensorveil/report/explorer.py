"""The budget explorer: what the planner expects at every epsilon, computed here and looked up by the page's script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorveil.markup import Markup, join, tag
from tensorveil.mechanisms.catalogue import COMPARED, METHODS
from tensorveil.mechanisms.planner import plan
from tensorveil.privacy import Budget, Unit
from tensorveil.privacy.exact import show_at_least, show_odds
from tensorveil.report.drawing import Frame, path
from tensorveil.report.facts import Caption, Chart, Series, Standing
from tensorveil.report.lines import chart_figure
from tensorveil.report.page import data_table
from tensorveil.report.scales import Axis, number

__all__ = ["Explorer", "explore", "explorer_blocks", "explorer_data"]

LOWEST, HIGHEST, PER_DECADE = 0.01, 100.0, 40
ALMOST_NO_NOISE = 1e6
DATA = "explorer-data"
_ABOVE = 1.6  # curves that far above the constant leave the picture: nobody would choose them


@dataclass(frozen=True, kw_only=True)
class Explorer:
    """The planner's predictions over a fine grid of budgets. Public: it was made from public numbers alone.

    ``at`` is the place on the grid of the budget that was spent, ``used`` the mechanism it was spent on; ``floor`` is
    what is left with next to no noise, ``spread`` a standard deviation of the values that was declared.
    """

    epsilons: tuple[float, ...]
    chosen: tuple[str, ...]
    errors: Mapping[str, tuple[float, ...]]
    delta: float
    at: int
    used: str
    floor: float
    released: bool = True
    spread: float | None = None

    @property
    def epsilon(self) -> float:
        """The budget that was spent."""
        return self.epsilons[self.at]

    def expected(self, place: int) -> float:
        """Return the expected error of the mechanism that the planner takes at one place of the grid."""
        return self.errors[self.chosen[place]][place]

    def constant(self, place: int) -> float:
        """Return the expected error of a private mean."""
        return self.errors["mean"][place]


def explore(
    *,
    shape: Sequence[int],
    n_entries: int,
    bounds: tuple[float, float],
    ranks: Sequence[int],
    core: bool,
    epsilon: float,
    delta: float,
    used: str | None = None,
    released: bool = True,
    spread: float | None = None,
) -> Explorer:
    """Ask the planner at every budget, for unit value; the values of the data are not looked at.

    Parameters
    ----------
    shape, n_entries, bounds, ranks, core
        What the planner asks for; all of it is public in unit value.
    epsilon, delta
        The budget that was spent, or that is considered.
    used
        The mechanism that it was spent on; None for what the planner takes.
    released
        Whether the budget was spent, rather than only considered.
    spread
        A standard deviation of the values, if one was declared.

    >>> films = {"shape": (943, 1682), "n_entries": 90570, "bounds": (1.0, 5.0), "ranks": (8, 8), "core": False}
    >>> found = explore(**films, epsilon=1.0, delta=0.0)
    >>> found.chosen[0], found.chosen[found.at], found.chosen[-1]
    ('staged', 'staged', 'staged')
    """
    steps = round(PER_DECADE * math.log10(HIGHEST / LOWEST))
    grid = {float(f"{LOWEST * 10 ** (k / PER_DECADE):.3g}") for k in range(steps + 1)} | {float(epsilon)}
    epsilons = tuple(sorted(grid))
    facts: dict[str, Any] = {
        "shape": tuple(shape), "n_entries": n_entries, "bounds": bounds, "ranks": tuple(ranks), "core": core,
        "unit": Unit.value(), "spread": spread,
    }  # fmt: skip
    plans = [plan(budget=Budget(epsilon=value, delta=delta), **facts) for value in epsilons]
    errors = [{each.method: each.rmse for each in found.predictions} for found in plans]
    last = plan(budget=Budget(epsilon=ALMOST_NO_NOISE, delta=delta), **facts)
    at = epsilons.index(float(epsilon))
    return Explorer(
        epsilons=epsilons,
        chosen=tuple(found.method for found in plans),
        errors={name: tuple(row[name] for row in errors) for name in COMPARED},
        delta=float(delta),
        at=at,
        used=used or plans[at].method,
        floor=last.predictions[0].rmse,
        released=released,
        spread=spread,
    )


def explorer_data(explorer: Explorer) -> tuple[str, dict[str, Any]]:
    """Return the name and content of the data that the script reads; numbers are rounded to the safe side here."""
    content = {
        "epsilons": list(explorer.epsilons),
        "shown": [show_at_least(value) for value in explorer.epsilons],
        "odds": [show_odds(value) for value in explorer.epsilons],
        "chosen": list(explorer.chosen),
        "titles": {name: METHODS[name].title for name in explorer.errors},
        "errors": {name: [float(f"{value:.4g}") for value in row] for name, row in explorer.errors.items()},
        "at": explorer.at,
    }
    return DATA, content


def explorer_blocks(explorer: Explorer) -> tuple[Markup, ...]:
    """Return the slider, its readout, the chart it moves in, and a table that says the same without a script."""
    return (
        tag("div", _controls(explorer), _readout(explorer), _methods(explorer), id="explorer", class_="explorer"),
        chart_figure(
            "explorer-chart",
            _chart(explorer),
            extra=lambda *axes: _marker(explorer, *axes),
            numbers=_table(explorer),
        ),
    )


def _controls(explorer: Explorer) -> Markup:
    """Return the slider, which stays hidden where scripts do not run."""
    shown = show_at_least(explorer.epsilon)
    slider = tag(
        "input", type="range", id="budget", min=0, max=len(explorer.epsilons) - 1, step=1, value=explorer.at,
        aria_describedby="budget-help",
    )  # fmt: skip
    ends = tag("p", tag("span", "stronger protection"), tag("span", "smaller error"), class_="ends", id="budget-help")
    where = f"Back to epsilon {shown}" + (", as released" if explorer.released else "")
    back = tag("button", where, type="button", id="budget-back")
    return tag("div", tag("label", "Epsilon", for_="budget"), slider, ends, back, class_="controls", hidden=True)


def _readout(explorer: Explorer) -> Markup:
    at = explorer.at
    share = explorer.expected(at) / explorer.constant(at)
    odds = show_odds(explorer.epsilon)
    plus = f", plus a probability of {show_at_least(explorer.delta)}" if explorer.delta else ""
    facts = (
        ("epsilon", tag("span", show_at_least(explorer.epsilon), id="told-epsilon")),
        ("mechanism", tag("span", METHODS[explorer.chosen[at]].title, id="told-method")),
        ("guessed error", tag("span", number(explorer.expected(at)), id="told-error")),
        ("share of a constant's error", tag("span", f"{share:.0%}", id="told-share")),
    )
    rows = (tag("div", tag("dt", name), tag("dd", text)) for name, text in facts)
    meaning = join(
        "No outcome is more than ",
        tag("span", odds, id="told-odds"),
        f" times as likely with one value as with another{plus}.",
    )
    # The slider's own text says the numbers; the sentence is what a screen reader adds.
    sentence = tag("p", tag("output", meaning, for_="budget"), class_="meaning")
    return join(tag("dl", *rows, class_="readout"), sentence)


def _methods(explorer: Explorer) -> Markup:
    at = explorer.at
    rows = [
        tag(
            "tr",
            tag("th", METHODS[name].title, scope="row"),
            tag("td", number(row[at]), class_="number"),
            tag("td", "chosen" if name == explorer.chosen[at] else ""),
            data_method=name,
            class_="chosen" if name == explorer.chosen[at] else None,
        )
        for name, row in explorer.errors.items()
    ]
    head = tag(
        "tr",
        tag("th", "mechanism", scope="col"),
        tag("th", "guessed error", scope="col", class_="number"),
        tag("th", "planner", scope="col"),
    )
    name = tag("caption", "Guessed error of every mechanism at this epsilon", class_="unseen")
    return tag("table", name, tag("thead", head), tag("tbody", *rows), class_="methods-table")


def _chart(explorer: Explorer) -> Chart:
    methods = tuple(Standing(name=METHODS[name].title, status="proven") for name in explorer.errors)
    constant = explorer.constant(len(explorer.epsilons) - 1)
    return Chart(
        title="Guessed error against budget",
        x="epsilon (stronger protection to the left)",
        y="guessed error",
        series=tuple(
            Series(name=METHODS[name].title, x=explorer.epsilons, y=row) for name, row in explorer.errors.items()
        ),
        caption=Caption(
            text="What the planner guesses of every mechanism, from shape, number of entries, bounds, rank and budget. "
            "The heavy line is what it takes: the best, or the mean where little is to be gained.",
            unit="value",
            epsilon=f"{show_at_least(explorer.epsilons[0])} to {show_at_least(explorer.epsilons[-1])}",
            delta=explorer.delta,
            runs=0,
            methods=methods,
            small_print="For a typical tensor; no value was looked at.",
        ),
        log_x=True,
        markers=False,
        most=_ABOVE * constant,
    )


def _marker(explorer: Explorer, frame: Frame, across: Axis, up: Axis) -> Markup:
    """Draw what the planner takes as a heavy line, and the mark that the script moves along it."""
    best = [explorer.expected(k) for k in range(len(explorer.epsilons))]
    heavy = path([(across(x), up(y)) for x, y in zip(explorer.epsilons, best, strict=True)], "best")
    x, y = across(explorer.epsilon), up(best[explorer.at])
    mark = tag(
        "g",
        tag("line", x1=x, x2=x, y1=frame.top, y2=frame.bottom, class_="mark-line"),
        tag("circle", cx=x, cy=y, r=6.0, class_="mark-dot"),
        class_="marker",
        data_x0=across.start,
        data_x1=across.end,
        data_y0=up.start,
        data_y1=up.end,
        data_low=repr(up.low),
        data_high=repr(up.high),
    )
    return join(heavy, mark)


def _table(explorer: Explorer) -> Markup:
    """Return every fourth budget as a row."""
    places = sorted({*range(0, len(explorer.epsilons), 4), explorer.at, len(explorer.epsilons) - 1})
    rows = [
        [
            show_at_least(explorer.epsilons[k]),
            explorer.chosen[k],
            *(row[k] for row in explorer.errors.values()),
        ]
        for k in places
    ]
    columns = ["epsilon", "planner takes", *explorer.errors]
    return data_table("guessed errors at every budget", columns, rows)
