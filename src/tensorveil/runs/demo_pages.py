"""What the demo draws for the owner of the data: the trade-off between budget and error, predictions, a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorveil.completion import PrivateCP
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.privacy import Ledger
from tensorveil.report.density import Panel, density_picture
from tensorveil.report.facts import OPEN, Caption, Chart, Level, Series, Standing, epsilons
from tensorveil.report.owner_page import Measured, owner_page
from tensorveil.report.page import Page
from tensorveil.report.pictures import Picture, chart_picture
from tensorveil.runs.demo_fits import BUDGETS, RANK, RELEASED, Contender, Model, Trial
from tensorveil.solvers.loss import rmse
from tensorveil.tensor import ObservedTensor

SEEDED = "A study of public data with seeded noise, so that it can be repeated: none of these runs is private."


def make_owner_page(
    shown: ObservedTensor,
    hidden: ObservedTensor,
    lines: Mapping[str, float],
    trials: Sequence[Trial],
    released: PrivateCP,
    ledger: Ledger,
) -> Page:
    """Make the owner's report. ``lines`` are errors without privacy by name, that of a constant first."""
    _, *fits = lines.items()
    return owner_page(
        released.model_,
        released.guarantee_,
        shown,
        held_out=hidden,
        beside=[Measured(name=name, status=OPEN, error=error) for name, error in fits],
        trade_off=make_trade_off(trials, lines, "Error against budget"),
        ledger=ledger,
    )


def draw_trade_off(trials: Sequence[Trial], lines: Mapping[str, float]) -> Picture:
    """Draw error against epsilon as a picture of its own."""
    title = f"COVID-19 serology: what privacy costs (CP, rank {RANK}, unit value, delta 0)"
    return chart_picture(make_trade_off(trials, lines, title))


def make_trade_off(trials: Sequence[Trial], lines: Mapping[str, float], title: str) -> Chart:
    """Return error against epsilon: mean and range of the repetitions, with lines for what does not depend on it."""
    standings = [
        Standing(name=name, status="proven") for name in dict.fromkeys(METHODS[each.method].title for each in trials)
    ]
    caption = Caption(
        text="Error on the held-out entries; the planner chooses the mechanism. Line: mean of the draws of noise. "
        "Band: the lowest to the highest.",
        unit="value",
        epsilon=epsilons([each.epsilon for each in trials]),
        delta=0.0,
        runs=len(trials[0].errors),
        methods=(*standings, *(Standing(name=name, status=OPEN) for name in lines)),
        small_print=SEEDED,
    )
    curve = Series(
        name="private, as the planner chooses",
        x=tuple(each.epsilon for each in trials),
        y=tuple(each.mean for each in trials),
        low=tuple(min(each.errors) for each in trials),
        high=tuple(max(each.errors) for each in trials),
    )
    return Chart(
        title=title,
        x="epsilon (stronger protection to the left)",
        y="held-out RMSE",
        series=(curve,),
        levels=tuple(Level(name=f"{name}, {OPEN}", y=error) for name, error in lines.items()),
        caption=caption,
        log_x=True,
    )


def draw_predictions(
    hidden: ObservedTensor, trials: Sequence[Trial], released: PrivateCP, best: Contender
) -> Picture:  # fmt: skip
    """Draw true against predicted values at three budgets, and those of the best model without privacy."""
    models = {trial.epsilon: trial.model for trial in trials} | {RELEASED: released.model_}
    panels = [_make_panel(f"private, epsilon {epsilon:g}", models[epsilon], hidden) for epsilon in BUDGETS]
    panels.append(Panel(name=f"{best.name}, not private", predicted=best.predicted, rmse=best.rmse))
    title = "COVID-19 serology: hidden entries predicted from the others"
    return density_picture(hidden.values, panels, title=title, values="measurement")


def _make_panel(name: str, model: Model, hidden: ObservedTensor) -> Panel:
    predicted = model.predict(hidden.coords)
    return Panel(name=name, predicted=predicted, rmse=rmse(predicted, hidden.values))
