"""What is in the file of a saved model, or of a release: what may be asked of it, and by which labels."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.models import load_model
from tensorveil.models.storage import HEADER
from tensorveil.release.names import model_file
from tensorveil.rounds.shared import SharedModel, is_shared
from tensorveil.runs.info import name_labels, show_examples

__all__ = ["ModelFacts", "ModelMode", "describe_model", "find_model"]


@dataclass(frozen=True, kw_only=True)
class ModelMode:
    """One mode of a model: its labels' kind, and the first of them; ``bins`` if moments are to be put into some."""

    name: str
    size: int
    labels: str | None
    examples: list[str] | None
    bins: str | int | None


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a saved model is, without the numbers in it; ``protects`` is the mode of whose owners it holds nothing."""

    file: str
    bytes: int
    model: str
    rank: Any
    predicts: str
    bounds: tuple[float, float] | None
    estimated_rmse: float | None
    protects: str | None
    modes: tuple[ModelMode, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return dataclasses.asdict(self)


def find_model(place: str | os.PathLike[str]) -> Path | None:
    """Return the file of a model that a path names, or that lies in the folder that it names; else None."""
    path = model_file(Path(place))
    try:
        with zipfile.ZipFile(path) as archive:
            return path if HEADER in archive.namelist() else None
    except Exception:  # a file may hold anything
        return None


def describe_model(path: Path) -> ModelFacts:
    """Say what a saved model knows."""
    shared = is_shared(path)
    model: Any = SharedModel.load(path) if shared else load_model(path)
    modes = tuple(
        ModelMode(
            name=mode.name,
            size=size,
            labels=name_labels(mode.labels),
            examples=show_examples(mode.labels),
            bins=mode.bins,
        )
        for mode, size in zip(model.modes, model.shape, strict=True)
    )
    errors = None if shared else model.errors
    return ModelFacts(
        file=os.fspath(path),
        bytes=path.stat().st_size,
        model="cp" if getattr(model, "core", None) is None else "tucker",
        rank=model.rank,
        predicts=model.value_name,
        bounds=model.bounds,
        estimated_rmse=None if errors is None else errors.rmse,
        protects=model.modes[model.protect].name if shared else None,
        modes=modes,
    )
