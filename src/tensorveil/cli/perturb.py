"""`tensorveil perturb IN OUT`: randomise tensors before they leave their owners."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import Function, State, common_options, console, print_json, telling
from tensorveil.local.names import MECHANISMS

if TYPE_CHECKING:
    from tensorveil.runs.perturb import PerturbResult


def perturb_options(function: Function) -> Function:
    """Add the options that a mechanism is made of."""
    options = [
        click.option("--epsilon", type=float, required=True, help="How much may be learned from one report."),
        click.option("--unit", type=click.Choice(["tensor", "local-entry"]), required=True, help="What is protected."),
        click.option("--bounds", type=float, nargs=2, metavar="LOW HIGH", help="Declared range of the entries."),
        click.option("--radius", type=float, help="Instead of --bounds: declared largest norm of a tensor."),
        click.option("--delta", type=float, default=0.0, show_default=True, help="Above 0 allows Gaussian noise."),
        click.option(
            "--mechanism",
            type=click.Choice(["auto", *MECHANISMS]),
            default="auto",
            show_default=True,
            help="How; auto takes the least expected error, from public numbers alone.",
        ),
        click.option("--points", type=int, help="Grid points in the bounds, for mechanisms on entries; 256 for bytes."),
        click.option(
            "--weights",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="PUBLIC weights in [0, 1], an array file: more weight, less epsilon. Never from the data.",
        ),
        click.option("--differ", type=int, help="Unit tensor: at most this many entries of a tensor can differ."),
        click.option(
            "--basis", metavar="KIND:KEEP", help="Report KEEP coefficients of a public basis: dct:64, haar:64."
        ),
        click.option("--owners", is_flag=True, help="The first axis counts owners: one report for each of them."),
        click.option("--keep-names", is_flag=True, help="Tables: keep the names of columns, which are then public."),
        click.option("--variable", help="NPZ: the array to read."),
        click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Ledger to charge first."),
        click.option("--purpose", help="What for, in the ledger's words. No data."),
    ]
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)


@click.command()
@click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@perturb_options
@common_options
@click.pass_obj
def perturb(
    state: State | None,
    *,
    source: Path,
    target: Path,
    epsilon: float,
    unit: str,
    bounds: tuple[float, float] | None,
    radius: float | None,
    delta: float,
    mechanism: str,
    points: int | None,
    weights: Path | None,
    differ: int | None,
    basis: str | None,
    owners: bool,
    keep_names: bool,
    variable: str | None,
    ledger: Path | None,
    purpose: str | None,
    as_json: bool,
) -> None:
    """Randomise a tensor, so that it may leave its owner; print what is promised.

    IN and OUT are .npy, .npz, .parquet (a matrix) or .png files. OUT.guarantee.json, beside OUT, holds the guarantee
    and all that is needed to aggregate reports. Nothing is ever overwritten.

    \b
    Examples:
      tensorveil perturb photo.png noisy.png --epsilon 8 --unit local-entry --bounds 0 255 \\
          --mechanism dtldp --points 256
      tensorveil perturb people.npy reports.npy --owners --epsilon 4 --unit tensor --bounds -1 1
      tensorveil perturb people.npy reports.npy --owners --epsilon 2 --unit tensor --bounds 0 1 --basis dct:64
    """
    from tensorveil.runs.perturb import PerturbRequest, perturb_file

    if state is not None:
        state.private = True
    result = perturb_file(
        PerturbRequest(
            source=source,
            target=target,
            epsilon=epsilon,
            unit=unit if differ is None else f"{unit}:differ={differ}",
            bounds=bounds,
            radius=radius,
            delta=delta,
            mechanism=mechanism,
            points=points,
            weights=weights,
            basis=basis,
            owners=owners,
            keep_names=keep_names,
            variable=variable,
            ledger=ledger,
            purpose=purpose,
        )
    )
    with telling(result.target, result.ledger, result.release_id):
        if as_json:
            print_json(result.to_json())
        else:
            _show(result)


def _show(result: PerturbResult) -> None:
    from tensorveil.cli.common import escape

    out = console()
    out.print(f"[bold]{escape(str(result.guarantee))}[/bold]")
    out.print(f"mechanism: {escape(result.guarantee.mechanism)}; at worst a deviation of "
              f"{result.worst_rmse_per_entry:.4g} per entry")  # fmt: skip
    for note in result.notes:
        out.print(escape(note))
    target = escape(str(result.target))
    out.print(f"written: {target}, {target}.guarantee.json", soft_wrap=True)
