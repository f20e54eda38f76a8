"""`tensorveil demo`: hide part of a real tensor, complete it privately, compare with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import common_options, console, print_json


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
    from tensorveil.runs.demo import run_demo

    out = console(as_json=as_json)
    if not as_json:
        out.print(
            "COVID-19 serology: 438 serum samples x 6 antigens x 11 receptors (Zohar et al. 2020, Tan et al. 2021)"
        )
    summary = run_demo(output, hidden=hidden, seed=seed, threads=threads)
    if as_json:
        print_json(summary)
    else:
        _show(out, summary, output)


def _show(out: Any, summary: dict[str, Any], output: Path) -> None:
    from rich.markup import escape

    from tensorveil.release.names import OWNER_REPORT

    out.print(f"{summary['hidden']:,} of {summary['entries']:,} entries hidden, then predicted from the others.\n")
    out.print(_private_table(summary))
    out.print(_open_table(summary))
    if summary["note"]:
        out.print(f"[yellow]note:[/yellow] {escape(summary['note'])}")
    released = summary["released"]
    out.print(f"\nReleased at epsilon {released['epsilon']:g}, charged to a ledger that holds "
              f"{released['ledger_epsilon']:g}:")  # fmt: skip
    out.print(f"[bold]{escape(released['sentence'])}[/bold]")
    out.print("What is protected are the values as published: they were centred beforehand, by means over all samples.")
    out.print(
        "\nThe errors above and the pictures are computed from the data, without protection: with data that are really "
        "private they stay with their owner, and only the release is published."
    )
    place = escape(str(output))
    out.print(f"release, may be published:   {place}/release (open report.html)", soft_wrap=True)
    out.print(f"ledger, keeps count:         {place}/{released['ledger']} (tensorveil budget LEDGER)", soft_wrap=True)
    pictures = [Path(name).name for name in summary["files"] if name.endswith((".png", f"/{OWNER_REPORT}"))]
    inside = f" ({', '.join([*pictures, 'summary.json'])})"
    out.print(f"diagnostics, do not publish: {place}/diagnostics{inside}", soft_wrap=True)


def _private_table(summary: dict[str, Any]) -> Any:
    from rich.table import Table

    low, high = summary["bounds"]
    title = f"Privately: CP of rank {summary['private_rank']}, unit value, bounds {low:g} to {high:g}, delta 0"
    caption = f"private errors: mean (lowest to highest) of {summary['repeats']} draws of noise"
    table = Table("", "mechanism", "held-out RMSE", "R²", title=title, caption=caption)
    for column in table.columns[2:]:
        column.justify = "right"
    constant, _, same_rank, cp, _ = summary["methods"]
    table.add_row("constant (mean), not private", "", f"{constant['rmse']:.3f}", _r2(constant))
    for each in summary["private"]:
        if each["epsilon"] in summary["budgets"]:
            error = f"{each['rmse']:.3f} ({each['lowest']:.3f} to {each['highest']:.3f})"
            name = f"private, epsilon {each['epsilon']:g}"
            table.add_row(name, each["method"], error, _r2(each), style="bold green")
    for method in (same_rank, cp):
        table.add_row(f"{method['name']}, not private", "", f"{method['rmse']:.3f}", _r2(method))
    return table


def _open_table(summary: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table("", "held-out RMSE", "R²", "seconds", title="Without privacy")
    for column in table.columns[1:]:
        column.justify = "right"
    for method in (summary["methods"][at] for at in (1, 3, 4)):
        table.add_row(method["name"], f"{method['rmse']:.3f}", _r2(method), f"{method['seconds']:.2f}")
    return table


def _r2(method: dict[str, Any]) -> str:
    return f"{round(method['r2'], 3) + 0.0:.3f}"
