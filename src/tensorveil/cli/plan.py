"""`tensorveil plan`: what accuracy a budget may buy, and which budget an accuracy takes, from declared facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import (
    ReadingOptions,
    add_options,
    check_tensor,
    common_options,
    console,
    gather,
    mark_private,
    print_json,
    reading_options,
    split_ranks,
    split_sizes,
)

if TYPE_CHECKING:
    from tensorveil.cli.common import Function
    from tensorveil.runs.guesses import Guessed
    from tensorveil.runs.plan import Planned
    from tensorveil.runs.plan_means import PlannedMeans

LOCAL = ("tensor", "local-entry")


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What is declared, and what is asked."""

    unit: str
    shape: tuple[int, ...] | None
    entries: int | None
    people: int | None
    bounds: tuple[float, float] | None
    radius: float | None
    epsilons: tuple[float, ...]
    rmse: float | None
    delta: float
    model: str | None
    rank: int | tuple[int, ...] | str | None
    spread: float | None

    @property
    def kind(self) -> str:
        """The kind of the unit, without what stands behind it."""
        return self.unit.partition(":")[0]


def plan_options(function: Function) -> Function:
    """Add the options that say what is planned for; the command gets them as ``asked``."""
    options = [
        click.option(
            "--unit",
            callback=_check_unit,
            default="value",
            show_default=True,
            metavar="value|entry|slice:MODE|tensor|local-entry",
            help="What is protected; the last two are for means of local reports, also tensor:differ=M.",
        ),
        click.option(
            "--shape",
            callback=split_sizes,
            metavar="SIZE,SIZE,...",
            help="Sizes of the modes, without a FILE; means: the shape of one person's tensor.",
        ),
        click.option(
            "--entries",
            type=click.IntRange(min=1),
            help="Number of entries, without a FILE; units entry and slice: about how many, for the guess alone.",
        ),
        click.option("--people", type=click.IntRange(min=1), help="Means of local reports: how many people report."),
        click.option("--bounds", type=float, nargs=2, metavar="LOW HIGH", help="Where values can lie."),
        click.option("--radius", type=float, help="Means, instead of --bounds: largest norm of a tensor."),
        click.option("--epsilon", "epsilons", type=float, multiple=True, help="Budget; may be repeated."),
        click.option("--rmse", type=float, help="Error to reach: which epsilon does it take?"),
        click.option("--delta", type=float, default=0.0, show_default=True, help="0 for pure privacy."),
        click.option("--model", type=click.Choice(["cp", "tucker", "matrix"]), help="Model [default: cp]."),
        click.option(
            "--rank",
            callback=split_ranks,
            metavar="RANK[,RANK...]",
            help="Rank; Tucker: also one per mode; matrix: also auto [default: cp 8, tucker 4, matrix auto].",
        ),
        click.option(
            "--spread",
            type=float,
            help="Standard deviation of the values, or of people's entries, if one is known without looking.",
        ),
    ]
    return add_options(gather(asked=PlanOptions)(function), options)


def _check_unit(_: click.Context, __: click.Parameter, text: str) -> str:
    kind, colon, more = text.partition(":")
    if kind in ("value", "entry", "local-entry") and not colon:
        return text
    if (kind == "slice" and more.strip()) or (kind == "tensor" and bool(colon) == bool(more)):
        return text
    raise click.BadParameter(f"{text!r} is not one of value, entry, slice:MODE, tensor, local-entry. Try slice:user.")


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True), callback=check_tensor)
@plan_options
@reading_options
@common_options
def plan(file: str | None, asked: PlanOptions, reading: ReadingOptions, as_json: bool) -> None:
    """Ask what accuracy a budget may buy, or which budget an accuracy takes, before spending anything.

    Give --epsilon, --rmse or both. In unit value give --shape and --entries, or a FILE, of which only the positions are
    used, which are public; of a store that is the manifest. In units entry and slice nothing is read: declare --shape,
    and about how many --entries there are. For means of local reports (units tensor and local-entry) give --people and
    the --shape of one tensor; these errors are exact, all others are guesses.

    \b
    Examples:
      tensorveil plan --shape 943,1682 --entries 90570 --bounds 1 5 --rank 10 --epsilon 0.5 --epsilon 1 --epsilon 5
      tensorveil plan ratings.csv --bounds 1 5 --delta 1e-6 --rmse 0.3
      tensorveil plan --unit slice:user --shape 6040,3706 --entries 900000 --bounds 1 5 --spread 1.1 --delta 1e-6 \\
          --epsilon 1 --epsilon 5 --rmse 0.6
      tensorveil plan --unit entry --shape 943,1682 --entries 90000 --bounds 1 5 --rank 2 --epsilon 5 --epsilon 20
      tensorveil plan --unit tensor --shape 28,28 --people 100000 --bounds 0 1 --epsilon 4 --rmse 0.02
    """
    _check_asked(file, asked)
    mark_private()
    if asked.kind in LOCAL:
        means = _plan_means(asked)
        print_json(means.to_json()) if as_json else _show_means(means)
    else:
        fit = _plan_fit(file, asked, reading)
        print_json(fit.to_json()) if as_json else _show_fit(fit)


def _check_asked(file: str | None, asked: PlanOptions) -> None:
    """Refuse what is missing for the unit, and what it has no use for."""
    if not asked.epsilons and asked.rmse is None:
        raise click.UsageError(
            "give --epsilon, which may be repeated, or the --rmse to reach, or both. Try --epsilon 1."
        )
    if asked.kind in LOCAL:
        refused: dict[str, object] = {
            "FILE": file,
            "--entries": asked.entries,
            "--model": asked.model,
            "--rank": asked.rank,
        }
        if asked.people is None or asked.shape is None:
            raise click.UsageError(f"--unit {asked.unit} needs --people and --shape. Try --people 10000 --shape 28,28.")
    else:
        refused = {"--people": asked.people, "--radius": asked.radius}
        _check_fit(file, asked)
    for name, given in refused.items():
        if given is not None:
            raise click.UsageError(f"{name} says nothing about --unit {asked.unit}. Leave it out.")


