"""`tensorveil complete FILE`: fit a model and fill in what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import (
    EngineOptions,
    ReadingOptions,
    check_tensor,
    common_options,
    console,
    engine_options,
    gather,
    loss_options,
    mark_private,
    print_json,
    reading_options,
    safe_csv_option,
    split_names,
    split_ranks,
    split_settings,
    telling,
)
from tensorveil.cli.compiling import tell_compiling
from tensorveil.cli.messages import in_shell_words
from tensorveil.cli.private import (
    MODELS,
    FitOptions,
    OpenOptions,
    PrivateOptions,
    WritingOptions,
    check_interval,
    check_private_options,
    private_options,
    refuse_private_options,
)
from tensorveil.markup import clean

if TYPE_CHECKING:
    from tensorveil.runs.cells import Filling
    from tensorveil.runs.complete import Completed, OpenRun
    from tensorveil.runs.private import PrivateRun, Released

INDICES = (
    "note: --indices: rows whose columns do not hold whole numbers from 0 within the declared sizes, such as names, "
    "are left out, and nothing may tell how many. Look before anything is spent: tensorveil info FILE --indices"
)
NO_LEDGER = (
    "No --ledger: nothing keeps count of what was spent on these data, and every further release adds to it. "
    "Start one with: tensorveil budget create data.ledger --epsilon E --delta D --unit U --name NAME"
)


@click.command()
@click.argument("file", type=click.Path(exists=True), callback=check_tensor)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to make: model.npz, filled entries, report.html and more.",
)
@click.option("--model", type=click.Choice(MODELS), default="cp", show_default=True, help="Model.")
@click.option(
    "--rank",
    callback=split_ranks,
    metavar="RANK[,RANK...]",
    help="Rank; Tucker: also one per mode, 4,4,4; matrix: also auto [default: cp 8, tucker 4, matrix auto].",
)
@click.option(
    "--solver",
    type=click.Choice(["auto", "bayes", "als", "sgd", "lbfgs", "adam", "dlnm_qr", "sor", "altmin"]),
    help="How to fit [default: auto: bayes, or what fits the loss]; the last three for --model matrix.",
)
@loss_options
@click.option(
    "--baseline",
    type=click.Choice(["mean", "biases", "none"]),
    help="What is subtracted first: the mean, or the mean and a bias per index [default: mean].",
)
@click.option("--sweeps", type=click.IntRange(min=1), help="Passes over the data, at most.")
@click.option("--regularization", type=click.FloatRange(min=0), help="Ridge weight (als, sgd).")
@click.option(
    "--smooth",
    multiple=True,
    metavar="MODE=KIND",
    callback=split_settings,
    help="Neighbouring indices are alike: day=walk, hour=cycle; day+hour=walk for the time that both make. Repeat. "
    "With --epsilon for --unit value: public knowledge, which costs no budget.",
)
@click.option(
    "--side",
    multiple=True,
    metavar="MODE=TABLE",
    callback=split_settings,
    help="Features of a mode's indices: film=films.csv, with a column named as the mode. Repeat. With --epsilon for "
    "--unit slice:MODE: a public table.",
)
@click.option(
    "--implicit",
    callback=split_names,
    metavar="NAME,NAME",
    help="Modes whose rows know which of their cells were observed: user,film.",
)
@click.option("--restarts", type=click.IntRange(min=1), help="Fits from different starts; see --keep.")
@click.option(
    "--keep",
    type=click.Choice(["best", "mean"]),
    help="Of several --restarts: the best, or the mean of all [default: best].",
)
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
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Filled file: also low and high, between which this share of values is expected, such as 0.9; --unit value.",
)
@safe_csv_option
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option("--seed", type=int, help="Seed of initialisation and shuffling [default: 0]. Noise has none.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads [default: all].")
@click.option("--force", is_flag=True, help="Replace an earlier result in OUTPUT; never a release.")
@private_options
@engine_options
@reading_options
@common_options
@gather(fit=FitOptions, writing=WritingOptions, open_only=OpenOptions)
def complete(
    file: str,
    fit: FitOptions,
    writing: WritingOptions,
    open_only: OpenOptions,
    private: PrivateOptions,
    engines: EngineOptions,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
    """Fit a model to the entries in FILE and fill in the missing ones.

    FILE may be a store, which `tensorveil store` makes of files that are larger than memory.

    With --epsilon, --unit and --bounds the fit is differentially private, and OUTPUT is a release: a folder that
    holds only what may be published. Without them nothing is protected. Open report.html in a browser: what was
    released, the guarantee, what the budget buys.

    OUTPUT appears when everything is done; if anything fails, nothing is left behind (a charge to a ledger stays).

    \b
    Examples:
      tensorveil complete ratings.csv --value rating --epsilon 1 --unit value --bounds 1 5 \\
          --ledger ratings.ledger -o release
      tensorveil complete ratings.csv --value rating --epsilon 5 --delta 1e-6 --unit slice:user --bounds 1 5 \\
          --labels film=films.csv:title --private-shape user=1000 -o release
      tensorveil complete STORE --epsilon 5 --delta 1e-6 --unit slice:user --bounds 1 5 \\
          --private-shape 1000000,50000 --engine loop --memory 4GB -o release
      tensorveil complete visits.csv --epsilon 1 --delta 1e-6 --unit slice:patient --unlisted zero \\
          --bounds 0 20 --labels code=codes.csv --labels drug=drugs.csv --private-shape patient=100000 -o release
      tensorveil complete ratings.tns --epsilon 2 --delta 1e-6 --unit entry --bounds 1 5 \\
          --private-shape 943,1682 -o release
      tensorveil complete ratings.csv -o result --bounds 1 5
      tensorveil complete trips.parquet --modes from,to,hour --value trips --rank 16 \\
          --solver als --validation 0.1 -o result
      tensorveil complete links.csv --value known --loss bernoulli --unlisted zero --rank 16 \\
          --same head,tail --validation 0.1 --no-fill -o result
      tensorveil complete speeds.csv --modes road,day,slot --value speed \\
          --smooth day=walk --smooth slot=walk --smooth day+slot=walk -o result
      tensorveil complete holes.png --model matrix --filled-format png -o result
      tensorveil complete sensors.tns --model tucker --rank 6,6,4 --at wanted.csv -o result --json
    """
    if writing.at and writing.no_fill:
        raise click.UsageError("--at and --no-fill exclude each other.")
    if writing.at and writing.filled_format == "png":
        raise click.UsageError("--filled-format png shows the whole picture. Leave out --at.")
    if writing.interval is not None:
        check_interval(private, writing)
    listed = bool(reading.labels or reading.bins)
    if Path(file).is_dir():
        listed = _check_store(file, fit, private, engines, reading)
    elif engines.given:
        raise click.UsageError(f"{', '.join(engines.given)}: for stores, which `tensorveil store` makes of files.")
    if private.epsilon is not None:
        check_private_options(private, open_only, fit, writing, listed=listed)
        _complete_privately(_private_run(file, fit, writing, open_only, private, reading, engines), as_json=as_json)
    else:
        refuse_private_options(private)
        _complete_openly(_open_run(file, fit, writing, open_only, reading, engines), as_json=as_json)


def _check_store(
    file: str, fit: FitOptions, private: PrivateOptions, engines: EngineOptions, reading: ReadingOptions
) -> bool:
    """Refuse what a store cannot be asked; tell whether it has public lists of labels."""
    from tensorveil.tensor.stored import StoredTensor

    if private.epsilon is None and engines.checkpoint is not None:
        raise click.UsageError("--checkpoint: for private fits of --unit slice:MODE. Leave it out.")
    if reading.given or fit.duplicates is not None or fit.missing is not None:
        raise click.UsageError(
            "a store knows how its files were read: leave out --modes, --value, --labels, --indices and the like, "
            "--duplicates and --missing."
        )
    return any(mode.labels is not None for mode in StoredTensor.open(file).modes)


def _complete_privately(run: PrivateRun, *, as_json: bool) -> None:
    from tensorveil.runs.private import STEPS, release_privately
    from tensorveil.runs.progress import step_progress

    mark_private()
    with tell_compiling(), step_progress(STEPS) as (tell, progress):
        released = release_privately(run, tell=tell, progress=progress)
    with telling(released.output, released.ledger, released.release_id):
        if as_json:
            print_json(released.to_json())
        else:
            _show_release(released)
        _tell_leftovers(released.leftovers)
        if released.ledger is None:
            click.echo(NO_LEDGER, err=True)


def _complete_openly(run: OpenRun, *, as_json: bool) -> None:
    from tensorveil.runs.complete import complete_openly
    from tensorveil.runs.estimators import name_estimator
    from tensorveil.runs.progress import fit_progress

    with tell_compiling(), fit_progress(f"fitting {name_estimator(run.estimator)}") as progress:
        completed = complete_openly(run, progress=progress)
    if as_json:
        print_json(completed.summary.to_json())
    else:
        _show_result(completed)
    for note in completed.notes:
        click.echo(f"note: {clean(in_shell_words(note))}", err=True)
    _tell_leftovers(completed.leftovers)


def _tell_leftovers(leftovers: Sequence[Path]) -> None:
    """Name what runs that were killed have left beside the output."""
    for path in leftovers:
        told = (
            f"An earlier run with this --output was killed. What it left, {path}, was never finished or has been "
            "replaced since; a charge that it made stands. Remove it when nothing in it is wanted."
        )
        click.echo(clean(told), err=True)


def _private_run(
    file: str,
    fit: FitOptions,
    writing: WritingOptions,
    open_only: OpenOptions,
    private: PrivateOptions,
    reading: ReadingOptions,
    engines: EngineOptions,
) -> PrivateRun:
    from tensorveil.runs.estimators import DEFAULT_RANK, PRIVATE, USER_LEVEL, USER_LEVEL_COUNTS
    from tensorveil.runs.private import PrivateRun
    from tensorveil.runs.reading import read_tables

    settings = {
        "side": None if open_only.side is None else read_tables(open_only.side),  # of unit slice, likewise
        "method": private.method,
        "solver": open_only.solver,  # of matrices alone, which was checked
        "smooth": open_only.smooth,  # of unit value, likewise
        "loss": open_only.loss,  # likewise
        "spread": private.spread,
        "purpose": private.purpose,
        "sweeps": fit.sweeps,
        "restarts": fit.restarts,
        "threads": fit.threads,
    }
    if reading.indices and private.unit_kind != "value":
        click.echo(INDICES, err=True)  # whatever the data are, since nobody may be told how many rows it concerns
    kinds = USER_LEVEL if private.unit_kind == "slice" else PRIVATE
    records = private.unit_kind == "slice" and open_only.unlisted == "zero"
    kind = USER_LEVEL_COUNTS if records else kinds[fit.model]
    estimator = kind(
        fit.rank or DEFAULT_RANK[fit.model],
        epsilon=private.epsilon,
        delta=private.delta or 0.0,
        accept_delta=bool(private.accept_delta),
        unit=private.unit,
        bounds=fit.bounds,
        shape=private.private_shape,
        ledger=private.ledger,
        **_leave_out_defaults(settings),
    )
    return PrivateRun(
        reading=reading.reading(file, duplicates=fit.duplicates, missing=fit.missing, unlisted=open_only.unlisted),
        estimator=estimator,
        output=writing.output,
        filling=_filling(fit, writing, reading),
        diagnostics=private.diagnostics,
        report=not writing.no_report,
        engine=engines.engine,
        checkpoint=engines.checkpoint,
        trust_network=bool(engines.trust_network),
    )


def _open_run(
    file: str,
    fit: FitOptions,
    writing: WritingOptions,
    open_only: OpenOptions,
    reading: ReadingOptions,
    engines: EngineOptions,
) -> OpenRun:
    from tensorveil.runs.complete import OpenRun
    from tensorveil.runs.estimators import OPEN
    from tensorveil.runs.reading import read_tables

    settings = {
        "rank": fit.rank,
        "solver": open_only.solver,
        "baseline": open_only.baseline,
        "sweeps": fit.sweeps,
        "regularization": open_only.regularization,
        "loss": open_only.loss,
        "nonnegative": open_only.nonnegative or None,
        "unlisted_weight": open_only.unlisted_weight,
        "same": open_only.same,
        "smooth": open_only.smooth,
        "side": None if open_only.side is None else read_tables(open_only.side),
        "implicit": open_only.implicit,
        "keep": open_only.keep,
        "restarts": fit.restarts,
        "threads": fit.threads,
        "validation_fraction": open_only.validation,
        "random_state": 0 if open_only.seed is None else open_only.seed,
    }
    policies = {"bounds": fit.bounds, "out_of_bounds": open_only.out_of_bounds, "unlisted": open_only.unlisted}
    return OpenRun(
        reading=reading.reading(file, duplicates=fit.duplicates, missing=fit.missing, **policies),
        estimator=OPEN[fit.model](**_leave_out_defaults(settings)),
        output=writing.output,
        filling=_filling(fit, writing, reading),
        report=not writing.no_report,
        force=open_only.force,
        engine=engines.engine,
        trust_network=bool(engines.trust_network),
    )


def _filling(fit: FitOptions, writing: WritingOptions, reading: ReadingOptions) -> Filling | None:
    from tensorveil.runs.cells import Filling

    if writing.no_fill:
        return None
    return Filling(
        at=writing.at,
        format=writing.filled_format,
        value_name=reading.value,
        max_cells=writing.max_cells,
        threads=fit.threads,
        interval=writing.interval,
        safe_csv=writing.safe_csv,
    )


def _leave_out_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Leave what was not asked for to the estimator."""
    return {name: setting for name, setting in settings.items() if setting is not None}


