"""Reports for the owner of the data alone: computed from private data without protection, and marked so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.completion.evaluation import Evaluation
from tensorveil.markup import Markup
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Guarantee, Ledger
from tensorveil.privacy.exact import show_at_least, show_at_most
from tensorveil.report.bars import Bar, bar_plots
from tensorveil.report.explorer import explore, explorer_blocks, explorer_data
from tensorveil.report.facts import OPEN, Caption, Chart, Series, Standing
from tensorveil.report.lines import chart_figure
from tensorveil.report.measured import measured_section
from tensorveil.report.model_parts import (
    Captioner,
    about,
    factor_section,
    kind_of,
    open_captions,
    release_captions,
    sizes,
    slice_section,
)
from tensorveil.report.page import DO_NOT_PUBLISH, NOT_PRIVATE, Page, Section, data_table, figure
from tensorveil.report.release_page import key_list, show_budget
from tensorveil.report.residuals import residual_section
from tensorveil.report.scales import number
from tensorveil.tensor import ObservedTensor

__all__ = ["Measured", "open_page", "owner_page"]

Model = CPModel | TuckerModel
WARNING = (
    "Computed from private data without protection, for the owner of the data alone. Publishing any of it, even one "
    "number, voids the guarantee of the release that it belongs to."
)
OURS = "this release"
UNPROTECTED = "The guarantee is the release's. This figure has none."
OPEN_WARNING = (
    "The model, its factors and every number here were computed from the data without noise. Treat this report like "
    "the data themselves."
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The root mean square error of one method on the entries that are judged, and the standing of its guarantee."""

    name: str
    status: str
    error: float


def owner_page(
    model: Model,
    guarantee: Guarantee,
    tensor: ObservedTensor,
    *,
    held_out: ObservedTensor | None = None,
    beside: Sequence[Measured] = (),
    trade_off: Chart | None = None,
    ledger: Ledger | None = None,
) -> Page:
    """Make the page that goes with a release and must not be published.

    Parameters
    ----------
    model, guarantee
        What was released.
    tensor
        What it was fitted to.
    held_out
        Entries that it was not fitted to; then errors and residuals are those of these entries.
    beside
        Errors of other methods on the same entries, to compare with.
    trade_off
        Errors at other budgets, if they were tried.
    ledger
        The ledger that was charged, to show what is left.
    """
    judged = tensor if held_out is None else held_out
    which = "entries it was fitted to" if held_out is None else "held-out entries"
    caption = release_captions(guarantee, also=UNPROTECTED)
    own = Measured(name=OURS, status=guarantee.status, error=_rmse(model, judged))
    constant = float(np.sqrt(np.mean((judged.values - tensor.values.mean()) ** 2)))
    simple = Measured(name="constant", status=OPEN, error=constant)
    sections = [
        _measured_section(sorted([simple, *beside, own], key=lambda each: -each.error), guarantee, which),
        None if trade_off is None else _trade_off(trade_off),
        residual_section(model, judged, caption, which=which),
        slice_section(model, caption, tensor),
        None if ledger is None else _ledger_section(ledger),
    ]
    return Page(
        kind="Owner's report",
        title=f"Behind the release of {about(model)}",
        sentence=guarantee.sentence(),
        mark=DO_NOT_PUBLISH,
        warning=WARNING,
        hero=(_owner_keys(own.error, constant, f"{judged.n_entries:,} {which}", guarantee),),
        sections=tuple(section for section in sections if section is not None),
    )


def _owner_keys(error: float, constant: float, which: str, guarantee: Guarantee) -> Markup:
    share = f"{error / constant:.0%}" if constant else "–"
    return key_list(
        [
            ("error measured", number(error), f"RMSE on the {which}"),
            ("of a constant's", share, f"which has {number(constant)}"),
            ("budget", show_budget(guarantee), f"unit {guarantee.unit}, {guarantee.mechanism}"),
        ]
    )


def _rmse(model: Model, tensor: ObservedTensor) -> float:
    return float(np.sqrt(np.mean((np.asarray(model.predict(tensor.coords)) - tensor.values) ** 2)))


def _measured_section(found: Sequence[Measured], guarantee: Guarantee, which: str) -> Section:
    bars = [
        Bar(
            name=f"{each.name}, {OPEN}" if each.status == OPEN else each.name,
            value=each.error,
            css="bar" if each.name == OURS else "bar quiet",
        )
        for each in found
    ]
    told = ", ".join(f"{bar.name} {number(bar.value)}" for bar in bars)
    caption = Caption(
        text=f"Root mean square error on the {which}; shorter is better.",
        unit=str(guarantee.unit),
        epsilon=show_at_least(guarantee.epsilon),
        delta=guarantee.delta,
        runs=1,
        methods=tuple(Standing(name=each.name, status=each.status) for each in found),
        small_print=UNPROTECTED,
    )
    return Section(
        name="measured",
        title="What the budget bought",
        lead="Choosing between releases by these numbers is a release of its own, and nothing here pays for it.",
        blocks=(figure("error", "Measured error", bar_plots(bars, f"Measured error: {told}."), caption),),
    )