def _check_fit(file: str | None, asked: PlanOptions) -> None:
    if asked.bounds is None:
        raise click.UsageError("--bounds must be declared: where values can lie. Try --bounds 1 5.")
    if file is not None and asked.kind != "value":
        raise click.UsageError(
            f"FILE cannot be used with --unit {asked.unit}: positions are private there, so a plan reads none. Declare "
            "--shape, and about how many --entries there are."
        )
    if file is None and (asked.shape is None or asked.entries is None):
        if asked.kind == "value":
            raise click.UsageError("give either FILE, or both --shape and --entries.")
        raise click.UsageError(
            f"--unit {asked.unit} needs --shape and --entries: declared, about how many, for the guess alone. Try "
            "--shape 943,1682 --entries 100000."
        )
    if file is not None and (asked.shape or asked.entries):
        raise click.UsageError("--shape and --entries are read off FILE; leave them out.")
    if asked.shape is not None and len(asked.shape) < 2:
        raise click.UsageError("--shape must have a size of at least 1 for each of 2 or more modes. Try 943,1682.")


def _plan_fit(file: str | None, asked: PlanOptions, reading: ReadingOptions) -> Planned:
    from tensorveil.runs.plan import PlanRun, plan_budgets

    assert asked.bounds is not None
    return plan_budgets(
        PlanRun(
            bounds=asked.bounds,
            epsilons=asked.epsilons,
            delta=asked.delta,
            rmse=asked.rmse,
            unit=asked.unit,
            reading=None if file is None else reading.reading(file),
            shape=asked.shape,
            entries=asked.entries,
            modes=None if reading.modes is None else tuple(reading.modes),
            model=asked.model or "cp",
            rank=asked.rank,
            spread=asked.spread,
        )
    )


def _plan_means(asked: PlanOptions) -> PlannedMeans:
    from tensorveil.runs.plan_means import MeansRun, plan_means

    assert asked.shape is not None
    assert asked.people is not None
    return plan_means(
        MeansRun(
            shape=asked.shape,
            people=asked.people,
            unit=asked.unit,
            epsilons=asked.epsilons,
            delta=asked.delta,
            rmse=asked.rmse,
            bounds=asked.bounds,
            radius=asked.radius,
            spread=asked.spread,
        )
    )


def _show_fit(found: Planned) -> None:
    shape = " x ".join(f"{size:,}" for size in found.shape)
    low, high = found.bounds
    rank = list(found.rank) if isinstance(found.rank, tuple) else found.rank
    about = "" if found.unit.kind == "value" else "about "
    out = console()
    out.print(
        f"{shape}, {about}{found.entries:,} entries, values {low:g} to {high:g}, {found.model}, rank {rank}, "
        f"unit {found.unit}",
        markup=False,
    )
    if found.budgets:
        out.print(f"guessed RMSE of each mechanism (delta = {found.delta:g}); * is what --method auto takes")
        _show_table(found.budgets, [("on held-out values", [found.held_out(each) for each in found.budgets])])
        for words in dict.fromkeys(each.releases for each in found.budgets if each.releases):
            which = ", ".join(f"{each.epsilon:g}" for each in found.budgets if each.releases == words)
            out.print(f"epsilon {which}: {words}", markup=False)
    if found.answer is not None:
        _show_answer(found.answer, "is guessed to reach", found.rmse, f", and {found.held_out(found.answer):.3g} on "
                     "held-out values")  # fmt: skip
        if found.answer.releases:
            out.print(found.answer.releases, markup=False)
    out.print(f"a fit takes, roughly and on one core: {found.cost}", markup=False)
    out.print(found.assumed, markup=False)


def _show_means(found: PlannedMeans) -> None:
    run, out = found.run, console()
    shape = " x ".join(f"{size:,}" for size in run.shape)
    declared = f"radius {run.radius:g}" if run.bounds is None else f"entries {run.bounds[0]:g} to {run.bounds[1]:g}"
    out.print(f"mean of {run.people:,} tensors of {shape}, {declared}, unit {found.unit}", markup=False)
    if found.budgets:
        out.print(f"RMSE of the mean by each mechanism (delta = {run.delta:g}); * is what --mechanism auto takes")
        _show_table(found.budgets, [])
    if found.answer is not None:
        _show_answer(found.answer, "reaches", run.rmse, f" by {found.answer.method}")
    out.print(found.assumed, markup=False)


def _show_answer(answer: Guessed, verb: str, rmse: float | None, more: str) -> None:
    words = f"{verb} an RMSE of {rmse:g}: {answer.rmse:.3g}{more}."
    console().print(f"[bold green]epsilon {answer.epsilon:g}[/bold green] {words}")


def _show_table(budgets: Sequence[Guessed], more: Sequence[tuple[str, Sequence[float]]]) -> None:
    """Print errors by method and epsilon, in the order of the first budget's; then further rows."""
    from rich.table import Table

    table = Table("method", *(f"epsilon {each.epsilon:g}" for each in budgets))
    for column in table.columns[1:]:
        column.justify = "right"
    for name in dict.fromkeys(name for each in budgets for name in each.errors):
        cells = []
        for each in budgets:
            error = f"{each.errors[name]:.3g}" if name in each.errors else ""
            cells.append(f"[bold green]* {error}[/bold green]" if name == each.method else error)
        table.add_row(name, *cells)
    for name, errors in more:
        table.add_row(name, *(f"{error:.3g}" for error in errors))
    console().print(table)