def _show_result(completed: Completed) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape

    out, summary = console(), completed.summary
    table = Table(show_header=False)
    shape = " x ".join(f"{size:,}" for size in summary.shape)
    table.add_row("data", f"{shape}, {summary.entries:,} entries ({summary.density:.3%} observed)")
    table.add_row("model", f"{summary.model}, rank {_rank(summary.rank)}, {summary.parameters:,} parameters")
    ending = "converged" if summary.converged else "not converged: more --sweeps may give a better model"
    table.add_row("fit", f"{summary.seconds:.2f} s, {len(summary.history)} sweeps, {ending}")
    table.add_row("RMSE on the entries", f"{summary.train_rmse:.5g}")
    if summary.measure != "RMSE":
        table.add_row(f"{summary.measure} of the fit", f"{summary.train_error:.5g}")
    if summary.validation_error is not None:
        table.add_row(f"{summary.measure} on the held-out part", f"{summary.validation_error:.5g}")
    if summary.filled is not None:
        table.add_row("filled", f"{summary.filled:,} cells")
    out.print(table)
    files = ", ".join(str(completed.output / name) for name in summary.files)
    out.print(f"written: {escape(files)}", soft_wrap=True)


def _show_release(released: Released) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape

    out = console()
    out.print(f"[bold]{escape(released.guarantee.sentence())}[/bold]")
    chosen = "chosen by auto" if released.method_chosen_by == "planner" else "as asked"
    table = Table(show_header=False)
    table.add_row("method", f"{released.plan.method}: {released.guarantee.mechanism}, {chosen}")
    table.add_row("model", f"{released.model}, rank {_rank(released.rank)}")
    table.add_row("shape", " x ".join(f"{size:,}" for size in released.shape))
    measured = "released" if released.guarantee.unit.kind == "slice" else "measured"
    for note in released.notes:
        table.add_row(measured, escape(note))
    if released.estimated_rmse is not None:
        table.add_row("error", f"RMSE about {released.estimated_rmse:.3g}, from a noisy histogram of its residuals")
    if released.plan.guess is not None:
        table.add_row("", f"before anything was spent: a guess of {released.plan.guess:.3g}")
    if released.filled is not None:
        table.add_row("filled", f"{released.filled:,} cells")
    if released.ledger is not None:
        table.add_row("ledger", f"{escape(released.ledger)}, release {released.release_id}")
    out.print(table)
    place = escape(str(released.output))
    out.print(f"release, may be published: {place} ({', '.join(released.files)})", soft_wrap=True)
    if released.diagnostics is not None:
        out.print(f"diagnostics, do NOT publish: {escape(str(released.diagnostics))}", soft_wrap=True)


def _rank(rank: Any) -> str:
    return str(list(rank)) if isinstance(rank, tuple) else str(rank)
