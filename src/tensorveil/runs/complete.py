"""The work behind `tensorveil complete`: read, fit, fill, write everything or nothing."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.evaluate import predict_columns
from tensorveil.release.folder import check_target, staged_folder
from tensorveil.release.names import REPORT
from tensorveil.runs.cells import cells_table, read_cells, write_cells
from tensorveil.runs.progress import fit_progress
from tensorveil.runs.reading import read_tensor
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.files.images import check_picture, write_image

MODEL_NAME = "model.npz"
SUMMARY_NAME = "summary.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run of `complete` is to do."""

    file: str
    output: Path
    model: str
    fit: dict[str, Any]
    reading: dict[str, Any]
    at: Path | None
    fill: bool
    max_cells: int
    filled_name: str
    value_name: str
    report: bool
    force: bool


def run_completion(plan: Plan) -> dict[str, Any]:
    """Read, fit, fill and write; give the summary."""
    check_target(plan.output, force=plan.force)  # before the work rather than after it
    tensor = read_tensor(plan.file, **plan.reading)
    cells = cells_to_fill(plan, tensor)
    started = time.perf_counter()
    estimator = fitted(plan, tensor)
    seconds = time.perf_counter() - started
    summary = summarise(plan, tensor, estimator, cells, seconds)
    with staged_folder(plan.output, force=plan.force) as folder:
        write_results(folder, plan, tensor, estimator.model_, cells, summary)
    return summary


def cells_to_fill(plan: Plan, tensor: ObservedTensor) -> NDArray[np.int32] | None:
    """Choose the cells to predict: those asked for, or all that are missing."""
    if not plan.fill:
        return None
    if plan.filled_name.endswith(".png"):
        check_picture(tensor.shape)
    if plan.at is not None:
        return read_cells(plan.at, tensor.modes, tensor.shape)
    if math.prod(tensor.shape) > plan.max_cells:
        raise InputError(
            "the tensor has more cells than --max-cells. Name the cells you want with --at FILE, "
            "raise --max-cells, or write the model alone with --no-fill."
        )
    return missing_cells(tensor)


def missing_cells(tensor: ObservedTensor) -> NDArray[np.int32]:
    """Give the (order, n) coordinates of all cells without an entry, in row-major order."""
    observed = np.zeros(tensor.shape, dtype=bool)
    observed[tuple(tensor.columns)] = True
    missing = np.unravel_index(np.flatnonzero(~observed), tensor.shape)
    return np.stack([index.astype(np.int32) for index in missing])


def fitted(plan: Plan, tensor: ObservedTensor) -> Any:
    """Fit the estimator that the plan names, with a progress bar on a terminal."""
    from tensorveil.completion import CP, LowRankMatrix, Tucker

    estimator: Any = {"cp": CP, "tucker": Tucker, "matrix": LowRankMatrix}[plan.model](**plan.fit)
    with fit_progress(f"fitting {plan.model}") as progress:
        estimator.fit(tensor, progress=progress)
    return estimator


def summarise(
    plan: Plan, tensor: ObservedTensor, estimator: Any, cells: NDArray[np.int32] | None, seconds: float
) -> dict[str, Any]:
    """Give what summary.json says."""
    model: CPModel | TuckerModel = estimator.model_
    history = [plain(dataclasses.asdict(record)) for record in estimator.history_]
    validation = [record["validation_error"] for record in history if record.get("validation_error") is not None]
    filled = [] if cells is None else [plan.filled_name]
    return {
        "tensorveil": __version__,
        "file": plan.file,
        "model": plan.model,
        "options": plain(plan.fit),
        "rank": plain(model.rank),
        "parameters": model.n_parameters,
        "bounds": plain(model.bounds),
        "data": {
            "modes": [mode.name for mode in tensor.modes],
            "shape": list(tensor.shape),
            "entries": tensor.n_entries,
            "density": tensor.density,
        },
        "fit": {
            "seconds": round(seconds, 3),
            "records": len(history),
            "train_rmse": float(estimator.rmse(tensor)),
            "validation_rmse": min(validation, default=None),
            "history": history,
        },
        "filled": None if cells is None else int(cells.shape[1]),
        "files": [MODEL_NAME, *filled, *([REPORT] if plan.report else []), SUMMARY_NAME],
    }


def plain(content: Any) -> Any:
    """Turn numpy scalars, tuples and non-finite numbers into what JSON can say."""
    if isinstance(content, dict):
        return {key: plain(item) for key, item in content.items()}
    if isinstance(content, list | tuple):
        return [plain(item) for item in content]
    if isinstance(content, np.generic | np.ndarray):
        return plain(content.tolist())
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def write_results(
    folder: Path,
    plan: Plan,
    tensor: ObservedTensor,
    model: CPModel | TuckerModel,
    cells: NDArray[np.int32] | None,
    summary: dict[str, Any],
) -> None:
    """Write the model, the filled cells, the report and the summary."""
    model.save(folder / MODEL_NAME)
    if cells is not None:
        values = predict_columns(model, cells, threads=plan.fit.get("threads"))
        if plan.filled_name.endswith(".png"):
            picture = tensor.to_dense()
            picture[tuple(cells)] = values
            write_image(picture, folder / plan.filled_name)
        else:
            write_cells(folder / plan.filled_name, cells_table(cells, values, model.modes, plan.value_name))
    if plan.report:
        from tensorveil.report.owner_page import open_page
        from tensorveil.report.page import save_page

        save_page(folder / REPORT, open_page(model, tensor, summary))
    (folder / SUMMARY_NAME).write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")
