"""The release: a folder that holds only what may leave. What else was computed from the data goes to another folder."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, NotFittedError
from tensorveil.models import CPModel, TuckerModel, load_model
from tensorveil.privacy import Guarantee, LedgerError
from tensorveil.release.card import model_card
from tensorveil.rounds import SharedModel
from tensorveil.tensor import ObservedTensor

__all__ = ["check_diagnostics_folder", "check_new_folder", "load_release", "write_diagnostics", "write_release"]

MODEL, GUARANTEE, CARD = "model.npz", "guarantee.json", "MODEL_CARD.md"
NOT_PRIVATE = "NOT-PRIVATE-"  # begins every file name of a release that protects nothing
DO_NOT_PUBLISH = "DO_NOT_PUBLISH.txt"
BINS = 20

FittedModel = CPModel | TuckerModel | SharedModel
# Writes one more file of the release. It is given the model, because all that it writes must follow from the model.
Writer = Callable[[Path, FittedModel], None]


class Releasable(Protocol):
    """A fitted private estimator: `PrivateCP`, `PrivateTucker`."""

    @property
    def model_(self) -> Any:
        """The model, as its mechanism left it."""

    @property
    def guarantee_(self) -> Guarantee:
        """What the model promises."""

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""


def write_release(
    estimator: Releasable,
    folder: str | os.PathLike[str],
    *,
    also: Mapping[str, Writer] | None = None,
    allow_not_private: bool = False,
) -> Path:
    """Write the model, its guarantee and a model card into a new folder; then tell the ledger.

    Parameters
    ----------
    estimator
        A fitted `PrivateCP` or `PrivateTucker`.
    folder
        The folder to make. It appears whole or not at all, and nothing is ever overwritten.
    also
        Further files by name, each with a function ``write(path, model)``: post-processing of the model, such as
        predictions at public cells. What they write must not depend on the data in any other way.
    allow_not_private
        Write even what is not private (seeded noise); then the card and every file name say so.

    Guarantee: the estimator's, for the whole folder: all files are functions of the model and of public facts
    (docs/guarantees.md#post-processing).
    """
    model, guarantee = _releasable(estimator)
    if not guarantee.private and not allow_not_private:
        raise InputError(
            "the guarantee is not private (seeded noise, or not proven), so nothing was written. "
            "Fit with secure noise (noise_seed=None); for a study, try allow_not_private=True."
        )
    prefix = "" if guarantee.private else NOT_PRIVATE
    extra = _checked_names(also or {})
    target = Path(folder)
    with new_folder(target) as staging:
        model.save(staging / f"{prefix}{MODEL}")
        for name, write in extra.items():
            write(staging / f"{prefix}{name}", model)
        text = json.dumps(guarantee.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        (staging / f"{prefix}{GUARANTEE}").write_text(text + "\n", encoding="utf-8")
        files = [f"{prefix}{name}" for name in (MODEL, GUARANTEE, *extra)]
        (staging / f"{prefix}{CARD}").write_text(model_card(model, guarantee, files), encoding="utf-8")
    if guarantee.private:
        _confirm(estimator, target)
    return target


def load_release(folder: str | os.PathLike[str]) -> tuple[FittedModel, Guarantee]:
    """Read the model and its guarantee from a release folder."""
    place = Path(folder)
    prefix = NOT_PRIVATE if (place / f"{NOT_PRIVATE}{GUARANTEE}").is_file() else ""
    path = place / f"{prefix}{GUARANTEE}"
    if not path.is_file():
        raise InputError(f"folder must be a release; {place} holds no {GUARANTEE}. Write one with write_release.")
    try:
        guarantee = Guarantee.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text, so it was not written by this program.") from None
    if guarantee.private == bool(prefix):
        raise InputError(f"{path} contradicts its name on whether it is private. The release was tampered with.")
    path = place / f"{prefix}{MODEL}"
    return SharedModel.load(path) if guarantee.unit.kind == "slice" else load_model(path), guarantee


def write_diagnostics(
    folder: str | os.PathLike[str],
    estimator: Any,
    tensor: ObservedTensor,
    *,
    held_out: ObservedTensor | None = None,
    more: Mapping[str, Any] | None = None,
    also: Mapping[str, Callable[[Path], None]] | None = None,
) -> Path:
    """Write what the data's owner may want to see and nobody else may: errors of the fit, the values' distribution.

    Nothing in it is protected. ``more`` is plain data to add, ``also`` further files by name. The folder must be new
    and lie outside of releases.
    """
    _, guarantee = _releasable(estimator)
    assert guarantee.bounds is not None  # private fits declare them
    low, high = guarantee.bounds
    values = np.asarray(tensor.values, dtype=np.float64)
    counts, edges = np.histogram(np.clip(values, low, high), bins=BINS, range=(low, high))
    facts: dict[str, Any] = {
        "warning": "computed from private data without protection: do not publish",
        "entries": tensor.n_entries,
        "values": _summary(values),
        "outside_bounds": int(np.count_nonzero((values < low) | (values > high))),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "train_rmse": _error(estimator, tensor, tensor),
        "held_out_rmse": None if held_out is None else _error(estimator, tensor, held_out),
        **(more or {}),
    }
    target = Path(folder)
    check_diagnostics_folder(target)
    with new_folder(target) as staging:
        mark_do_not_publish(staging)
        (staging / "diagnostics.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        for name, write in (also or {}).items():
            write(staging / name)
    return target


def _error(estimator: Any, entries: ObservedTensor, tensor: ObservedTensor) -> float:
    """Return the error on a tensor; in unit slice everybody is served from their own entries."""
    if isinstance(estimator.model_, SharedModel):
        return float(estimator.rmse_for(entries, tensor))
    return float(estimator.rmse(tensor))


def _summary(values: NDArray[Any]) -> dict[str, float] | None:
    if not len(values):
        return None
    return {"lowest": float(values.min()), "highest": float(values.max()), "mean": float(values.mean())}


def mark_do_not_publish(folder: Path) -> None:
    """Put the file into a folder that says what the folder is."""
    text = (
        "Everything in this folder was computed from private data without protection.\n"
        "It is for the owner of the data alone. Publishing any of it, even one number, voids the guarantee of the\n"
        "release that it belongs to. So does choosing between releases by what stands here.\n"
    )
    (folder / DO_NOT_PUBLISH).write_text(text, encoding="utf-8")


def check_new_folder(target: Path) -> None:
    """Refuse a target that exists (an empty folder may), or that has no place to stand."""
    if not target.parent.is_dir():
        raise InputError(f"folder: {target.parent} does not exist. Make it first.")
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"folder: {target} already exists, and releases are never overwritten. Choose another name.")


def check_diagnostics_folder(target: Path) -> None:
    """Refuse a folder that is not new, or that lies inside a release."""
    check_new_folder(target)
    place = Path(os.path.abspath(target))  # noqa: PTH100 - as above
    for parent in (place, *place.parents):
        if any((parent / f"{prefix}{GUARANTEE}").exists() for prefix in ("", NOT_PRIVATE)):
            raise InputError("folder: diagnostics must not lie inside a release, which will be published. Move it.")


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a folder to write into, which becomes ``target``, on the disk, if nothing fails."""
    target = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow links
    check_new_folder(target)
    # Beside the target: only within one file system is a rename atomic.
    staging = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    staging.mkdir()
    try:
        yield staging
        for path in (*staging.iterdir(), staging):
            _to_disk(path)
        check_new_folder(target)
        staging.rename(target)  # fails if another process has put files there meanwhile
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _to_disk(target.parent)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _releasable(estimator: Releasable) -> tuple[FittedModel, Guarantee]:
    """Take model and guarantee, and check that the one is what the other speaks of."""
    if not hasattr(estimator, "confirm"):
        raise InputError("estimator must be a private one, which has a guarantee. Try PrivateCP or PrivateTucker.")
    if not hasattr(estimator, "guarantee_"):
        raise NotFittedError("estimator must be fitted first. Try .fit(tensor).")
    model, guarantee = estimator.model_, estimator.guarantee_
    # Rows that were folded in are computed from data without noise, and no guarantee speaks of them.
    if getattr(estimator, "private_model_", model) is not model:
        raise InputError("the model is no longer the one that was fitted (fold_in?), so its guarantee does not hold.")
    if model.bounds != guarantee.bounds:
        raise InputError("the model and the guarantee have different bounds. Fit anew.")
    if guarantee.unit.kind != "value" and any(mode.labels is not None for mode in model.modes):
        raise InputError(f"a model for unit {str(guarantee.unit)!r} must have no labels: they tell who is in the data.")
    return model, guarantee


def _checked_names(also: Mapping[str, Writer]) -> Mapping[str, Writer]:
    for name in also:
        if not name or Path(name).name != name or name in (MODEL, GUARANTEE, CARD, DO_NOT_PUBLISH):
            raise InputError(f"also: {name!r} must be a plain file name that the release does not use itself.")
    return also


def _confirm(estimator: Releasable, target: Path) -> None:
    try:
        estimator.confirm()
    except LedgerError as error:
        raise LedgerError(f"the release stands at {target}, but the ledger could not note it: {error}") from error