def _trade_off(chart: Chart) -> Section:
    return Section(
        name="trade-off",
        title="The trade-off between protection and error",
        lead="",
        blocks=(chart_figure("trade-off-chart", chart),),
    )


def _ledger_section(ledger: Ledger) -> Section:
    """Say what was spent on these data by all releases so far."""
    state = ledger.statement()
    rows = [[charge.purpose, charge.time, charge.status] for charge in state.entries]
    spent = (
        f"Of (epsilon = {show_at_most(ledger.budget.epsilon)}, delta = {show_at_most(ledger.budget.delta)}) for unit "
        f"{ledger.unit}, epsilon = {show_at_least(state.spent.epsilon)} is spent and "
        f"{show_at_most(state.remaining.epsilon)} is left."
    )
    return Section(
        name="ledger",
        title=f"The ledger of {ledger.name}",
        lead=spent,
        blocks=(data_table("charges, oldest first", ["purpose", "time", "state"], rows),),
    )


def open_page(
    model: Model, tensor: ObservedTensor, summary: dict[str, Any], measured: Evaluation | None = None
) -> Page:
    """Make the page of a completion without privacy. ``summary`` is what summary.json says."""
    caption = open_captions(kind_of(model))
    fit, explorer = summary["fit"], None
    if model.bounds is not None:
        explorer = explore(
            shape=model.shape, n_entries=tensor.n_entries, bounds=model.bounds, core=isinstance(model, TuckerModel),
            ranks=[factor.shape[1] for factor in model.factors], epsilon=1.0, delta=0.0, released=False,
        )  # fmt: skip
    lead = "Had these data to be protected: what the planner expects, from shape, number of entries, bounds and rank."
    offered = () if explorer is None else (
        Section(name="budget-explorer", title="What privacy would cost", lead=lead, blocks=explorer_blocks(explorer)),
    )  # fmt: skip
    return Page(
        kind="Completion report",
        title=f"A model of {about(model)}",
        sentence="No privacy was asked for, and none is given: this model can give single entries away.",
        mark=NOT_PRIVATE,
        warning=OPEN_WARNING,
        hero=(
            key_list(
                [
                    ("model", kind_of(model), f"{sizes(model)}, {model.n_parameters:,} numbers"),
                    ("data", f"{tensor.n_entries:,} entries", f"{tensor.density:.2%} of all cells"),
                    ("error of the fit", number(fit["train_rmse"]), "RMSE on the entries it was fitted to"),
                    *_validation(fit),
                ]
            ),
        ),
        sections=(
            *_history(fit["history"], fit.get("measure", "RMSE"), caption),
            *(() if measured is None else (measured_section(measured, caption),)),
            residual_section(model, tensor, caption, which="entries it was fitted to"),
            factor_section(model, caption),
            *filter(None, [slice_section(model, caption, tensor)]),
            *offered,
        ),
        data=() if explorer is None else (explorer_data(explorer),),
    )


def _validation(fit: dict[str, Any]) -> list[tuple[str, str, str | Markup]]:
    error = fit.get("validation_error", fit["validation_rmse"])
    if error is None:
        return []
    return [
        ("error held out", number(error), f"{fit.get('measure', 'RMSE')} on cells kept back, which chose the sweep")
    ]


def _history(records: Sequence[dict[str, Any]], measure: str, caption: Captioner) -> tuple[Section, ...]:
    """Draw the errors from sweep to sweep."""
    series = []
    for name, key in (("entries it was fitted to", "train_error"), ("held out", "validation_error")):
        points = [(k + 1, record[key]) for k, record in enumerate(records) if record.get(key) is not None]
        if len(points) > 1:
            series.append(Series(name=name, x=tuple(p[0] for p in points), y=tuple(p[1] for p in points)))
    if not series:
        return ()
    chart = Chart(
        title="Error from sweep to sweep", x="sweep", y=measure, series=tuple(series), markers=False,
        caption=caption(f"{measure[0].upper()}{measure[1:]} after every sweep of the start that was kept."),
    )  # fmt: skip
    return (Section(name="fit", title="The fit", lead="", blocks=(chart_figure("fit-chart", chart),)),)
