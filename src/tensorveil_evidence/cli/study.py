"""`tensorveil study`: published figures and tables again, with proven methods beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import common_options, console, print_json

INTERRUPTED = 130


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|all]...")
@click.option("--list", "list_only", is_flag=True, help="List the studies with their cost and leave.")
@click.option("--quick", is_flag=True, help="Few runs per point, for a look.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="studies-output",
    show_default=True,
    help="Folder for results, figures and pages; what is finished there is not computed again.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes [default: one per core].")
@click.option("--runs", type=click.IntRange(min=1), help="Runs per point [default: the study's own number].")
@click.option("--redraw", is_flag=True, help="Compute nothing: figures and pages from the results in OUTPUT.")
@common_options
def study(names: tuple[str, ...], list_only: bool, output: Path, as_json: bool, **options: Any) -> None:
    """Make published figures and tables again, with proven methods and plain lines on the same axes.

    For every NAME the folder OUTPUT gets NAME.parquet (all numbers), NAME.json (settings, seeds, means), NAME.svg,
    NAME.png, NAME.md and NAME.html. A study that is interrupted or killed goes on where it was.

    Noise is seeded here, so that studies can be repeated: nothing in them is private.

    \b
    Examples:
      tensorveil study --list
      tensorveil study wei-figure-2 --quick
      tensorveil study all --output studies-output --jobs 2
      tensorveil study all --redraw
    """
    from tensorveil_evidence.studies import making as studying

    if list_only:
        facts = studying.listed()
        if as_json:
            print_json(facts)
        else:
            _show_list(facts)
        return
    if not names:
        raise click.UsageError("give NAME, or all; --list shows the names.")
    jobs = options["jobs"] or os.cpu_count() or 1
    try:
        made = studying.made(names, output, jobs=jobs, **{name: options[name] for name in ("quick", "redraw", "runs")})
    except KeyboardInterrupt:
        click.echo("Interrupted; finished cells are kept, and the same command goes on from there.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json(made)
    else:
        _show(made, output)


def _show_list(facts: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "what", "quick", "in full", "needs", caption="minutes of one core; processes share them")
    for fact in facts:
        needs = fact["dataset"] or ""
        if fact["dataset"] and not fact["present"]:
            needs += " (not there)"
        cells = (fact["name"], fact["title"], f"{fact['quick_minutes']:g}", f"{fact['full_minutes']:g}", needs)
        table.add_row(*map(escape, cells))
    console().print(table)


def _show(made: list[dict[str, Any]], output: Path) -> None:
    from rich.markup import escape

    out = console()
    for result in made:
        name = escape(result["name"])
        if result["skipped"]:
            out.print(f"[bold]{name}[/bold] [yellow]skipped[/yellow]: {escape(result['skipped'])}", soft_wrap=True)
        else:
            out.print(f"[bold]{name}[/bold] {escape(result['caption'])}", soft_wrap=True)
            out.print(
                f"  {escape(str(output / result['name']))}.html, .md, .svg, .png, .parquet, .json", soft_wrap=True
            )
