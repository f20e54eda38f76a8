"""The release: a folder that holds only what may leave. Shell, Python and federation write it by `write_release`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from tensorveil.errors import InputError, NotFittedError
from tensorveil.mechanisms.planner import Plan
from tensorveil.models import CPModel, TuckerModel, load_model
from tensorveil.privacy import Guarantee, LedgerError
from tensorveil.release.card import make_card
from tensorveil.release.fill import Fill, write_fill
from tensorveil.release.folder import write_folder
from tensorveil.release.names import CARD, GUARANTEE, MODEL, NOT_PRIVATE, REPORT
from tensorveil.report.release_page import save_release_page
from tensorveil.rounds import SharedModel

__all__ = ["FittedModel", "Releasable", "check_releasable", "load_release", "write_release"]

FittedModel = CPModel | TuckerModel | SharedModel


class Releasable(Protocol):
    """What can be released: a fitted private estimator, or the outcome of a federated run."""

    @property
    def model_(self) -> Any:
        """The model, as its mechanism left it."""

    @property
    def guarantee_(self) -> Guarantee:
        """What the model promises."""

    @property
    def plan_(self) -> Plan | None:
        """What the planner chose, with the public facts that it chose from; None if nothing was planned."""

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""


def write_release(
    fitted: Releasable,
    folder: str | os.PathLike[str],
    *,
    fill: Fill | None = None,
    report: bool = True,
    allow_not_private: bool = False,
) -> Path:
    """Write the model, its guarantee, a model card and a report into a new folder; then tell the ledger.

    Parameters
    ----------
    fitted
        A fitted `PrivateCP`, `PrivateTucker` or `PrivateLowRankMatrix`, or the outcome of a federated run.
    folder
        The folder to make. It appears whole or not at all, and nothing is ever overwritten.
    fill
        Cells to predict and to write beside the model.
    report
        Whether to write ``report.html``.
    allow_not_private
        Write even what is not private (seeded noise); then the card and every file name say so.

    Guarantee: the estimator's, for the whole folder: all files are functions of the model and of public facts
    (docs/guarantees.md#post-processing).

    Examples
    --------
    >>> import tempfile, tensorveil as tv
    >>> data = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> private = tv.PrivateCP(2, epsilon=5.0, delta=0.0, unit="value", bounds=(-1, 2)).fit(data)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = tv.write_release(private, place + "/release")
    ...     sorted(path.name for path in folder.iterdir())
    ['MODEL_CARD.md', 'guarantee.json', 'model.npz', 'report.html']
    """
    model, guarantee = check_releasable(fitted)
    if not guarantee.private and not allow_not_private:
        raise InputError(
            "the guarantee is not private (seeded noise, or not proven), so nothing was written. "
            "Fit with secure noise (noise_seed=None); for a study, try allow_not_private=True."
        )
    prefix = "" if guarantee.private else NOT_PRIVATE
    names = [MODEL, GUARANTEE, *([] if fill is None else [fill.name]), *([REPORT] if report else [])]
    target = Path(folder)
    with write_folder(target) as staging:
        model.save(staging / f"{prefix}{MODEL}")
        if fill is not None:
            write_fill(staging / f"{prefix}{fill.name}", model, fill)
        if report:
            save_release_page(staging / f"{prefix}{REPORT}", model, guarantee, fitted.plan_)
        text = json.dumps(guarantee.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        (staging / f"{prefix}{GUARANTEE}").write_text(text + "\n", encoding="utf-8")
        card = make_card(model, guarantee, [f"{prefix}{name}" for name in names])
        (staging / f"{prefix}{CARD}").write_text(card, encoding="utf-8")
    if guarantee.private:
        _confirm(fitted, target)
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


def check_releasable(fitted: Releasable) -> tuple[FittedModel, Guarantee]:
    """Return model and guarantee, after checking that the guarantee speaks of this model."""
    if not hasattr(fitted, "confirm"):
        raise InputError("estimator must be a private one, which has a guarantee. Try PrivateCP or PrivateTucker.")
    if not hasattr(fitted, "guarantee_"):
        raise NotFittedError("estimator must be fitted first. Try .fit(tensor).")
    model, guarantee = fitted.model_, fitted.guarantee_
    # Rows that were folded in are computed from data without noise, and no guarantee speaks of them.
    if getattr(fitted, "private_model_", model) is not model:
        raise InputError("the model is no longer the one that was fitted (fold_in?), so its guarantee does not hold.")
    if model.bounds != guarantee.bounds:
        raise InputError("the model and the guarantee have different bounds. Fit anew.")
    if guarantee.unit.kind != "value" and any(mode.labels is not None for mode in model.modes):
        raise InputError(f"a model for unit {str(guarantee.unit)!r} must have no labels: they tell who is in the data.")
    return model, guarantee


def _confirm(fitted: Releasable, target: Path) -> None:
    try:
        fitted.confirm()
    except LedgerError as error:
        raise LedgerError(f"the release stands at {target}, but the ledger could not note it: {error}") from error
