"""`tensorveil plan`: what accuracy to expect of each private mechanism at each budget, from public facts alone."""

from __future__ import annotations

from typing import Any

import click

from tensorveil.cli.common import (
    common_options,
    console,
    print_json,
    reading_options,
    split_ranks,
    split_shape,
)

ASSUMED = (
    "Unit value: positions are public. Expected errors are for a typical tensor, because the values are not looked at: "
    "a standard deviation of a tenth of the bounds' width, a quarter of the variance biases, a third interactions; "
    "the noise of observations is not counted. Compare them with each other; your own errors will differ. Where little "
    "is to be gained over the constant, auto takes the mean. Planning costs no budget."
)


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
@reading_options
@common_options
def plan(file: str | None, as_json: bool, **options: Any) -> None:
    """Compare private mechanisms before spending anything.

    Give --shape and --entries, or a FILE, of which only the positions are used, which are public in unit value.

    \b
    Examples:
      tensorveil plan --shape 943,1682 --entries 90570 --bounds 1 5 --rank 10 --epsilon 0.5 --epsilon 1 --epsilon 5
      tensorveil plan ratings.csv --bounds 1 5 --epsilon 1 --delta 1e-6 --json
    """
    from tensorveil.runs.plan import planned

    if file is None and (options["shape"] is None or options["entries"] is None):
        raise click.UsageError("give either FILE, or both --shape and --entries.")
    if file is not None and (options["shape"] or options["entries"]):
        raise click.UsageError("--shape and --entries are read off FILE; leave them out.")
    facts = planned(file, options)
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _show(facts: dict[str, Any]) -> None:
    from rich.table import Table

    out = console()
    shape = " x ".join(f"{size:,}" for size in facts["shape"])
    low, high = facts["bounds"]
    out.print(
        f"{shape}, {facts['entries']:,} entries, values {low:g} to {high:g}, {facts['model']}, rank {facts['rank']}"
    )
    out.print(f"expected RMSE of each mechanism (delta = {facts['delta']:g}); * is what --method auto takes")
    table = Table("method", *(f"epsilon {budget['epsilon']:g}" for budget in facts["budgets"]))
    for column in table.columns[1:]:
        column.justify = "right"
    by_budget = [{found["method"]: found["rmse"] for found in budget["expected"]} for budget in facts["budgets"]]
    for method in facts["methods"]:
        cells = []
        for budget, errors in zip(facts["budgets"], by_budget, strict=True):
            chosen = method == budget["method"]
            cells.append(f"[bold green]* {errors[method]:.3g}[/bold green]" if chosen else f"{errors[method]:.3g}")
        table.add_row(method, *cells)
    out.print(table)
    out.print(facts["assumed"], markup=False)
