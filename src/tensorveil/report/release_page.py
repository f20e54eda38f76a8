"""The report of a release, which may be published with it: a function of the model, the guarantee and public numbers.

Guarantee: the release's own, because nothing else goes in (docs/guarantees.md#post-processing). The functions here take
no tensor, so that none can leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensorveil.completion.releasable import Releasable, check_releasable
from tensorveil.markup import Markup, join, tag
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.planner import Plan
from tensorveil.models import TuckerModel
from tensorveil.privacy import Gaussian, Guarantee, Pure
from tensorveil.privacy.events import describe_event
from tensorveil.privacy.exact import show_at_least, show_exactly
from tensorveil.privacy.guarantee import Part
from tensorveil.privacy.limits import list_limits
from tensorveil.report.bars import Bar, bar_plots
from tensorveil.report.component_parts import component_section
from tensorveil.report.explorer import Explorer, explore, explorer_blocks, explorer_data
from tensorveil.report.facts import Caption, Standing
from tensorveil.report.model_parts import (
    AnyModel,
    about,
    factor_section,
    kind_of,
    mean_prediction,
    release_captions,
    sizes,
    slice_section,
)
from tensorveil.report.page import (
    DO_NOT_PUBLISH,
    MAY_BE_PUBLISHED,
    Page,
    Section,
    caption_list,
    data_table,
    figure,
    save_page,
    status_badge,
)
from tensorveil.report.proofs import proof_items
from tensorveil.report.scales import number
from tensorveil.rounds import SharedModel

__all__ = ["explore_release", "key_list", "release_page", "save_release_page", "show_budget"]

ASSUMED = (
    "Before anything was spent: guesses for a typical tensor, from public numbers alone. Assumed were {spread}, a "
    "quarter of the variance biases, a third interactions; the noise of observations is not counted."
)
MEASURED = "RMSE about {rmse}, from a noisy histogram of its residuals. The noise of observations is part of it."


def save_release_page(path: Path, fitted: Releasable) -> None:
    """Write the report of a release. A page that cannot be drawn is replaced by one that says so.

    Parameters
    ----------
    path
        The file to write.
    fitted
        What is released, with the plan that it was made by; without one the budget explorer is left out.

    Guarantee: the model's, as for everything that follows from it (docs/guarantees.md#post-processing).
    """
    model, guarantee = check_releasable(fitted)
    try:
        page = release_page(fitted, explorer=explore_release(model, guarantee, fitted.plan_))
        save_page(path, page)
    except Exception:  # the release is paid for: a drawing that fails must not take it along
        title = "The report could not be drawn. The release is whole without it; its model card has the facts."
        mark = MAY_BE_PUBLISHED if guarantee.private else DO_NOT_PUBLISH
        save_page(path, Page(kind="Release report", title=title, sentence=guarantee.sentence(), mark=mark, sections=()))


def explore_release(model: AnyModel, guarantee: Guarantee, plan: Plan | None) -> Explorer | None:
    """Ask the planner what other budgets would buy; only in unit value, where the number of entries is public."""
    if guarantee.unit.kind != "value" or guarantee.bounds is None or plan is None or plan.n_entries is None:
        return None
    return explore(
        shape=model.shape, n_entries=plan.n_entries, bounds=guarantee.bounds, ranks=plan.ranks,
        core=isinstance(model, TuckerModel), epsilon=guarantee.epsilon, delta=guarantee.delta, used=plan.method,
        spread=plan.spread,
    )  # fmt: skip


def release_page(fitted: Releasable, *, explorer: Explorer | None = None) -> Page:
    """Return the page of a fitted private estimator. What is not private says so, at the top and in its title.

    It takes model and guarantee from one hand, so that no model is shown with another one's guarantee.
    """
    model, guarantee = check_releasable(fitted)
    caption = release_captions(guarantee)
    sections = [
        _buys(explorer, guarantee, _estimate(model)),
        _show_spending(guarantee, fitted.notes_),
        component_section(model, caption),
        factor_section(model, caption),
        slice_section(model, caption),
        _explorer_section(explorer, guarantee),
        _limits(guarantee),
    ]
    warning = "" if guarantee.private else "The guarantee of this release is not proven, or its noise was seeded."
    return Page(
        kind="Release report",
        title=f"A {'private model' if guarantee.private else 'model, NOT PRIVATE,'} of {about(model)}",
        sentence=guarantee.sentence(),
        mark=MAY_BE_PUBLISHED if guarantee.private else DO_NOT_PUBLISH,
        warning=warning,
        hero=(_keys(model, guarantee, explorer),),
        sections=tuple(section for section in sections if section is not None),
        data=() if explorer is None else (explorer_data(explorer),),
    )


def _keys(model: AnyModel, guarantee: Guarantee, explorer: Explorer | None) -> Markup:
    bounds = "" if guarantee.bounds is None else f"values {' to '.join(map(show_exactly, guarantee.bounds))}, declared"
    protected = "; ".join(filter(None, (guarantee.about, f"neighbours {guarantee.neighbours}", bounds)))
    public = f"; public: {', '.join(guarantee.known)}" if guarantee.known else ""
    facts: list[tuple[str, str | Markup, str | Markup]] = [
        ("released", kind_of(model), f"{', '.join(guarantee.released)}; {sizes(model)}"),
        ("protected", f"unit {guarantee.unit}", f"{protected}{public}"),
        (
            "budget",
            show_budget(guarantee),
            join(f"{guarantee.mechanism}, ", status_badge(guarantee.status)),
        ),
    ]
    estimate = _estimate(model)
    if estimate is not None:
        guess = "" if explorer is None else f"; before anything was spent: a guess of {number(_guess(explorer))}"
        facts.append(("error", f"RMSE about {number(estimate)}", f"from a noisy histogram of its residuals{guess}"))
    elif explorer is not None:
        ours, constant = _guess(explorer), explorer.constant(explorer.at)
        gained = f"{1 - ours / constant:.0%} less than" if ours < constant else "no less than"
        told = "this is a constant" if explorer.used == "mean" else f"{gained} a private constant's"
        facts.append(("guessed error", number(ours), f"for a typical tensor; {told}"))
    if not isinstance(model, SharedModel):
        mean, cells = mean_prediction(model)
        facts.append(
            ("mean prediction", number(mean), f"over {cells}; the released constant is {number(model.offset)}")
        )
    return key_list(facts)


def _estimate(model: AnyModel) -> float | None:
    """Return the release's own estimate of its error."""
    errors = None if isinstance(model, SharedModel) else model.errors
    return None if errors is None else errors.rmse


