"""`tensorveil audit`: try to refute a privacy claim, of this project's mechanisms or of one of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from tensorveil.cli.common import (
    ReadingOptions,
    add_options,
    common_options,
    console,
    gather,
    print_json,
    reading_options,
)

if TYPE_CHECKING:
    from tensorveil.runs.audit import Finding, LeakFinding, OwnMechanism, SubjectListing

Function = TypeVar("Function", bound=Callable[..., object])

VIOLATED = 3
BROKEN = ("violated", "leak found")


@dataclass(frozen=True, kw_only=True)
class OwnOptions:
    """What goes with FILE.py:FUNCTION alone."""

    epsilon: float | None
    delta: float
    mu: float | None
    neighbours: tuple[tuple[str, str], ...]
    batched: bool
    kinds: tuple[str, ...]

    @property
    def given(self) -> bool:
        """Whether any of them was given; --delta alone says nothing."""
        return any((self.epsilon is not None, self.mu is not None, self.neighbours, self.batched, self.kinds))

    def own(self) -> OwnMechanism:
        """Return the facts that a run audits functions by."""
        from tensorveil.runs.audit import OwnMechanism

        return OwnMechanism(
            neighbours=self.neighbours,
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.mu,
            batched=self.batched,
            kinds=self.kinds,
        )


def own_options(function: Function) -> Function:
    """Add the options for FILE.py:FUNCTION; the command gets them as ``own``."""
    options = [
        click.option("--epsilon", type=float, help="The claim for FILE.py:FUNCTION."),
        click.option("--delta", type=float, default=0.0, show_default=True, help="Beside --epsilon."),
        click.option("--mu", type=float, help="The claim as Gaussian differential privacy, instead of --epsilon."),
        click.option(
            "--neighbours",
            type=(click.Path(exists=True, dir_okay=False), click.Path(exists=True, dir_okay=False)),
            multiple=True,
            metavar="A.npy B.npy",
            help="Two data sets that differ in one unit; may be repeated.",
        ),
        click.option(
            "--batched", is_flag=True, help="FUNCTION(data, rng, n) gives n outputs; otherwise FUNCTION(data, rng) one."
        ),
        click.option(
            "--kind",
            "kinds",
            type=click.Choice(["law", "atom", "support", "low bits"]),
            multiple=True,
            help="What to look for in a mechanism of your own; may be repeated [default: everything].",
        ),
    ]
    return add_options(gather(own=OwnOptions)(function), options)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE.py:FUNCTION|RELEASE]...")
@click.option("--list", "list_only", is_flag=True, help="List the subjects by name and exit.")
@click.option("--all", "everything", is_flag=True, help="Audit every subject of the project.")
@own_options
@click.option(
    "--samples",
    type=click.IntRange(min=40),
    help="Runs on every neighbour, or canaries in one run [default: the subject's own].",
)
@click.option("--confidence", type=float, default=0.999, show_default=True, help="That a true claim is not refuted.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the audit's own draws.")
@click.option("--plot", type=click.Path(dir_okay=False, writable=True), help="Draw the trade-off curve (SVG).")
@click.option(
    "--report", type=click.Path(dir_okay=False, writable=True), help="Write the verdicts and curves as a page (HTML)."
)
@click.option(
    "--data", type=click.Path(exists=True, dir_okay=False), help="What RELEASE was fitted to: the owner's test of it."
)
@click.option(
    "--duplicates",
    type=click.Choice(["error", "mean", "sum", "first", "last"]),
    help="--data: cells that are listed more than once [default: error].",
)
@click.option(
    "--missing", type=click.Choice(["error", "drop"]), help="--data: entries without a value [default: error]."
)
@reading_options
@common_options
def audit(
    names: tuple[str, ...],
    list_only: bool,
    everything: bool,
    own: OwnOptions,
    samples: int | None,
    confidence: float,
    seed: int,
    plot: str | None,
    report: str | None,
    data: str | None,
    duplicates: str | None,
    missing: str | None,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
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
      tensorveil audit mine.py:mechanism --epsilon 1 --neighbours a.npy b.npy --samples 50000 --plot curve.svg
      tensorveil audit release --data ratings.csv
    """
    from tensorveil.runs.audit import AuditRun, LeakRun, attack_model, describe_subjects, is_own, run_audits

    if list_only:
        _show_list(describe_subjects(), as_json)
        return
    if data is not None:
        if len(names) != 1 or everything:
            raise click.UsageError("--data goes with one RELEASE, a folder or a model file.")
        known = reading.reading(data, duplicates=duplicates, missing=missing)
        _show([attack_model(LeakRun(place=names[0], reading=known, report=report))], as_json)
        return
    if duplicates or missing:
        raise click.UsageError("--duplicates and --missing say how --data is read.")
    if everything == bool(names):
        raise click.UsageError("give NAME or FILE.py:FUNCTION, or --all (and not both); --list shows the names.")
    functions = any(map(is_own, names))
    if own.given and not functions:
        raise click.UsageError(
            "--epsilon, --mu, --neighbours, --batched, --kind go with FILE.py:FUNCTION; subjects have their own."
        )
    run = AuditRun(
        names=names,
        everything=everything,
        own=own.own() if functions else None,
        samples=samples,
        confidence=confidence,
        seed=seed,
        plot=plot,
        report=report,
    )
    _show(run_audits(run), as_json)


def _show_list(listings: Sequence[SubjectListing], as_json: bool) -> None:
    facts = [asdict(each) for each in listings]
    if as_json:
        print_json(facts)
        return
    from rich.table import Table

    from tensorveil.cli.common import escape

    table = Table("name", "unit", "claimed", "proven", "drawn")
    for fact in facts:
        table.add_row(*map(escape, fact.values()))
    console().print(table)


def _show(findings: Sequence[Finding | LeakFinding], as_json: bool) -> None:
    """Print verdicts, and leave with the exit code of what they say."""
    facts = [each.to_json() for each in findings]
    if as_json:
        print_json(facts)
    else:
        from tensorveil.cli.common import escape

        out = console()
        for fact in facts:
            colour = "red" if fact["verdict"] in BROKEN else "green"
            out.print(f"[bold]{escape(fact['name'])}[/bold] [{colour}]{fact['verdict']}[/{colour}]")
            out.print("  " + escape(fact["sentence"]), soft_wrap=True)
    if any(fact["verdict"] in BROKEN for fact in facts):
        click.get_current_context().exit(VIOLATED)
