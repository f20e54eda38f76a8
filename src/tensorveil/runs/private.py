"""A private completion: charge, fit, release. Nothing that is computed from values without noise is ever told."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensorveil import __version__
from tensorveil.completion.central import CentralCompletion
from tensorveil.completion.charging import tell_charges
from tensorveil.completion.private import PrivateCompletion
from tensorveil.completion.rounds_fit import RoundsCompletion
from tensorveil.errors import STANDS, GuessWarning, InputError, LeftOutWarning, LowerRankWarning, note_errors
from tensorveil.mechanisms.planner import Plan
from tensorveil.privacy import Guarantee, Unit
from tensorveil.release.diagnostics import check_diagnostics_folder, fill_diagnostics
from tensorveil.release.fill import Fill
from tensorveil.release.folder import check_folder, find_leftovers, write_folder
from tensorveil.release.names import CARD, GUARANTEE, MODEL, REPORT
from tensorveil.release.release import fill_release, note_release
from tensorveil.release.result import make_plain
from tensorveil.runs.cells import Filling, choose_cells
from tensorveil.runs.estimators import name_estimator
from tensorveil.runs.reading import Reading, read_privately
from tensorveil.tensor.stored import StoredTensor, is_store

__all__ = ["STEPS", "PrivateRun", "Released", "release_privately"]

# The ledger is charged when fitting begins.
STEPS: Final = ("reading", "fitting", "writing")


@dataclass(frozen=True, kw_only=True)
class PrivateRun:
    """What a private completion is to do.

    Parameters
    ----------
    reading
        The data. Bounds are the estimator's: a reader that is given them would tell whether values lie outside.
    estimator
        The private estimator to fit, with its budget, unit, bounds and ledger.
    output
        The release folder to make.
    filling
        The cells to predict; None writes the model alone. In unit slice there are none: predictions for a person are
        not part of a release.
    diagnostics
        Another folder, for what must not be published.
    report
        Whether to write ``report.html``, and the owner's report among the diagnostics.
    engine, checkpoint, trust_network
        Where a store is worked on, and where its rounds are kept; as for `UserLevelCP.fit`.
    """

    reading: Reading
    estimator: PrivateCompletion[Any]
    output: Path
    filling: Filling | None = None
    diagnostics: Path | None = None
    report: bool = True
    engine: Any = None
    checkpoint: Path | None = None
    trust_network: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """What a private completion left, all of it public; ``leftovers`` are hidden folders of runs that were killed."""

    file: str
    output: Path
    files: tuple[str, ...]
    model: str
    rank: Any
    modes: tuple[str, ...]
    shape: tuple[int, ...]
    plan: Plan
    method_chosen_by: str
    notes: tuple[str, ...]
    estimated_rmse: float | None
    filled: int | None
    guarantee: Guarantee
    ledger: str | None
    release_id: str
    diagnostics: Path | None
    leftovers: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {
            "tensorveil": __version__,
            "file": self.file,
            "output": str(self.output),
            "files": list(self.files),
            "model": self.model,
            "rank": make_plain(self.rank),
            "modes": list(self.modes),
            "shape": list(self.shape),
            "method": self.plan.method,
            "method_chosen_by": self.method_chosen_by,
            "notes": list(self.notes),
            "estimated_rmse": self.estimated_rmse,
            "guessed_rmse": self.plan.guess,
            "expected": [{"method": each.method, "rmse": each.rmse} for each in self.plan.predictions],
            "filled": self.filled,
            "guarantee": self.guarantee.to_json(),
            "ledger": self.ledger,
            "release_id": self.release_id,
            "diagnostics": None if self.diagnostics is None else str(self.diagnostics),
        }


def release_privately(
    run: PrivateRun,
    *,
    tell: Callable[[str], None] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Released:
    """Check, read, fit (which charges the ledger first), release.

    ``tell`` is called with the step that begins, one of `STEPS`; ``progress`` during a fit with what is counted, such
    as "rounds" or "sweeps for components", how many are done, and how many there are at most. Both say how far a run
    has come, and of its data nothing but what follows from what was measured under noise.

    Whatever can fail is tried before the charge, which is never given back: both folders are reserved, the data are
    read, the cells chosen. An error after it carries a note that begins with `tensorveil.errors.CHARGED`.
    Warnings are kept quiet where they may follow what is protected.

    Guarantee: the estimator's, for the release (docs/guarantees.md#post-processing).
    """
    estimator, step = run.estimator, tell or (lambda _: None)
    unit = Unit.parse(estimator.unit)
    _check_folders(run.output, run.diagnostics)
    filling = None if unit.kind == "slice" else run.filling
    if filling is not None and filling.at is not None and unit.kind != "value":
        raise InputError(
            "at=FILE is not for this unit: the list of cells would be published, and which cells are of interest may "
            "tell which entries there are. Release the model, and predict at these cells from it."
        )
    leftovers = find_leftovers(run.output)
    charged, stands = None, None
    with (
        tell_charges(estimator.ledger, lambda: charged),
        note_errors(lambda: stands),
        warnings.catch_warnings(),
        contextlib.ExitStack() as places,
    ):
        warnings.simplefilter("ignore")
        # What follows from public facts alone; in unit value these are the positions of all rows, too.
        for known in (GuessWarning, LowerRankWarning, *([LeftOutWarning] if unit.kind == "value" else [])):
            warnings.simplefilter("always", known)
        # Both folders are there, and nobody else's, before anything is charged.
        aside = None
        if run.diagnostics is not None:
            aside = places.enter_context(write_folder(run.diagnostics, private=True))
        with write_folder(run.output) as staging:
            step("reading")
            stored = _find_store(run)
            if stored is None:
                tensor = read_privately(run.reading, unit, estimator.bounds, estimator.shape, group_owners=True)
                fill = choose_cells(filling, tensor, private=unit, bins=run.reading.bins)
                step("fitting")
                charged = estimator.fit(tensor, **_follow(estimator, progress)).release_id_
            else:
                fill = None
                step("fitting")
                at: dict[str, Any] = {"engine": run.engine, "trust_network": run.trust_network}
                if isinstance(estimator, RoundsCompletion):
                    at["checkpoint"] = run.checkpoint
                charged = estimator.fit(stored, **at, **_follow(estimator, progress)).release_id_
            step("writing")
            fill_release(staging, estimator, fill=fill, report=run.report)
        stands = f"{STANDS} {run.output}."
        note_release(estimator, run.output)
        if aside is not None:
            fill_diagnostics(aside, estimator, tensor, report=run.report)
    return _gather_facts(run, fill, leftovers)


def _find_store(run: PrivateRun) -> StoredTensor | None:
    """Return the store that is to be fitted, if it is one, and if it can be."""
    if not is_store(run.reading.file):
        if run.engine is not None or run.checkpoint is not None:
            raise InputError("engine and checkpoint are for stores: `tensorveil store` makes one from files.")
        return None
    kind = Unit.parse(run.estimator.unit).kind
    if kind != "slice" and run.checkpoint is not None:
        raise InputError(
            "checkpoint: it keeps the rounds of fits for whole users. Any other fit that dies is paid for "
            "again. Leave it out."
        )
    if kind != "slice" and run.filling is not None:
        raise InputError(
            "a store's cells are too many to fill. Release the model alone with filling=None, and predict from it."
        )
    if run.diagnostics is not None:
        raise InputError(
            "diagnostics are computed from all entries at once, which a store keeps on disk. Leave them out, or give "
            "the files themselves, if they fit into memory."
        )
    stored = StoredTensor.open(run.reading.file)
    return stored if run.reading.unlisted is None else stored.with_unlisted(run.reading.unlisted)


def _check_folders(output: Path, diagnostics: Path | None) -> None:
    check_folder(output)
    if diagnostics is None:
        return
    check_diagnostics_folder(diagnostics)
    first, second = (Path(os.path.abspath(path)) for path in (output, diagnostics))  # noqa: PTH100 - links stay
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise InputError("diagnostics and output must be folders apart: only one of them may be published.")


def _follow(estimator: Any, progress: Callable[[str, int, int], None] | None) -> dict[str, Any]:
    """Return how a fit is followed, if it can be."""
    if progress is None or not isinstance(estimator, RoundsCompletion | CentralCompletion):
        return {}
    if isinstance(estimator, CentralCompletion):
        return {"progress": progress}
    return {"progress": lambda done, total: progress("rounds", done, total)}


def _gather_facts(run: PrivateRun, fill: Fill | None, leftovers: tuple[Path, ...]) -> Released:
    estimator = run.estimator
    model: Any = estimator.model_
    names = [MODEL, GUARANTEE, CARD, *([] if fill is None else [fill.name]), *([REPORT] if run.report else [])]
    ledger = estimator.ledger
    return Released(
        file=os.fspath(run.reading.file),
        output=run.output,
        files=tuple(sorted(names)),
        model=name_estimator(estimator),
        rank=model.rank,
        modes=tuple(mode.name for mode in model.modes),
        shape=tuple(model.shape),
        plan=estimator.plan_,
        method_chosen_by="planner" if estimator.method == "auto" else "user",
        notes=estimator.notes_,
        estimated_rmse=getattr(estimator, "estimated_rmse_", None),  # whole users have none
        filled=None if fill is None else len(fill.coords),
        guarantee=estimator.guarantee_,
        ledger=None if ledger is None else str(getattr(ledger, "path", ledger)),
        release_id=estimator.release_id_,
        diagnostics=run.diagnostics,
        leftovers=leftovers,
    )
