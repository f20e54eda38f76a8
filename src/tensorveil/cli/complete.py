"""`tensorveil complete FILE`: fit a model and fill in what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import common_options, console, print_json, reading_options, split_ranks
from tensorveil.cli.private import private_options, refuse_private_options, wants_privacy

if TYPE_CHECKING:
    from tensorveil.runs.complete import Plan

READING = ("modes", "value", "file_format", "indices", "no_header", "variable")
FIT_OPTIONS = ("solver", "baseline", "sweeps", "regularization", "restarts", "threads")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to make: model.npz, filled entries, report.html and more.",
)
@click.option("--model", type=click.Choice(["cp", "tucker", "matrix"]), default="cp", show_default=True, help="Model.")
@click.option(
    "--rank",
    callback=split_ranks,
    metavar="RANK[,RANK...]",
    help="Rank; Tucker: also one per mode, 4,4,4; matrix: also auto [default: cp 8, tucker 4, matrix auto].",
)
@click.option(
    "--solver",
    type=click.Choice(["bayes", "als", "sgd", "dlnm_qr", "sor", "altmin"]),
    help="How to fit [default: bayes]; the last three for --model matrix.",
)
@click.option(
    "--baseline",
    type=click.Choice(["mean", "biases", "none"]),
    help="What is subtracted first: the mean, or the mean and a bias per index [default: mean].",
)
@click.option("--sweeps", type=click.IntRange(min=1), help="Passes over the data, at most.")
@click.option("--regularization", type=click.FloatRange(min=0), help="Ridge weight (als, sgd).")
@click.option("--restarts", type=click.IntRange(min=1), help="Fits from different starts; the best is kept.")
@click.option(
    "--validation",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of entries held out to judge the fit and to stop in time.",
)
@click.option("--bounds", type=float, nargs=2, metavar="LOW HIGH", help="Where values can lie; predictions too.")
@click.option(
    "--out-of-bounds", type=click.Choice(["error", "clip", "drop"]), help="Values outside --bounds [default: error]."
)
@click.option(
    "--duplicates",
    type=click.Choice(["error", "mean", "sum", "first", "last"]),
    help="Cells that are listed more than once [default: error].",
)
@click.option("--missing", type=click.Choice(["error", "drop"]), help="Entries without a value [default: error].")
@click.option(
    "--at",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Fill only the cells listed in this table, rather than all missing ones.",
)
@click.option("--no-fill", is_flag=True, help="Write the model and the summary only.")
@click.option(
    "--max-cells",
    type=click.IntRange(min=1),
    default=20_000_000,
    show_default=True,
    help="Largest number of cells of a tensor of which all missing ones are filled.",
)
@click.option(
    "--filled-format",
    type=click.Choice(["parquet", "csv", "png"]),
    default="parquet",
    show_default=True,
    help="Filled file; png: the completed picture, for tensors that are pictures.",
)
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option("--seed", type=int, help="Seed of initialisation and shuffling [default: 0]. Noise has none.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads [default: all].")
@click.option("--force", is_flag=True, help="Replace an earlier result in OUTPUT; never a release.")
@private_options
@reading_options
@common_options
def complete(as_json: bool, **options: Any) -> None:
    """Fit a model to the entries in FILE and fill in the missing ones.

    With --epsilon, --unit and --bounds the fit is differentially private, and OUTPUT is a release: a folder that
    holds only what may be published. Without them nothing is protected. Open report.html in a browser: what was
    released, the guarantee, what the budget buys.

    OUTPUT appears when everything is done; if anything fails, nothing is left behind (a charge to a ledger stays).

    \b
    Examples:
      tensorveil complete ratings.csv --epsilon 1 --unit value --bounds 1 5 --ledger ratings.ledger -o release
      tensorveil complete ratings.tns --epsilon 2 --delta 1e-6 --unit entry --bounds 1 5 \\
          --private-shape 943,1682 -o release
      tensorveil complete ratings.csv -o result --bounds 1 5
      tensorveil complete trips.parquet --modes from,to,hour --value trips --rank 16 \\
          --solver als --validation 0.1 -o result
      tensorveil complete holes.png --model matrix --filled-format png -o result
      tensorveil complete sensors.tns --model tucker --rank 6,6,4 --at wanted.csv -o result --json
    """
    if options["at"] and options["no_fill"]:
        raise click.UsageError("--at and --no-fill exclude each other.")
    if options["at"] and options["filled_format"] == "png":
        raise click.UsageError("--filled-format png shows the whole picture. Leave out --at.")
    if wants_privacy(options):
        from tensorveil.runs.private_complete import complete_privately

        complete_privately(options, as_json=as_json)
        return
    refuse_private_options(options)
    from tensorveil.runs.complete import run_completion

    plan = make_plan(options)
    summary = run_completion(plan)
    if as_json:
        print_json(summary)
    else:
        _show(summary, plan)


def make_plan(options: dict[str, Any]) -> Plan:
    """Sort the options by what they concern."""
    from tensorveil.runs.complete import Plan

    fit = {name: options[name] for name in FIT_OPTIONS} | {
        "rank": options["rank"],
        "validation_fraction": options["validation"],
        "random_state": 0 if options["seed"] is None else options["seed"],
    }
    reading = {name: options[name] for name in READING}
    policies = {name: options[name] for name in ("bounds", "out_of_bounds", "duplicates", "missing")}
    return Plan(
        file=options["file"],
        output=options["output"],
        model=options["model"],
        fit={name: setting for name, setting in fit.items() if setting is not None},
        reading=reading | policies,
        at=options["at"],
        fill=not options["no_fill"],
        max_cells=options["max_cells"],
        filled_name=f"filled.{options['filled_format']}",
        value_name=options["value"] or "value",
        report=not options["no_report"],
        force=options["force"],
    )


def _show(summary: dict[str, Any], plan: Plan) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    data, fit = summary["data"], summary["fit"]
    table = Table(show_header=False)
    shape = " x ".join(f"{size:,}" for size in data["shape"])
    table.add_row("data", f"{shape}, {data['entries']:,} entries ({data['density']:.3%} observed)")
    table.add_row("model", f"{summary['model']}, rank {summary['rank']}, {summary['parameters']:,} parameters")
    table.add_row("fit", f"{fit['seconds']:.2f} s, {fit['records']} sweeps")
    table.add_row("RMSE on the entries", f"{fit['train_rmse']:.5g}")
    if fit["validation_rmse"] is not None:
        table.add_row("RMSE on the held-out part", f"{fit['validation_rmse']:.5g}")
    if summary["filled"] is not None:
        table.add_row("filled", f"{summary['filled']:,} cells")
    out.print(table)
    out.print(f"written: {escape(', '.join(str(plan.output / name) for name in summary['files']))}", soft_wrap=True)
