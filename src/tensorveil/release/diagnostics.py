"""Diagnostics: what the owner of the data may see and nobody else, in a folder apart from the release."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.completion.releasable import check_releasable
from tensorveil.errors import InputError
from tensorveil.privacy import Ledger
from tensorveil.release.folder import check_folder, write_folder
from tensorveil.release.names import DIAGNOSTICS, DO_NOT_PUBLISH, GUARANTEE, NOT_PRIVATE, OWNER_REPORT
from tensorveil.report.owner_page import owner_page
from tensorveil.report.page import Page, save_page
from tensorveil.tensor import ObservedTensor

__all__ = ["check_diagnostics_folder", "fill_diagnostics", "write_diagnostics"]

BINS = 20
WARNING = (
    "Everything in this folder was computed from private data without protection.\n"
    "It is for the owner of the data alone. Publishing any of it, even one number, voids the guarantee of the\n"
    "release that it belongs to. So does choosing between releases by what is written here.\n"
)


def write_diagnostics(
    folder: str | os.PathLike[str],
    estimator: Any,
    tensor: ObservedTensor,
    *,
    held_out: ObservedTensor | None = None,
    more: Mapping[str, Any] | None = None,
    report: bool = True,
    page: Page | None = None,
) -> Path:
    """Write errors of the fit, the distribution of the values and the owner's report. None of it is protected.

    Parameters
    ----------
    folder
        The folder to make: new, and outside of any release. Only its owner can read it.
    estimator
        The fitted private estimator.
    tensor
        What it was fitted to.
    held_out
        Entries that it was not fitted to, to measure its error on.
    more
        Plain data to add to the numbers.
    report
        Whether to write the owner's report.
    page
        Another page to write in place of the usual one.
    """
    place = Path(folder)
    check_diagnostics_folder(place)
    with write_folder(place, private=True) as staging:
        fill_diagnostics(staging, estimator, tensor, held_out=held_out, more=more, report=report, page=page)
    return place


def fill_diagnostics(
    staging: Path,
    estimator: Any,
    tensor: ObservedTensor,
    *,
    held_out: ObservedTensor | None = None,
    more: Mapping[str, Any] | None = None,
    report: bool = True,
    page: Page | None = None,
) -> None:
    """Write diagnostics into a folder that `write_folder` has reserved; parameters as for `write_diagnostics`."""
    _, guarantee = check_releasable(estimator)
    assert guarantee.bounds is not None  # private fits declare them
    facts = {
        "warning": "computed from private data without protection: do not publish",
        **_describe_values(np.asarray(tensor.values, dtype=np.float64), guarantee.bounds),
        "train_rmse": _measure_error(estimator, tensor, tensor),
        "held_out_rmse": None if held_out is None else _measure_error(estimator, tensor, held_out),
        **(more or {}),
    }
    if report and page is None:
        page = _make_page(estimator, tensor, held_out)
    (staging / DO_NOT_PUBLISH).write_text(WARNING, encoding="utf-8")
    (staging / DIAGNOSTICS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    if report and page is not None:
        save_page(staging / OWNER_REPORT, page)


def check_diagnostics_folder(target: Path) -> None:
    """Refuse a folder that is not new, or that lies inside a release."""
    try:
        check_folder(target)
    except InputError as error:
        raise InputError(str(error).replace("folder: ", "diagnostics: ", 1)) from None
    place = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow links
    for parent in (place, *place.parents):
        if any((parent / f"{prefix}{GUARANTEE}").exists() for prefix in ("", NOT_PRIVATE)):
            raise InputError("diagnostics: they must not lie inside a release, which will be published. Move them.")


def _describe_values(values: NDArray[Any], bounds: tuple[float, float]) -> dict[str, Any]:
    low, high = bounds
    counts, edges = np.histogram(np.clip(values, low, high), bins=BINS, range=(low, high))
    extremes = None
    if len(values):
        extremes = {"lowest": float(values.min()), "highest": float(values.max()), "mean": float(values.mean())}
    return {
        "entries": len(values),
        "values": extremes,
        "outside_bounds": int(np.count_nonzero((values < low) | (values > high))),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def _measure_error(estimator: Any, entries: ObservedTensor, tensor: ObservedTensor) -> float:
    """Return the error on a tensor; in unit slice everybody is served from their own entries."""
    if hasattr(estimator, "rmse_for"):
        return float(estimator.rmse_for(entries, tensor))
    return float(estimator.rmse(tensor))


def _make_page(estimator: Any, tensor: ObservedTensor, held_out: ObservedTensor | None) -> Page:
    """Make the owner's report, with the state of the ledger if the fit was charged to one."""
    model, ledger = estimator.model_, estimator.ledger
    if ledger is not None and not isinstance(ledger, Ledger):
        ledger = Ledger.open(Path(ledger))
    if hasattr(estimator, "personalise"):
        model = estimator.personalise(tensor)  # for the owner of all entries alone
    return owner_page(model, estimator.guarantee_, tensor, held_out=held_out, ledger=ledger)
