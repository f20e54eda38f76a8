"""The result of an open run, in a folder: the model, filled cells, a report and a summary. Nothing is protected."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil import __version__
from tensorveil.completion.evaluation import evaluate
from tensorveil.models import CPModel, TuckerModel
from tensorveil.release.fill import Fill, write_fill
from tensorveil.release.folder import check_folder, write_folder
from tensorveil.release.names import MODEL, REPORT, RESULT_FILES, SUMMARY
from tensorveil.report.owner_page import open_page
from tensorveil.report.page import save_page
from tensorveil.solvers.losses import LOSSES
from tensorveil.tensor import ObservedTensor

RMSE = "RMSE"

__all__ = ["Summary", "check_result_folder", "make_plain", "summarise_fit", "write_result"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """What became of an open run: what ``summary.json`` says."""

    file: str
    model: str
    options: Mapping[str, Any]
    rank: Any
    parameters: int
    bounds: tuple[float, float] | None
    modes: tuple[str, ...]
    shape: tuple[int, ...]
    entries: int
    density: float
    seconds: float
    train_rmse: float
    measure: str
    train_error: float
    validation_error: float | None
    loss: str
    converged: bool
    history: tuple[Mapping[str, Any], ...]
    filled: int | None
    files: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        facts: dict[str, Any] = make_plain({name: getattr(self, name) for name in ("file", "model", "options", "rank")})
        return {
            "tensorveil": __version__,
            **facts,
            "parameters": self.parameters,
            "bounds": make_plain(self.bounds),
            "data": {
                "modes": list(self.modes),
                "shape": list(self.shape),
                "entries": self.entries,
                "density": self.density,
            },
            "fit": {
                "seconds": round(self.seconds, 3),
                "records": len(self.history),
                "converged": self.converged,
                "train_rmse": self.train_rmse,
                "validation_rmse": self.validation_error if self.measure == RMSE else None,
                "loss": self.loss,
                "measure": self.measure,
                "train_error": self.train_error,
                "validation_error": self.validation_error,
                "history": list(self.history),
            },
            "filled": self.filled,
            "files": list(self.files),
        }


def summarise_fit(
    estimator: Any, tensor: ObservedTensor, *, file: str, model: str, seconds: float, fill: Fill | None, report: bool
) -> Summary:
    """Gather what there is to say about a fitted open estimator and the files that it will leave."""
    fitted: CPModel | TuckerModel = estimator.model_
    history = tuple(make_plain(dataclasses.asdict(record)) for record in estimator.history_)
    validation = [record["validation_error"] for record in history if record.get("validation_error") is not None]
    settings = {name: setting for name, setting in estimator.get_params().items() if setting is not None}
    if "side" in settings:  # that there were tables, not what they held
        settings["side"] = list(settings["side"])
    return Summary(
        file=file,
        model=model,
        options=settings,
        rank=fitted.rank,
        parameters=fitted.n_parameters,
        bounds=fitted.bounds,
        modes=tuple(mode.name for mode in tensor.modes),
        shape=tensor.shape,
        entries=tensor.n_entries,
        density=tensor.density,
        seconds=seconds,
        train_rmse=float(estimator.rmse(tensor)),
        measure=history[-1]["measure"],
        train_error=history[-1]["train_error"],
        validation_error=min(validation, default=None),
        loss=fitted.loss,
        converged=estimator.converged_,
        history=history,
        filled=None if fill is None else len(fill.coords),
        files=(MODEL, *([] if fill is None else [fill.name]), *([REPORT] if report else []), SUMMARY),
    )


def check_result_folder(folder: str | os.PathLike[str], *, force: bool) -> None:
    """Refuse a folder that cannot be written; with ``force`` one that holds an earlier result can, a release never."""
    check_folder(folder, ours=RESULT_FILES, force=force)


def write_result(
    folder: str | os.PathLike[str],
    model: CPModel | TuckerModel,
    tensor: ObservedTensor,
    summary: Summary,
    *,
    fill: Fill | None = None,
    report: bool = True,
    force: bool = False,
) -> Path:
    """Write the model, the filled cells, the report and the summary into a folder."""
    with write_folder(folder, ours=RESULT_FILES, force=force) as staging:
        model.save(staging / MODEL)
        if fill is not None:
            write_fill(staging / fill.name, model, fill, observed=tensor)
        if report:
            plain = model.loss == "gaussian" and tensor.unlisted == "unknown"
            measured = None if plain or model.loss not in LOSSES else evaluate(model, tensor)
            save_page(staging / REPORT, open_page(model, tensor, summary.to_json(), measured))
        text = json.dumps(summary.to_json(), indent=2, allow_nan=False)
        (staging / SUMMARY).write_text(text + "\n", encoding="utf-8")
    return Path(folder)


def make_plain(content: Any) -> Any:
    """Turn numpy scalars, tuples, non-finite numbers and other objects into what JSON can say."""
    if isinstance(content, Mapping):
        # Several modes together are written as they are in the shell.
        return {
            "+".join(map(str, key)) if isinstance(key, tuple) else key: make_plain(item)
            for key, item in content.items()
        }
    if isinstance(content, list | tuple):
        return [make_plain(item) for item in content]
    if isinstance(content, np.generic | np.ndarray):
        return make_plain(content.tolist())
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content if content is None or isinstance(content, str | int | float) else str(content)
