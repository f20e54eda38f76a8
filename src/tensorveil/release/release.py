"""The release: a folder that holds only what may leave. Shell, Python and federation write it by `write_release`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tensorveil.completion.charging import tell_charges
from tensorveil.completion.releasable import FittedModel, Releasable, check_pair, check_releasable
from tensorveil.errors import STANDS, InputError, note_errors
from tensorveil.memory import check_file_memory
from tensorveil.models import load_model
from tensorveil.privacy import Guarantee, LedgerError
from tensorveil.release.binding import bind_files, check_files
from tensorveil.release.card import make_card
from tensorveil.release.fill import Fill, write_fill
from tensorveil.release.folder import write_folder
from tensorveil.release.names import CARD, GUARANTEE, MODEL, NOT_PRIVATE, REPORT
from tensorveil.report.release_page import save_release_page
from tensorveil.rounds import SharedModel
from tensorveil.rounds.shared import is_shared

__all__ = ["fill_release", "load_release", "note_release", "write_release"]


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
        A fitted `PrivateCP`, `PrivateTucker` or `PrivateLowRankMatrix`, what `choose_privately` found, or the outcome
        of a federated run.
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
    fit: Any = getattr(fitted, "estimator_", fitted)
    name = getattr(fit, "release_id_", getattr(fit, "release_id", None))
    with tell_charges(getattr(fit, "ledger", None), lambda: name):
        with write_folder(folder) as staging:
            fill_release(staging, fitted, fill=fill, report=report, allow_not_private=allow_not_private)
        return note_release(fitted, Path(folder))


def fill_release(
    staging: Path,
    fitted: Releasable,
    *,
    fill: Fill | None = None,
    report: bool = True,
    allow_not_private: bool = False,
) -> None:
    """Write a release into a folder that `write_folder` has reserved, and read it back: what cannot be is refused."""
    model, guarantee = check_releasable(fitted)
    if not guarantee.private and not allow_not_private:
        raise InputError(
            "the guarantee is not private (seeded noise, or not proven), so nothing was written. "
            "Fit with secure noise (noise_seed=None); for a study, try allow_not_private=True."
        )
    prefix = "" if guarantee.private else NOT_PRIVATE
    names = [MODEL, GUARANTEE, *([] if fill is None else [fill.name]), *([REPORT] if report else [])]
    model.save(staging / f"{prefix}{MODEL}")
    if fill is not None:
        write_fill(staging / f"{prefix}{fill.name}", model, fill)
    if report:
        save_release_page(staging / f"{prefix}{REPORT}", fitted)
    card = make_card(fitted, [f"{prefix}{name}" for name in names])
    (staging / f"{prefix}{CARD}").write_text(card, encoding="utf-8")
    # Last, because it holds the digests of all the others.
    facts = bind_files(guarantee.to_json(), staging)
    text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
    (staging / f"{prefix}{GUARANTEE}").write_text(text + "\n", encoding="utf-8")
    load_release(staging)


def note_release(fitted: Releasable, target: Path) -> Path:
    """Tell the ledger, if there is one, that the release stands; return its place."""
    if not fitted.guarantee_.private:
        return target
    with note_errors(lambda: f"{STANDS} {target}."):
        try:
            fitted.confirm()
        except (LedgerError, InputError) as error:  # the file may be another ledger by now
            raise LedgerError(
                "the ledger could not note that the release was written. Nothing else is missing: if its charge is "
                "there, the ledger will go on to call it spent, release unknown; if not, the file was replaced or "
                "removed, and the charge must be made again in the ledger that counts."
            ) from error
    return target


def load_release(folder: str | os.PathLike[str]) -> tuple[FittedModel, Guarantee]:
    """Read the model and its guarantee from a release folder; a release that was changed is refused.

    The guarantee is proven again from what was spent, and every file must still be the one that it was written with.
    This finds accidents and files that were exchanged or edited one by one. It does not find a forger who rewrites the
    whole folder: a release says nothing about who made it.
    """
    place = Path(folder)
    prefix = NOT_PRIVATE if (place / f"{NOT_PRIVATE}{GUARANTEE}").is_file() else ""
    path = place / f"{prefix}{GUARANTEE}"
    if not path.is_file():
        raise InputError(f"folder must be a release; {place} holds no {GUARANTEE}. Write one with write_release.")
    try:
        check_file_memory(20 * path.stat().st_size)
        text = path.read_text(encoding="utf-8")
        guarantee = Guarantee.from_json(text)
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text, so it was not written by this program.") from None
    except InputError as error:
        raise InputError(f"{path} cannot be believed: {error}") from None
    if guarantee.private == bool(prefix):
        raise InputError(f"{path} contradicts its name on whether it is private. The release was tampered with.")
    check_files(json.loads(text), place, needed=f"{prefix}{MODEL}")
    path = place / f"{prefix}{MODEL}"
    model = SharedModel.load(path) if is_shared(path) else load_model(path)
    check_pair(model, guarantee)
    return model, guarantee
