"""The work behind `tensorveil demo`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.cli.progress import fit_progress
from tensorveil.cli.staging import check_target, staged_folder
from tensorveil.cli.tables import cells_table, write_cells
from tensorveil.errors import MissingDependencyError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.report.pictures import Panel, save_true_against_predicted
from tensorveil.tensor import ObservedTensor, load_dataset, random_split

Model = CPModel | TuckerModel
PICTURE_NAME = "true-against-predicted.png"
# Chosen by looking at the held-out error of the split with seed 0; so the demo shows another split, seed 1.
CP_RANK = 32
TUCKER_RANK = (12, 6, 8)
TUCKER_SWEEPS = 25  # more hardly change the error
BIAS_ROUNDS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """One method's model and its predictions of the hidden entries."""

    name: str
    model: Model
    predicted: NDArray[Any]
    rmse: float
    r2: float
    seconds: float


def run_demo(output: Path, *, hidden: float, seed: int, threads: int | None) -> dict[str, Any]:
    """Hide, complete, compare and write; give the summary."""
    check_target(output, force=True)
    tensor = load_dataset("covid19-serology")
    shown, hidden_part = random_split(tensor, hidden, random_state=seed)
    contenders = [judged(name, fit, shown, hidden_part) for name, fit in methods(seed=seed, threads=threads).items()]
    with staged_folder(output, force=True) as folder:
        note = write_picture(folder, hidden_part, contenders)
        write_files(folder, hidden_part, contenders)
        summary = summarise(tensor, hidden_part, contenders, folder, note=note, seed=seed)
        (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def methods(*, seed: int, threads: int | None) -> dict[str, Callable[[ObservedTensor], Model]]:
    """Name the methods that the demo compares, simplest first."""
    from tensorveil.completion import CP, Tucker

    common: dict[str, Any] = {"random_state": seed, "threads": threads}

    def estimated(estimator: Any, name: str) -> Callable[[ObservedTensor], Model]:
        def fit(tensor: ObservedTensor) -> Model:
            with fit_progress(f"fitting {name}") as progress:
                model: Model = estimator.fit(tensor, progress=progress).model_
            return model

        return fit

    tucker_rank = " x ".join(map(str, TUCKER_RANK))
    return {
        "constant (mean)": constant_model,
        "biases (slice means)": additive_model,
        f"CP, rank {CP_RANK}": estimated(CP(rank=CP_RANK, **common), "CP"),
        f"Tucker, rank {tucker_rank}": estimated(Tucker(rank=TUCKER_RANK, sweeps=TUCKER_SWEEPS, **common), "Tucker"),
    }


def constant_model(tensor: ObservedTensor) -> Model:
    """Predict the mean everywhere."""
    return CPModel(
        factors=tuple(np.zeros((size, 1)) for size in tensor.shape),
        offset=float(tensor.values.mean()),
        modes=tensor.modes,
    )


def additive_model(tensor: ObservedTensor) -> Model:
    """Predict the mean plus one number per sample, per antigen and per receptor, by least squares."""
    offset = float(tensor.values.mean())
    biases = [np.zeros(size) for size in tensor.shape]
    counts = [np.bincount(column, minlength=size) for column, size in zip(tensor.columns, tensor.shape, strict=True)]
    residual = tensor.values - offset
    for _ in range(BIAS_ROUNDS):
        for m, column in enumerate(tensor.columns):
            step = np.bincount(column, residual, len(biases[m])) / np.maximum(counts[m], 1)
            biases[m] += step
            residual -= step[column]
    factors = tuple(np.zeros((size, 1)) for size in tensor.shape)
    return CPModel(factors=factors, offset=offset, biases=tuple(biases), modes=tensor.modes)


def judged(
    name: str, fit: Callable[[ObservedTensor], Model], shown: ObservedTensor, hidden: ObservedTensor
) -> Contender:
    """Fit on what is shown, judge on what is hidden."""
    started = time.perf_counter()
    model = fit(shown)
    seconds = time.perf_counter() - started
    predicted = model.predict(hidden.coords)
    errors = predicted - hidden.values
    mean_square = float(np.mean(errors**2))
    return Contender(
        name=name,
        model=model,
        predicted=predicted,
        rmse=mean_square**0.5,
        r2=1.0 - mean_square / float(np.var(hidden.values)),
        seconds=seconds,
    )


def write_picture(folder: Path, hidden: ObservedTensor, contenders: list[Contender]) -> str | None:
    """Draw the picture; without matplotlib say how to get it."""
    panels = [Panel(name=c.name, predicted=c.predicted, rmse=c.rmse) for c in contenders]
    title = "COVID-19 serology: hidden entries predicted from the others"
    try:
        save_true_against_predicted(
            folder / PICTURE_NAME, hidden.values, panels, title=title, value_label="measurement"
        )
    except MissingDependencyError as error:
        return str(error)
    return None


def write_files(folder: Path, hidden: ObservedTensor, contenders: list[Contender]) -> None:
    """Write the models, and the hidden entries with the truth and each prediction."""
    constant, additive, cp, tucker = contenders
    cp.model.save(folder / "cp-model.npz")
    tucker.model.save(folder / "tucker-model.npz")
    table = cells_table(hidden.columns, hidden.values, hidden.modes, "true")
    for name, contender in (("constant", constant), ("biases", additive), ("cp", cp), ("tucker", tucker)):
        table = table.append_column(name, [contender.predicted])
    write_cells(folder / "filled.csv", table)


def summarise(
    tensor: ObservedTensor, hidden: ObservedTensor, contenders: list[Contender], folder: Path, **extra: Any
) -> dict[str, Any]:
    """Give what summary.json says."""
    return {
        "tensorveil": __version__,
        "dataset": "covid19-serology",
        "shape": list(tensor.shape),
        "entries": tensor.n_entries,
        "hidden": hidden.n_entries,
        "methods": [
            {
                "name": c.name,
                "rmse": c.rmse,
                "r2": c.r2,
                "parameters": fitted_parameters(c.model),
                "seconds": round(c.seconds, 3),
            }
            for c in contenders
        ],
        "files": sorted([path.name for path in folder.iterdir()] + ["summary.json"]),
        **extra,
    }


def fitted_parameters(model: Model) -> int:
    """Count the fitted numbers; the factors of the two simple models are zeros that nobody fitted."""
    unused = 0 if any(factor.any() for factor in model.factors) else sum(f.size for f in model.factors)
    return model.n_parameters - unused
