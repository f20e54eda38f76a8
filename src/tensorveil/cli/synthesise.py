"""`tensorveil synthesise RELEASE -o FILE`: a synthetic tensor, drawn from a released model of counts."""

from __future__ import annotations

from pathlib import Path

import click

from tensorveil.cli.common import common_options, console, escape, print_json


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
@click.option("--force", is_flag=True, help="Replace OUTPUT if it exists.")
@common_options
def synthesise(release: Path, output: Path, seed: int | None, force: bool, as_json: bool) -> None:
    """Draw a synthetic tensor from a release of unit entry with --unlisted zero.

    Drawing costs no budget: what the release promises holds for the drawn cells too. RELEASE may also be the file of an
    open model of counts, of which nothing is promised.

    \b
    Example:
      tensorveil synthesise release --output synthetic.csv --seed 1
    """
    from tensorveil.runs.synthesise import SynthesisRun, synthesise_cells

    found = synthesise_cells(SynthesisRun(source=release, output=output, seed=seed, force=force))
    if as_json:
        print_json(found.to_json())
        return
    out = console()
    out.print(f"[bold]{escape(found.sentence)}[/bold]")
    out.print(f"cells: {found.entries:,}, total {found.total:,.0f}, written to {escape(str(output))}", soft_wrap=True)
