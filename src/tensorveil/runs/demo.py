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
from tensorveil.errors import MissingDependencyError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Ledger
from tensorveil.release.folder import check_target, staged_folder
from tensorveil.release.names import OWNER_REPORT, REPORT
from tensorveil.release.release import CARD, DO_NOT_PUBLISH, GUARANTEE, MODEL, write_diagnostics
from tensorveil.report.page import save_page
from tensorveil.report.pictures import Panel, save_trade_off, save_true_against_predicted
from tensorveil.runs.cells import cells_table, write_cells
from tensorveil.runs.demo_report import report_page
from tensorveil.runs.private_demo import (
    BOUNDS,
    BUDGETS,
    FILLED,
    LEDGER,
    LEDGER_EPSILON,
    RANK,
    RELEASE,
    RELEASED,
    Trial,
    release,
    trade_off,
)
from tensorveil.runs.progress import fit_progress
from tensorveil.solvers.loss import rmse
from tensorveil.tensor import ObservedTensor, load_dataset, random_split

Model = CPModel | TuckerModel
PICTURE_NAME, TRADE_OFF_NAME = "true-against-predicted.png", "trade-off.png"
ASIDE = "diagnostics"
# What the demo writes, and replaces when it is run again.
DEMO_FILES = (
    LEDGER,
    *(f"{RELEASE}/{name}" for name in (MODEL, GUARANTEE, CARD, FILLED, REPORT)),
    *(f"{ASIDE}/{name}" for name in (DO_NOT_PUBLISH, OWNER_REPORT, "diagnostics.json", "summary.json", "hidden.csv")),
    *(f"{ASIDE}/{name}" for name in (PICTURE_NAME, TRADE_OFF_NAME, "cp-model.npz", "tucker-model.npz")),
)
# Chosen by looking at the held-out error of the split with seed 0; so the demo shows another split, seed 1.
CP_RANK = 32
TUCKER_RANK = (10, 5, 7)
TUCKER_SWEEPS = 15  # more hardly change the error, and a larger core takes several times as long
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
    """Hide, complete privately and not, release, compare and write; give the summary."""
    check_target(output, force=True, ours=DEMO_FILES)
    tensor = load_dataset("covid19-serology")
    shown, hidden_part = random_split(tensor, hidden, random_state=seed)
    contenders = [judged(name, fit, shown, hidden_part) for name, fit in methods(seed=seed, threads=threads).items()]
    tried = trade_off(shown, hidden_part, threads=threads)
    with staged_folder(output, force=True, ours=DEMO_FILES) as folder:
        released = release(folder, shown, hidden_part, threads=threads)
        lines = {contenders[at].name: contenders[at].rmse for at in (0, 2, 3)}
        page = report_page(Ledger.open(folder / LEDGER), shown, hidden_part, lines, tried, released)
        also = {OWNER_REPORT: lambda path: save_page(path, page)}
        aside = write_diagnostics(folder / ASIDE, released, shown, held_out=hidden_part, also=also)
        note = write_pictures(aside, hidden_part, contenders, tried, released)
        write_files(aside, hidden_part, contenders, released)
        summary = summarise(
            tensor, hidden_part, contenders, tried, released, note=note, seed=seed, files=files_in(folder)
        )
        (aside / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
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
        # What the private fits, of this rank, come near to as epsilon grows.
        f"CP, rank {RANK}": estimated(CP(rank=RANK, **common), "CP"),
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


def write_pictures(
    folder: Path, hidden: ObservedTensor, contenders: list[Contender], tried: list[Trial], released: Any
) -> str | None:
    """Draw the pictures; without matplotlib say how to get it."""
    constant, _, same_rank, cp, _ = contenders
    models = {trial.tried.epsilon: trial.model for trial in tried} | {RELEASED: released.model_}
    panels = [private_panel(epsilon, models[epsilon], hidden) for epsilon in BUDGETS]
    panels.append(Panel(name=f"{cp.name}, not private", predicted=cp.predicted, rmse=cp.rmse))
    lines = {f"{each.name}, not private": each.rmse for each in (constant, same_rank, cp)}
    try:
        save_true_against_predicted(
            folder / PICTURE_NAME,
            hidden.values,
            panels,
            title="COVID-19 serology: hidden entries predicted from the others",
            value_label="measurement",
        )
        save_trade_off(
            folder / TRADE_OFF_NAME,
            [trial.tried for trial in tried],
            lines,
            title=f"COVID-19 serology: what privacy costs (CP, rank {RANK}, unit value, delta 0)",
        )
    except MissingDependencyError as error:
        return str(error)
    return None


def private_panel(epsilon: float, model: Model, hidden: ObservedTensor) -> Panel:
    """Give the panel of a private model."""
    predicted = model.predict(hidden.coords)
    return Panel(name=f"private, epsilon {epsilon:g}", predicted=predicted, rmse=rmse(predicted, hidden.values))


def write_files(folder: Path, hidden: ObservedTensor, contenders: list[Contender], released: Any) -> None:
    """Write the models without protection, and the hidden entries with the truth and each prediction."""
    constant, additive, _, cp, tucker = contenders
    cp.model.save(folder / "cp-model.npz")
    tucker.model.save(folder / "tucker-model.npz")
    table = cells_table(hidden.columns, hidden.values, hidden.modes, "true")
    table = table.append_column("private", [released.predict(hidden)])
    for name, contender in (("constant", constant), ("biases", additive), ("cp", cp), ("tucker", tucker)):
        table = table.append_column(name, [contender.predicted])
    write_cells(folder / "hidden.csv", table)


def summarise(
    tensor: ObservedTensor,
    hidden: ObservedTensor,
    contenders: list[Contender],
    tried: list[Trial],
    released: Any,
    **extra: Any,
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
        "private": [described(trial, hidden) for trial in tried],
        "budgets": list(BUDGETS),
        "bounds": list(BOUNDS),
        "private_rank": RANK,
        "repeats": len(tried[0].tried.errors),
        "released": {
            "epsilon": RELEASED,
            "method": released.plan_.method,
            "rmse": released.rmse(hidden),
            "sentence": released.guarantee_.sentence(),
            "ledger": LEDGER,
            "ledger_epsilon": LEDGER_EPSILON,
        },
        **extra,
    }


def described(trial: Trial, hidden: ObservedTensor) -> dict[str, Any]:
    """Give what the summary says of one budget."""
    tried = trial.tried
    return {
        "epsilon": tried.epsilon,
        "method": tried.method,
        "rmse": tried.mean,
        "lowest": min(tried.errors),
        "highest": max(tried.errors),
        "r2": 1.0 - float(np.mean(np.square(tried.errors))) / float(np.var(hidden.values)),
    }


def files_in(folder: Path) -> list[str]:
    """List the files, the summary to come among them."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted([*found, f"{ASIDE}/summary.json"])


def fitted_parameters(model: Model) -> int:
    """Count the fitted numbers; the factors of the two simple models are zeros that nobody fitted."""
    unused = 0 if any(factor.any() for factor in model.factors) else sum(f.size for f in model.factors)
    return model.n_parameters - unused
