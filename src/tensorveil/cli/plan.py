"""`tensorveil plan`: what accuracy to expect of each private mechanism at each budget, from public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import (
    ReadingOptions,
    common_options,
    console,
    mark_private,
    print_json,
    reading_options,
    split_ranks,
    split_shape,
)

if TYPE_CHECKING:
    from tensorveil.runs.plan import Planned


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--shape", callback=split_shape, metavar="SIZE,SIZE,...", help="Sizes of the modes, without a FILE.")
@click.option("--entries", type=click.IntRange(min=1), help="Number of entries, without a FILE.")
@click.option("--bounds", type=float, nargs=2, required=True, metavar="LOW HIGH", help="Where values can lie.")
@click.option("--epsilon", "epsilons", type=float, multiple=True, required=True, help="Budget; may be repeated.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="0 for pure privacy.")
@click.option("--model", type=click.Choice(["cp", "tucker", "matrix"]), default="cp", show_default=True, help="Model.")
@click.option(
    "--rank",
    callback=split_ranks,
    metavar="RANK[,RANK...]",
    help="Rank; Tucker: also one per mode; matrix: also auto [default: cp 8, tucker 4, matrix auto].",
)
@click.option("--spread", type=float, help="Standard deviation of the values, if one is known without looking.")
@reading_options
@common_options
def plan(
    file: str | None,
    shape: tuple[int, ...] | None,
    entries: int | None,
    bounds: tuple[float, float],
    epsilons: tuple[float, ...],
    delta: float,
    model: str,
    rank: int | tuple[int, ...] | str | None,
    spread: float | None,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
    """Compare private mechanisms before spending anything.

    Give --shape and --entries, or a FILE, of which only the positions are used, which are public in unit value.

    \b
    Examples:
      tensorveil plan --shape 943,1682 --entries 90570 --bounds 1 5 --rank 10 --epsilon 0.5 --epsilon 1 --epsilon 5
      tensorveil plan ratings.csv --bounds 1 5 --epsilon 1 --delta 1e-6 --json
    """
    if file is None and (shape is None or entries is None):
        raise click.UsageError("give either FILE, or both --shape and --entries.")
    if file is not None and (shape or entries):
        raise click.UsageError("--shape and --entries are read off FILE; leave them out.")
    from tensorveil.runs.plan import PlanRun, plan_budgets

    run = PlanRun(
        bounds=bounds,
        epsilons=epsilons,
        delta=delta,
        reading=None if file is None else reading.reading(file),
        shape=shape,
        entries=entries,
        model=model,
        rank=rank,
        spread=spread,
    )
    mark_private()
    found = plan_budgets(run)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(found: Planned) -> None:
    from rich.table import Table

    out = console()
    shape = " x ".join(f"{size:,}" for size in found.shape)
    low, high = found.bounds
    rank = list(found.rank) if isinstance(found.rank, tuple) else found.rank
    out.print(f"{shape}, {found.entries:,} entries, values {low:g} to {high:g}, {found.model}, rank {rank}")
    out.print(f"guessed RMSE of each mechanism (delta = {found.delta:g}); * is what --method auto takes")
    table = Table("method", *(f"epsilon {epsilon:g}" for epsilon in found.plans))
    for column in table.columns[1:]:
        column.justify = "right"
    for method in found.methods:
        cells = []
        for each in found.plans.values():
            (error,) = (prediction.rmse for prediction in each.predictions if prediction.method == method)
            cells.append(f"[bold green]* {error:.3g}[/bold green]" if method == each.method else f"{error:.3g}")
        table.add_row(method, *cells)
    out.print(table)
    out.print(found.assumed, markup=False)
