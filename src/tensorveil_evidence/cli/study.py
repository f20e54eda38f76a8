"""`tensorveil study`: published figures and tables again, with proven methods beside them."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import common_options, console, print_json

if TYPE_CHECKING:
    from tensorveil_evidence.studies.jobs import StudyListing, StudyResult

INTERRUPTED = 130


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|all]...")
@click.option("--list", "list_only", is_flag=True, help="List the studies with their cost and exit.")
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
def study(
    names: tuple[str, ...],
    list_only: bool,
    quick: bool,
    output: Path,
    jobs: int | None,
    runs: int | None,
    redraw: bool,
    as_json: bool,
) -> None:
    """Make published figures and tables again, with proven methods and plain lines on the same axes.

    For every NAME the folder OUTPUT gets NAME.parquet (all numbers), NAME.json (settings, seeds, means), NAME.svg,
    NAME.png, NAME.md and NAME.html. A study that is interrupted or killed continues where it was.

    NAME-paper-size runs a study of learning with all of its paper's records and passes, which takes days.

    Noise is seeded here, so that studies can be repeated: nothing in them is private.

    \b
    Examples:
      tensorveil study --list
      tensorveil study wei-figure-2 --quick
      tensorveil study all --output studies-output --jobs 2
      tensorveil study all --redraw
    """
    from tensorveil_evidence.studies.jobs import StudyRequest, describe_studies, make_studies

    if list_only:
        listings = describe_studies()
        if as_json:
            print_json([asdict(each) for each in listings])
        else:
            _show_list(listings)
        return
    if not names:
        raise click.UsageError("give NAME, or all; --list shows the names.")
    request = StudyRequest(
        names=names, output=output, quick=quick, redraw=redraw, jobs=jobs or os.cpu_count() or 1, runs=runs
    )
    try:
        results = make_studies(request)
    except KeyboardInterrupt:
        click.echo("Interrupted; finished cells are kept, and the same command continues from there.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json([asdict(each) for each in results])
    else:
        _show(results, output)


def _show_list(listings: list[StudyListing]) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape

    table = Table("name", "what", "quick", "in full", "needs", caption="minutes of one core; processes share them")
    for each in listings:
        needs = " + ".join((each.dataset, *each.also)) if each.dataset else ""
        if needs and not each.present:
            needs += " (not all there)" if each.also else " (not there)"
        cells = (each.name, each.title, f"{each.quick_minutes:g}", f"{each.full_minutes:g}", needs)
        table.add_row(*map(escape, cells))
    console().print(table)


def _show(results: list[StudyResult], output: Path) -> None:
    from tensorveil.cli.common import escape

    out = console()
    for each in results:
        name = escape(each.name)
        if each.skipped:
            out.print(f"[bold]{name}[/bold] [yellow]skipped[/yellow]: {escape(each.skipped)}", soft_wrap=True)
        else:
            out.print(f"[bold]{name}[/bold] {escape(each.caption)}", soft_wrap=True)
            out.print(f"  {escape(str(output / each.name))}.html, .md, .svg, .png, .parquet, .json", soft_wrap=True)
