"""`tensorveil aggregate REPORTS...`: what a collector makes of many reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import common_options


@click.command()
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="NPZ file to make: mean, standard_error."
)
@click.option("--low-rank", type=click.IntRange(min=1), help="Also fit a CP model of this rank to the mean.")
@click.option("--clip", is_flag=True, help="Cut means to the declared bounds: nearer to the truth, no longer unbiased.")
@click.option("--shuffled", is_flag=True, help="Reports came through a trusted shuffler: say what that is worth.")
@click.option("--delta", type=float, help="With --shuffled: the delta of that guarantee, above 0.")
@click.option("--variable", help="NPZ reports: the array to read.")
@common_options
def aggregate(reports: tuple[Path, ...], output: Path, as_json: bool, **options: Any) -> None:
    """Average reports made by `tensorveil perturb`, with standard errors. Costs no budget.

    Every report file needs its .guarantee.json beside it. All reports with one mechanism and budget are averaged;
    groups with different budgets are combined by inverse variance.

    \b
    Examples:
      tensorveil aggregate reports.npy -o mean.npz
      tensorveil aggregate monday.npy tuesday.npy -o mean.npz --low-rank 3 --clip
      tensorveil aggregate reports.npy -o mean.npz --shuffled --delta 1e-6
    """
    from tensorveil.runs.aggregate import aggregate_files

    aggregate_files(reports, output, options, as_json=as_json)
