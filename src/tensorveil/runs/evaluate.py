"""The errors of a saved model at held-out cells, from a file to facts."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tensorveil.completion.evaluation import Evaluation, evaluate
from tensorveil.errors import ChangedWarning, InputError, LeftOutWarning, warn
from tensorveil.models import CPModel, TuckerModel, load_model
from tensorveil.release.names import model_file
from tensorveil.rounds.shared import is_shared
from tensorveil.runs.reading import Reading, read_tensor
from tensorveil.runs.stores import check_same_modes
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.frames import NoValueColumnError
from tensorveil.tensor.given import VALUE
from tensorveil.tensor.labels import UnknownLabelError
from tensorveil.tensor.rows import NothingListedError
from tensorveil.tensor.stored import StoredTensor, is_store

__all__ = ["EvaluationRun", "evaluate_model"]


@dataclass(frozen=True, kw_only=True)
class EvaluationRun:
    """What is to be measured.

    Parameters
    ----------
    model
        A model's file.
    at
        The held-out cells with their values; ``modes`` are the model's and need not be given. Or a store of them.
    exclude
        Files of cells that are known already, such as those that were fitted; read like ``at``.
    along, k
        A mode whose candidates are to be ranked, and how many of the best count.
    """

    model: Path
    at: Reading
    exclude: Sequence[Path] = ()
    along: str | None = None
    k: int = 20


def evaluate_model(run: EvaluationRun) -> Evaluation:
    """Read model and cells, and compare them."""
    path = model_file(run.model)
    if is_shared(path):
        raise InputError(
            f"{path} is a release of whole users, who are served from their own entries: predict held-out cells of "
            "theirs with entries=FILE, and compare."
        )
    model = load_model(path)
    if is_store(run.at.file):
        stored = StoredTensor.open(run.at.file)
        check_same_modes(stored, model.modes)
        if run.exclude or run.along is not None:
            raise InputError(
                "along and exclude need all entries in memory, and a store keeps them on disk. Leave them out, or give "
                "the files that it was made of."
            )
        return evaluate(model, stored)
    held_out, left_out = _read_like(model, run.at)
    known = [_read_known(model, replace(run.at, file=path)) for path in run.exclude]
    _tell_outside(model, held_out)
    return replace(evaluate(model, held_out, exclude=known, along=run.along, k=run.k), left_out=left_out)


def _tell_outside(model: CPModel | TuckerModel, held_out: ObservedTensor) -> None:
    """Say how many values no prediction can reach."""
    if model.bounds is None:
        return
    low, high = model.bounds
    outside = int(np.count_nonzero((held_out.values < low) | (held_out.values > high)))
    if outside:
        warn(
            f"{outside:,} of {held_out.n_entries:,} held-out values lie outside the bounds of the model, {low:g} to "
            f"{high:g}, and no prediction does: they are compared as they are. Check that they are of the same scale.",
            ChangedWarning,
        )


def _read_known(model: CPModel | TuckerModel, reading: Reading) -> ObservedTensor:
    """Read cells that are known already; of those with labels that the model does not know none is left out."""
    found, left_out = _read_like(model, reading)
    if left_out:
        warn(
            f"exclude: {left_out:,} cells of {Path(reading.file).name} exclude nothing, since the model does not know "
            "their labels. Check how these are written if it should.",
            LeftOutWarning,
        )
    return found


def _read_like(model: CPModel | TuckerModel, reading: Reading) -> tuple[ObservedTensor, int]:
    """Read cells by the labels of the model; return them, and how many have labels that the model does not know.

    Values are those of the column that was said, or that is called as in the data of the model.
    """
    if reading.value is None and model.value_name != VALUE:
        with contextlib.suppress(NoValueColumnError):
            return _read_like(model, replace(reading, value=model.value_name))
    return _read_by_labels(model, reading)


def _read_by_labels(model: CPModel | TuckerModel, reading: Reading) -> tuple[ObservedTensor, int]:
    names = [each if isinstance(each, str) else each.name for each in reading.modes or model.modes]
    if len(names) != len(model.modes):
        raise InputError(f"modes must name one column per mode of the model, {len(model.modes)}; got {len(names)}.")
    modes = [Mode(name, mode.labels, mode.bins) for name, mode in zip(names, model.modes, strict=True)]
    try:
        return read_tensor(replace(reading, modes=modes, shape=model.shape)), 0
    except UnknownLabelError:
        bins = {mode.name: mode.bins for mode in modes if mode.bins is not None}
        whole = read_tensor(replace(reading, modes=names, bins={**bins, **(reading.bins or {})}))
    labels = {mode.name: mode for mode in modes if mode.labels is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)  # they are counted here
        try:
            part = read_tensor(replace(reading, modes=names, labels=labels, shape=model.shape))
        except NothingListedError:
            part = None
    if part is None:
        raise InputError(
            f"{Path(reading.file).name} has no row of which the model knows every label of {', '.join(labels)}. Check "
            "that they are written as in the data of the model."
        )
    return part, whole.n_entries - part.n_entries
