"""An open completion: read, fit, fill, write everything or nothing. Nothing is protected."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.completion.estimator import Completion
from tensorveil.errors import InputError
from tensorveil.release.folder import find_leftovers
from tensorveil.release.result import Summary, check_result_folder, summarise_fit, write_result
from tensorveil.runs.cells import Filling, choose_cells
from tensorveil.runs.estimators import name_estimator
from tensorveil.runs.oddities import find_oddities
from tensorveil.runs.reading import Reading, read_tensor
from tensorveil.solvers.task import Progress
from tensorveil.tensor.stored import StoredTensor, is_store

__all__ = ["Completed", "OpenRun", "complete_openly"]


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """What an open completion is to do.

    Parameters
    ----------
    reading
        The data.
    estimator
        The estimator to fit: `CP`, `Tucker` or `LowRankMatrix`.
    output
        The folder to make.
    filling
        The cells to predict; None writes the model alone.
    report
        Whether to write ``report.html``.
    force
        Whether an earlier result in the folder may be replaced.
    engine, trust_network
        Where a store is worked on; as for `CP.fit`.
    """

    reading: Reading
    estimator: Completion[Any]
    output: Path
    filling: Filling | None = None
    report: bool = True
    force: bool = False
    engine: Any = None
    trust_network: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Completed:
    """What an open completion left: the folder, and what its summary says; ``leftovers`` are of killed runs.

    ``notes`` are what looks like a mistake in the data."""

    output: Path
    summary: Summary
    leftovers: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def complete_openly(run: OpenRun, *, progress: Progress | None = None) -> Completed:
    """Read, fit, fill and write; ``progress`` is called with a `Record` after every sweep of the fit."""
    check_result_folder(run.output, force=run.force)  # before the work rather than after it
    leftovers = find_leftovers(run.output)
    tensor: Any = _open_store(run) if is_store(run.reading.file) else read_tensor(run.reading)
    fill = choose_cells(run.filling, tensor, bins=run.reading.bins)
    started = time.perf_counter()
    places = {} if run.engine is None else {"engine": run.engine, "trust_network": run.trust_network}
    fitted = run.estimator.fit(tensor, progress=progress, **places)
    summary = summarise_fit(
        fitted, tensor, file=os.fspath(run.reading.file), model=name_estimator(fitted),
        seconds=time.perf_counter() - started, fill=fill, report=run.report,
    )  # fmt: skip
    write_result(run.output, fitted.model_, tensor, summary, fill=fill, report=run.report, force=run.force)
    notes = () if isinstance(tensor, StoredTensor) else find_oddities(tensor)
    return Completed(output=run.output, summary=summary, leftovers=leftovers, notes=notes)


def _open_store(run: OpenRun) -> StoredTensor:
    """Return the store that is to be fitted, if what is asked for can be made of one."""
    if run.report:
        raise InputError("report: it shows all entries, which a store keeps on disk. Leave it out: report=False.")
    if run.filling is not None and (run.filling.at is None or run.filling.format == "png"):
        raise InputError(
            "a store's missing cells are too many to fill. Name those that you want with at=FILE, or write the model "
            "alone with filling=None."
        )
    return StoredTensor.open(run.reading.file)
