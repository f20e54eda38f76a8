"""`tensorveil synthesise RELEASE -o FILE`: a synthetic tensor, drawn from a released model of counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import common_options, console, escape, print_json, split_named_shape


@click.command()
@click.argument("release", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Tensor file to write: .csv, .tsv, .parquet, .npz or .tns.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Draws the same cells again; by default others each time.")
@click.option(
    "--rows",
    callback=split_named_shape,
    metavar="MODE=SIZE,...",
    help="How many indices a mode is to have; each is like one of the model's, drawn at random.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT if it exists.")
@common_options
def synthesise(release: Path, output: Path, seed: int | None, rows: Any, force: bool, as_json: bool) -> None:
    """Draw a synthetic tensor from a release of units entry or slice with --unlisted zero.

    Drawing costs no budget: what the release promises holds for the drawn cells too, and OUTPUT.guarantee.json says so.
    RELEASE may also be the file of an open model of counts, of which nothing is promised.

    \b
    Examples:
      tensorveil synthesise release --output synthetic.csv --seed 1
      tensorveil synthesise release --rows patient=5000 --output patients.csv
    """
    from tensorveil.runs.synthesise import SynthesisRun, synthesise_cells

    if isinstance(rows, tuple):
        raise click.UsageError("--rows names modes. Try --rows patient=5000.")
    found = synthesise_cells(SynthesisRun(source=release, output=output, seed=seed, rows=rows, force=force))
    if as_json:
        print_json(found.to_json())
        return
    out = console()
    out.print(f"[bold]{escape(found.sentence)}[/bold]")
    out.print(f"cells: {found.entries:,}, total {found.total:,.0f}, written to {escape(str(output))}", soft_wrap=True)
    if found.guarantee_file is not None:
        out.print(f"guarantee: {escape(str(found.guarantee_file))}", soft_wrap=True)
