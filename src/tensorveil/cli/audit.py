"""`tensorveil audit`: try to refute a privacy claim, of this project's mechanisms or of one of your own."""

from __future__ import annotations

from typing import Any

import click

from tensorveil.cli.common import common_options, console, print_json, reading_options

VIOLATED = 3
BROKEN = ("violated", "leak found")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE.py:FUNCTION|RELEASE]...")
@click.option("--list", "list_only", is_flag=True, help="List the subjects by name and leave.")
@click.option("--all", "everything", is_flag=True, help="Audit every subject of the project.")
@click.option("--epsilon", type=float, help="The claim for FILE.py:FUNCTION.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Beside --epsilon.")
@click.option("--mu", type=float, help="The claim as Gaussian differential privacy, instead of --epsilon.")
@click.option(
    "--neighbours",
    type=(click.Path(exists=True, dir_okay=False), click.Path(exists=True, dir_okay=False)),
    multiple=True,
    metavar="A.npy B.npy",
    help="Two data sets that differ in one unit; may be repeated.",
)
@click.option(
    "--batched", is_flag=True, help="FUNCTION(data, rng, n) gives n outputs; otherwise FUNCTION(data, rng) one."
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(["law", "atom", "support", "low bits"]),
    multiple=True,
    help="What to look for in a mechanism of your own; may be repeated [default: everything].",
)
@click.option(
    "--samples",
    type=click.IntRange(min=40),
    help="Runs on every neighbour, or canaries in one run [default: the subject's own].",
)
@click.option("--confidence", type=float, default=0.999, show_default=True, help="That a true claim is not refuted.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the audit's own draws.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, writable=True), help="Draw the trade-off curve (PNG, SVG, PDF)."
)
@click.option(
    "--report", type=click.Path(dir_okay=False, writable=True), help="Write the verdicts and curves as a page (HTML)."
)
@click.option(
    "--data", type=click.Path(exists=True, dir_okay=False), help="What RELEASE was fitted to: the owner's test of it."
)
@reading_options
@common_options
def audit(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Try to refute a privacy claim by experiment.

    NAME is a subject of this project (see --list; the beginning of a name, or a pattern such as 'noise/*', takes
    several). FILE.py:FUNCTION is a mechanism of your own, run as Python code of yours.

    RELEASE is a release folder or a model file, together with --data: do its factors give single entries away? This
    reads private data and its answer is for their owner alone.

    The verdict is "violated" with a witness, and exit code 3, or "no violation found" with the power the audit had.
    It is never "proved".

    \b
    Examples:
      tensorveil audit "noise/laplace, fine grid"
      tensorveil audit published/ --report audit.html
      tensorveil audit mine.py:mechanism --epsilon 1 --neighbours a.npy b.npy --samples 50000 --plot curve.png
      tensorveil audit release --data ratings.csv
    """
    from tensorveil.runs import audit as auditing

    if options["list_only"]:
        facts = auditing.listed()
        if as_json:
            print_json(facts)
        else:
            _show_list(facts)
        return
    if options["data"] is not None:
        if len(names) != 1 or options["everything"]:
            raise click.UsageError("--data goes with one RELEASE, a folder or a model file.")
        results = [auditing.attacked(names[0], options)]
    elif options["everything"] == bool(names):
        raise click.UsageError("give NAME or FILE.py:FUNCTION, or --all (and not both); --list shows the names.")
    else:
        results = auditing.audited(names, options)
    if as_json:
        print_json(results)
    else:
        _show(results)
    if any(result["verdict"] in BROKEN for result in results):
        click.get_current_context().exit(VIOLATED)


def _show_list(facts: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "unit", "claimed", "proven", "drawn")
    for fact in facts:
        table.add_row(*(escape(fact[key]) for key in ("name", "unit", "claimed", "proven", "drawn")))
    console().print(table)


def _show(results: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    out = console()
    for result in results:
        colour = "red" if result["verdict"] in BROKEN else "green"
        out.print(f"[bold]{escape(result['name'])}[/bold] [{colour}]{result['verdict']}[/{colour}]")
        out.print("  " + escape(result["sentence"]), soft_wrap=True)
