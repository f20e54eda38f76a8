"""`tensorveil aggregate REPORTS...`: what a collector makes of many reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import common_options, console, print_json

if TYPE_CHECKING:
    from tensorveil.runs.aggregate import AggregateResult


@click.command()
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="NPZ file to make: mean, standard_error."
)
@click.option("--low-rank", type=click.IntRange(min=1), help="Also fit a CP model of this rank to the mean.")
@click.option(
    "--clip", is_flag=True, help="Cut means to the declared bounds: closer to the truth, but no longer unbiased."
)
@click.option(
    "--by",
    type=click.Choice(["precision", "people"]),
    default="precision",
    show_default=True,
    help="Combine groups with different budgets by inverse variance, or by their numbers of people.",
)
@click.option("--shuffled", is_flag=True, help="Reports came through a trusted shuffler: say what that is worth.")
@click.option("--delta", type=float, help="With --shuffled: the delta of that guarantee, above 0.")
@click.option("--variable", help="NPZ reports: the array to read.")
@common_options
def aggregate(
    *,
    reports: tuple[Path, ...],
    output: Path,
    low_rank: int | None,
    clip: bool,
    by: str,
    shuffled: bool,
    delta: float | None,
    variable: str | None,
    as_json: bool,
) -> None:
    """Average reports made by `tensorveil perturb`, with standard errors. Costs no budget.

    Every report file needs its .guarantee.json beside it. All reports with one mechanism and budget are averaged;
    groups with different budgets are combined by inverse variance, or by --by people where those who chose
    another budget may be other people.

    \b
    Examples:
      tensorveil aggregate reports.npy -o mean.npz
      tensorveil aggregate monday.npy tuesday.npy -o mean.npz --low-rank 3 --clip
      tensorveil aggregate reports.npy -o mean.npz --shuffled --delta 1e-6
    """
    from tensorveil.runs.aggregate import AggregateRequest, aggregate_files

    result = aggregate_files(
        AggregateRequest(
            reports=reports,
            output=output,
            low_rank=low_rank,
            clip=clip,
            by=by,
            shuffled=shuffled,
            delta=delta,
            variable=variable,
        )
    )
    if as_json:
        print_json(result.to_json())
    else:
        _show(result)


def _show(result: AggregateResult) -> None:
    from tensorveil.cli.common import escape

    out = console()
    out.print(f"{result.reports:,} reports; standard error of an entry of the mean {result.standard_error:.4g}")
    out.print(f"[bold]{escape(str(result.guarantee))}[/bold]")
    for note in (*result.notes, *result.guarantee.notes):
        out.print(escape(note))
    out.print(f"written: {escape(str(result.output))} ({', '.join(result.arrays)})", soft_wrap=True)
