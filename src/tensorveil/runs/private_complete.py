"""The work behind `tensorveil complete --epsilon`: charge, fit, release. Nothing computed from values is ever shown."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.cli.common import State, console, print_json
from tensorveil.cli.private import check_private_options, unit_kind
from tensorveil.errors import InputError, TensorveilError
from tensorveil.models.evaluate import predict_columns
from tensorveil.privacy import Ledger
from tensorveil.release.names import OWNER_REPORT, REPORT
from tensorveil.release.release import (
    CARD,
    GUARANTEE,
    MODEL,
    FittedModel,
    Writer,
    check_diagnostics_folder,
    check_new_folder,
    write_diagnostics,
    write_release,
)
from tensorveil.rounds import SharedModel
from tensorveil.runs.cells import cells_table, read_cells, write_cells
from tensorveil.runs.complete import missing_cells, plain
from tensorveil.runs.reading import read_tensor
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.files.formats import pick_format
from tensorveil.tensor.files.images import check_picture, write_image

READING = ("modes", "value", "file_format", "indices", "no_header", "variable", "duplicates", "missing")
DEFAULT_RANK: dict[str, int | str] = {"cp": 8, "tucker": 4, "matrix": "auto"}
# Numbering the labels that occur would make every index depend on which entries there are.
NEEDS_INDICES = (
    "this --unit needs indices: labels that are read off the data tell who is in them. "
    "Number the rows by a public list, from 0, and add --indices."
)
NO_LEDGER = (
    "No --ledger: nothing keeps count of what was spent on these data, and every further release adds to it. "
    "Start one with: tensorveil budget create data.ledger --epsilon E --delta D --unit U --name NAME"
)


def complete_privately(options: dict[str, Any], *, as_json: bool) -> None:
    """Run a private completion and say what was promised."""
    check_private_options(options)
    state = click.get_current_context().obj
    if isinstance(state, State):
        state.private = True
    facts = run_private(options)
    if as_json:
        print_json(facts)
    else:
        _show(facts)
    if facts["ledger"] is None:
        click.echo(NO_LEDGER, err=True)


def run_private(options: dict[str, Any]) -> dict[str, Any]:
    """Check, read, fit (which charges first), write; give the public facts."""
    # Whatever can fail is tried before the charge, which is never given back.
    _check_folders(options["output"], options["diagnostics"])
    tensor = _read(options)
    cells = _cells(options, tensor)
    estimator = _estimator(options)
    with _said_what_was_charged(estimator):
        estimator.fit(tensor)
        also = _filled(options, cells) | _report(options, estimator, tensor)
        write_release(estimator, options["output"], also=also)
        if options["diagnostics"] is not None:
            write_diagnostics(options["diagnostics"], estimator, tensor, also=_owner_report(options, estimator, tensor))
    return _facts(options, estimator, cells)


def _check_folders(output: Path, diagnostics: Path | None) -> None:
    check_new_folder(output)
    if diagnostics is None:
        return
    check_diagnostics_folder(diagnostics)
    first, second = (Path(os.path.abspath(path)) for path in (output, diagnostics))  # noqa: PTH100 - links stay
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise InputError("--diagnostics and --output must be folders apart: only one of them may be published.")


def _read(options: dict[str, Any]) -> ObservedTensor:
    """Read the tensor. Bounds are not given to the reader, which would say if values lie outside."""
    kind = pick_format(Path(options["file"]), options["file_format"])
    if unit_kind(options) != "value" and kind.is_table and not options["indices"]:
        raise InputError(NEEDS_INDICES)
    reading = {name: options[name] for name in READING}
    tensor = read_tensor(options["file"], **reading, shape=options["private_shape"])
    if unit_kind(options) != "value" and any(mode.labels is not None for mode in tensor.modes):
        raise InputError(NEEDS_INDICES)
    return tensor


def _cells(options: dict[str, Any], tensor: ObservedTensor) -> NDArray[np.int32] | None:
    """Choose the cells to predict; in unit entry never by what is missing, which tells what was observed.

    In unit slice there are none: a person's predictions are no part of a release.
    """
    if options["no_fill"] or unit_kind(options) == "slice":
        return None
    if options["filled_format"] == "png":
        check_picture(tensor.shape)
    if options["at"] is not None:
        return read_cells(options["at"], tensor.modes, tensor.shape)
    if math.prod(tensor.shape) > options["max_cells"]:
        raise InputError(
            "the tensor has more cells than --max-cells. Name the cells you want with --at FILE, "
            "raise --max-cells, or write the model alone with --no-fill."
        )
    if options["unit"] == "value":
        return missing_cells(tensor)
    return np.indices(tensor.shape, dtype=np.int32).reshape(tensor.order, -1)


def _filled(options: dict[str, Any], cells: NDArray[np.int32] | None) -> dict[str, Writer]:
    if cells is None:
        return {}

    def write(path: Path, model: FittedModel) -> None:
        assert not isinstance(model, SharedModel)  # which has no cells to fill
        if path.suffix == ".png":
            # All of it predicted: pixels as they were observed are private.
            write_image(model.dense(), path)
            return
        values = predict_columns(model, cells, threads=options["threads"])
        write_cells(path, cells_table(cells, values, model.modes, options["value"] or "value"))

    return {f"filled.{options['filled_format']}": write}


def _report(options: dict[str, Any], estimator: Any, tensor: ObservedTensor) -> dict[str, Writer]:
    """Give the writer of the report, which is told of the data nothing but, where that is public, their number."""
    if options["no_report"]:
        return {}
    from tensorveil.report.release_page import report_writer

    return {REPORT: report_writer(estimator, n_entries=tensor.n_entries if unit_kind(options) == "value" else None)}


def _owner_report(options: dict[str, Any], estimator: Any, tensor: ObservedTensor) -> dict[str, Callable[[Path], None]]:
    if options["no_report"]:
        return {}
    from tensorveil.report.owner_page import owner_page
    from tensorveil.report.page import save_page

    ledger = None if options["ledger"] is None else Ledger.open(options["ledger"])
    model = estimator.model_
    if isinstance(model, SharedModel):
        model = model.personalise(tensor)  # for the owner of all entries alone
    page = owner_page(model, estimator.guarantee_, tensor, ledger=ledger)
    return {OWNER_REPORT: lambda path: save_page(path, page)}


def _estimator(options: dict[str, Any]) -> Any:
    from tensorveil.completion import PrivateCP, PrivateLowRankMatrix, PrivateTucker

    kind: Any = {"cp": PrivateCP, "tucker": PrivateTucker, "matrix": PrivateLowRankMatrix}[options["model"]]
    # A solver is an option of matrices alone, which was checked.
    given = {name: options[name] for name in ("method", "solver", "purpose", "sweeps", "restarts", "threads")}
    return kind(
        options["rank"] or DEFAULT_RANK[options["model"]],
        epsilon=options["epsilon"],
        delta=options["delta"] or 0.0,
        unit=options["unit"],
        bounds=options["bounds"],
        shape=options["private_shape"],
        ledger=options["ledger"],
        **{name: setting for name, setting in given.items() if setting is not None},
    )


@contextlib.contextmanager
def _said_what_was_charged(estimator: Any) -> Iterator[None]:
    """Say, if a run fails after its charge, that the charge stays; and keep warnings, which follow the data, quiet."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BaseException:
        if _was_charged(estimator):
            click.echo("The ledger was charged for this run, and a charge is never taken back.", err=True)
        raise


