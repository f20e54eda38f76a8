"""`tensorveil demo`: hide part of a real tensor, complete it privately, compare with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import common_options, console, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tensorveil.runs.demo import DemoResult


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="demo-output",
    show_default=True,
    help="Folder for the release, the ledger and the diagnostics; an earlier demo there is replaced.",
)
@click.option(
    "--hidden",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.3,
    show_default=True,
    help="Share of the entries to hide.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of what is hidden and of the fits.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads [default: all].")
@common_options
def demo(output: Path, hidden: float, seed: int, threads: int | None, as_json: bool) -> None:
    """Complete a real tensor privately: antibody measurements of 438 samples x 6 antigens x 11 receptors.

    Hides 30 % of the entries, predicts them from the others under three privacy budgets and without privacy, and shows
    how far each is off. Writes one release with its ledger, as one would for real.

    \b
    Example:
      tensorveil demo --output demo-output
    """
    from tensorveil.runs.demo import DemoRun, run_demo

    out = console(as_json=as_json)
    if not as_json:
        out.print(
            "COVID-19 serology: 438 serum samples x 6 antigens x 11 receptors (Zohar et al. 2020, Tan et al. 2021)"
        )
    result = run_demo(DemoRun(output=output, hidden=hidden, seed=seed, threads=threads))
    if as_json:
        print_json(result.to_json())
    else:
        _show(out, result, output)


def _show(out: Console, result: DemoResult, output: Path) -> None:
    from tensorveil.cli.common import escape
    from tensorveil.release.names import OWNER_REPORT, SUMMARY

    out.print(f"{result.hidden:,} of {result.entries:,} entries hidden, then predicted from the others.\n")
    out.print(_make_private_table(result))
    out.print(_make_open_table(result))
    released = result.released
    out.print(
        f"\nReleased at epsilon {released.epsilon:g}, charged to a ledger that holds {released.ledger_epsilon:g}:"
    )
    out.print(f"[bold]{escape(released.sentence)}[/bold]")
    out.print("What is protected are the values as published: they were centred beforehand, by means over all samples.")
    out.print(
        "\nThe errors above and the pictures are computed from the data, without protection: with data that are really "
        "private they stay with their owner, and only the release is published."
    )
    place = escape(str(output))
    out.print(f"release, may be published:   {place}/release (open report.html)", soft_wrap=True)
    out.print(f"ledger, keeps count:         {place}/{released.ledger} (tensorveil budget LEDGER)", soft_wrap=True)
    pictures = [Path(name).name for name in result.files if name.endswith((".svg", f"/{OWNER_REPORT}"))]
    inside = f" ({', '.join([*pictures, SUMMARY])})"
    out.print(f"diagnostics, do not publish: {place}/diagnostics{inside}", soft_wrap=True)


def _make_private_table(result: DemoResult) -> Table:
    from rich.table import Table

    low, high = result.bounds
    title = f"Privately: CP of rank {result.private_rank}, unit value, bounds {low:g} to {high:g}, delta 0"
    caption = f"private errors: mean (lowest to highest) of {result.repeats} draws of noise"
    table = Table("", "mechanism", "held-out RMSE", "R²", title=title, caption=caption)
    for column in table.columns[2:]:
        column.justify = "right"
    constant, _, same_rank, cp, _ = result.methods
    table.add_row("constant (mean), not private", "", f"{constant.rmse:.3f}", _write_r2(constant.r2))
    for each in result.private:
        if each.epsilon in result.budgets:
            error = f"{each.rmse:.3f} ({each.lowest:.3f} to {each.highest:.3f})"
            name = f"private, epsilon {each.epsilon:g}"
            table.add_row(name, each.method, error, _write_r2(each.r2), style="bold green")
    for method in (same_rank, cp):
        table.add_row(f"{method.name}, not private", "", f"{method.rmse:.3f}", _write_r2(method.r2))
    return table


def _make_open_table(result: DemoResult) -> Table:
    from rich.table import Table

    table = Table("", "held-out RMSE", "R²", "seconds", title="Without privacy")
    for column in table.columns[1:]:
        column.justify = "right"
    for method in (result.methods[at] for at in (1, 3, 4)):
        table.add_row(method.name, f"{method.rmse:.3f}", _write_r2(method.r2), f"{method.seconds:.2f}")
    return table


def _write_r2(r2: float) -> str:
    return f"{round(r2, 3) + 0.0:.3f}"
