"""The errors of a saved model at held-out cells, from a file to facts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tensorveil.completion.evaluation import Evaluation, evaluate
from tensorveil.errors import InputError, LeftOutWarning, warn
from tensorveil.models import load_model
from tensorveil.models.contract import Multilinear
from tensorveil.runs.reading import Reading, read_tensor
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.labels import UnknownLabelError

__all__ = ["EvaluationRun", "evaluate_model"]


@dataclass(frozen=True, kw_only=True)
class EvaluationRun:
    """What is to be measured.

    Parameters
    ----------
    model
        A model's file.
    at
        The held-out cells with their values; ``modes`` are the model's and need not be given.
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
    model = load_model(run.model)
    held_out, left_out = _read_like(model, run.at)
    known = [_read_known(model, replace(run.at, file=path)) for path in run.exclude]
    return replace(evaluate(model, held_out, exclude=known, along=run.along, k=run.k), left_out=left_out)


def _read_known(model: Multilinear, reading: Reading) -> ObservedTensor:
    """Read cells that are known already; of those with labels that the model does not know none is left out."""
    found, left_out = _read_like(model, reading)
    if left_out:
        warn(
            f"exclude: {left_out:,} cells of {Path(reading.file).name} exclude nothing, since the model does not know "
            "their labels. Check how these are written if it should.",
            LeftOutWarning,
        )
    return found


def _read_like(model: Multilinear, reading: Reading) -> tuple[ObservedTensor, int]:
    """Read cells by the labels of the model; return them, and how many have labels that the model does not know."""
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
        part = read_tensor(replace(reading, modes=names, labels=labels, shape=model.shape))
    return part, whole.n_entries - part.n_entries