def _guess(explorer: Explorer) -> float:
    """Return what the planner expected of the mechanism that ran."""
    return explorer.errors[explorer.used][explorer.at]


def show_budget(guarantee: Guarantee) -> Markup:
    """Return epsilon and delta, neither of which is broken at the end of a line."""
    pair = f"ε = {show_at_least(guarantee.epsilon)}", f"δ = {show_at_least(guarantee.delta)}"
    return join(tag("span", f"{pair[0]},", class_="unbroken"), " ", tag("span", pair[1], class_="unbroken"))


def key_list(facts: Sequence[tuple[str, str | Markup, str | Markup]]) -> Markup:
    """Return the few facts that a reader sees first: name, value, what it means."""
    items = (tag("div", tag("dt", name), tag("dd", value, tag("small", small))) for name, value, small in facts)
    return tag("dl", *items, class_="keys")


def _buys(explorer: Explorer | None, guarantee: Guarantee, estimate: float | None) -> Section | None:
    """Tell the error as measured; compare the guess with a constant's and with what next to no noise would leave."""
    measured = "" if estimate is None else MEASURED.format(rmse=number(estimate))
    if explorer is None:
        return Section(name="buys", title="What the budget buys", lead=measured, blocks=()) if measured else None
    title = METHODS[explorer.used].title
    ours, constant = _guess(explorer), explorer.constant(explorer.at)
    simple = explorer.used == "mean"  # then the release is the constant
    bars = [
        *([] if simple else [Bar(name="a constant (private mean)", value=constant, css="bar quiet")]),
        Bar(name=f"this release: {title}", value=ours),
        Bar(name="next to no noise, the same model", value=explorer.floor, css="bar quiet"),
    ]
    told = ", ".join(f"{bar.name} {number(bar.value)}" for bar in bars)
    caption = Caption(
        text="Root mean square error as the planner guessed it; shorter is better.",
        unit=str(guarantee.unit),
        epsilon=show_at_least(guarantee.epsilon),
        delta=guarantee.delta,
        runs=0,
        methods=(
            *(() if simple else (Standing(name="private mean", status="proven"),)),
            Standing(name=title, status=guarantee.status),
            Standing(name="next to no noise", status="not private"),
        ),
    )
    return Section(
        name="buys",
        title="What the budget buys",
        lead=f"{measured} {ASSUMED.format(spread=_tell_spread(explorer.spread))}".strip(),
        blocks=(figure("error", "Guessed error", bar_plots(bars, f"Guessed error: {told}."), caption),),
    )


