"""The owner's report of `tensorveil demo`: what each budget costs, residuals, a slice before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.privacy import Ledger
from tensorveil.report.facts import OPEN, Caption, Chart, Level, Series, Standing, epsilons
from tensorveil.report.owner_page import Measured, owner_page
from tensorveil.report.page import Page
from tensorveil.runs.private_demo import Trial
from tensorveil.tensor import ObservedTensor

SEEDED = "A study of public data with seeded noise, so that it can be repeated: none of these runs is private."


def report_page(
    ledger: Ledger,
    shown: ObservedTensor,
    hidden: ObservedTensor,
    lines: Mapping[str, float],
    tried: list[Trial],
    released: Any,
) -> Page:
    """Make the page. ``lines`` are errors without privacy by name, of a constant first."""
    _, *fits = lines.items()
    return owner_page(
        released.model_,
        released.guarantee_,
        shown,
        held_out=hidden,
        beside=[Measured(name=name, status=OPEN, error=error) for name, error in fits],
        trade_off=trade_off_chart(tried, lines),
        ledger=ledger,
    )


def trade_off_chart(tried: list[Trial], lines: Mapping[str, float]) -> Chart:
    """Draw error against epsilon: mean and range of the repetitions, with lines for what does not depend on it."""
    budgets = [trial.tried for trial in tried]
    titles = dict.fromkeys(METHODS[each.method].title for each in budgets)
    proven = [Standing(name=title, status="proven") for title in titles]
    caption = Caption(
        text="Error on the held-out entries; the planner chooses the mechanism. Line: mean of the draws of noise. "
        "Band: the lowest to the highest.",
        unit="value",
        epsilon=epsilons([each.epsilon for each in budgets]),
        delta=0.0,
        runs=len(budgets[0].errors),
        methods=(*proven, *(Standing(name=name, status=OPEN) for name in lines)),
        small_print=SEEDED,
    )
    curve = Series(
        name="private, as the planner chooses",
        x=tuple(each.epsilon for each in budgets),
        y=tuple(each.mean for each in budgets),
        low=tuple(min(each.errors) for each in budgets),
        high=tuple(max(each.errors) for each in budgets),
    )
    return Chart(
        title="Error against budget",
        x="epsilon (stronger protection to the left)",
        y="held-out RMSE",
        series=(curve,),
        levels=tuple(Level(name=f"{name}, {OPEN}", y=error) for name, error in lines.items()),
        caption=caption,
        log_x=True,
    )
