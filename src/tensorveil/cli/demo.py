"""`tensorveil demo`: hide part of a real tensor, complete it, compare with the truth."""

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
    help="Folder for the picture, the filled entries, the models and the summary; replaced if it exists.",
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
    """Complete a real tensor: antibody measurements of 438 samples x 6 antigens x 11 receptors.

    Hides 30 % of the entries, predicts them with four methods, and shows how far each is off.

    \b
    Example:
      tensorveil demo --output demo-output
    """
    from tensorveil.cli.demonstration import run_demo

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
    from rich.table import Table

    out.print(f"{summary['hidden']:,} of {summary['entries']:,} entries hidden, then predicted:")
    table = Table("method", "held-out RMSE", "R²", "parameters", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    best = min(summary["methods"], key=lambda method: method["rmse"])
    for method in summary["methods"]:
        errors = [f"{method['rmse']:.3f}", f"{round(method['r2'], 3) + 0.0:.3f}"]
        costs = [f"{method['parameters']:,}", f"{method['seconds']:.2f}"]
        table.add_row(method["name"], *errors, *costs, style="bold green" if method is best else None)
    out.print(table)
    if summary["note"]:
        out.print(f"[yellow]note:[/yellow] {escape(summary['note'])}")
    names = ", ".join(summary["files"])
    out.print(f"written to {escape(str(output))}: {escape(names)}", soft_wrap=True)