def _was_charged(estimator: Any) -> bool:
    if estimator.ledger is None or not hasattr(estimator, "release_id_"):
        return False
    try:
        return any(entry.release_id == estimator.release_id_ for entry in Ledger.open(estimator.ledger).entries())
    except TensorveilError:
        return False


def _facts(options: dict[str, Any], estimator: Any, cells: NDArray[np.int32] | None) -> dict[str, Any]:
    """Give what --json says: options, public facts, the guarantee."""
    model, chosen = estimator.model_, estimator.plan_
    filled = [] if cells is None else [f"filled.{options['filled_format']}"]
    return {
        "tensorveil": __version__,
        "file": options["file"],
        "output": str(options["output"]),
        "files": sorted([MODEL, GUARANTEE, CARD, *filled, *([] if options["no_report"] else [REPORT])]),
        "model": options["model"],
        "rank": plain(model.rank),
        "modes": [mode.name for mode in model.modes],
        "shape": list(model.shape),
        "method": chosen.method,
        "method_chosen_by": "planner" if options["method"] in (None, "auto") else "user",
        "expected": [{"method": each.method, "rmse": each.rmse} for each in chosen.predictions],
        "filled": None if cells is None else int(cells.shape[1]),
        "guarantee": estimator.guarantee_.to_json(),
        "ledger": None if options["ledger"] is None else str(options["ledger"]),
        "release_id": estimator.release_id_,
        "diagnostics": None if options["diagnostics"] is None else str(options["diagnostics"]),
    }


def _show(facts: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out.print(f"[bold]{escape(facts['guarantee']['sentence'])}[/bold]")
    chosen = "chosen by the planner from public facts" if facts["method_chosen_by"] == "planner" else "as asked"
    table = Table(show_header=False)
    table.add_row("method", f"{facts['method']}: {facts['guarantee']['mechanism']}, {chosen}")
    table.add_row("model", f"{facts['model']}, rank {facts['rank']}")
    table.add_row("shape", " x ".join(f"{size:,}" for size in facts["shape"]))
    if facts["filled"] is not None:
        table.add_row("filled", f"{facts['filled']:,} cells")
    if facts["ledger"] is not None:
        table.add_row("ledger", f"{escape(facts['ledger'])}, release {facts['release_id']}")
    out.print(table)
    out.print(f"release, may be published: {escape(facts['output'])} ({', '.join(facts['files'])})", soft_wrap=True)
    if facts["diagnostics"] is not None:
        out.print(f"diagnostics, do NOT publish: {escape(facts['diagnostics'])}", soft_wrap=True)