def _tell_spread(spread: float | None) -> str:
    if spread is None:
        return "a standard deviation of a tenth of the bounds' width"
    return f"a standard deviation of {number(spread)}, as declared"


def _show_spending(guarantee: Guarantee, notes: Sequence[str]) -> Section:
    """Show on what the budget was spent, and what was found worth measuring."""
    shares = [_share(part) for part in guarantee.composition]
    rows = [[part.name, part.statistic, describe_event(part.event)] for part in guarantee.composition]
    table = data_table(
        "what was computed from the data, and what each part spent", ["part", "statistic", "spent"], rows
    )
    known = [share for share in shares if share is not None]
    caption = release_captions(guarantee)(
        "Together these are the epsilon and delta above. Everything else follows from them without touching the data."
    )
    blocks: tuple[Markup, ...] = (tag("figure", tag("div", table, class_="drawn"), caption_list(caption)),)
    if known and len(known) == len(shares) and sum(known) > 0:
        bars = [
            Bar(name=part.name, value=share / sum(known), told=f"{share / sum(known):.0%}")
            for part, share in zip(guarantee.composition, known, strict=True)
        ]
        told = ", ".join(f"{bar.name} {bar.told}" for bar in bars)
        plots = bar_plots(bars, f"Shares of the budget: {told}.")
        blocks = (figure("spending", "Shares of the budget", (*plots, table), caption),)
    if notes:
        blocks = (*blocks, tag("ul", *(tag("li", note) for note in notes), class_="plain"))
    return Section(
        name="spent",
        title="What the budget was spent on",
        lead="Every number that was computed from the data, each with noise of its own.",
        blocks=blocks,
    )


def _share(part: Part) -> float | None:
    """Return what a part weighs in the sum: epsilon, or the square of mu; None where these do not add up."""
    if isinstance(part.event, Pure):
        return part.event.epsilon
    return part.event.mu**2 if isinstance(part.event, Gaussian) else None


def _explorer_section(explorer: Explorer | None, guarantee: Guarantee) -> Section:
    lead = (
        "Move epsilon and see which mechanism the planner would take and what error it guesses. Nothing here was "
        "measured on the data; looking costs no budget."
    )
    if explorer is None:
        public = guarantee.unit.kind == "value"
        private = "the planner needs the number of entries, which is private in its unit"
        why = f"There is none for this release: {'its budget was not planned as a whole' if public else private}."
        return Section(name="budget-explorer", title="Budget explorer", lead=why, blocks=())
    return Section(name="budget-explorer", title="Budget explorer", lead=lead, blocks=explorer_blocks(explorer))


def _limits(guarantee: Guarantee) -> Section:
    items = [*list_limits(guarantee), *guarantee.notes]
    proofs = proof_items(guarantee.proof)
    whole = "The proofs in short; they stand whole in docs/guarantees.md of tensorveil's source, under these names."
    return Section(
        name="limits",
        title="What is not promised, and why the rest holds",
        lead="",
        blocks=(
            tag("ul", *(tag("li", item) for item in items), class_="plain"),
            tag("p", whole if guarantee.status == "proven" else "Where the claim stands."),
            tag("ul", *(tag("li", item) for item in proofs), class_="plain"),
        ),
    )
