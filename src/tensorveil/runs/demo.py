"""The demo: hide part of a real tensor, complete it privately and not, release, compare with the truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil import __version__
from tensorveil.completion import PrivateCP
from tensorveil.models.tables import cells_table
from tensorveil.privacy import Ledger
from tensorveil.release.diagnostics import write_diagnostics
from tensorveil.release.folder import check_folder, write_folder
from tensorveil.release.names import (
    CARD,
    DIAGNOSTICS,
    DO_NOT_PUBLISH,
    GUARANTEE,
    MODEL,
    OWNER_REPORT,
    REPORT,
    SUMMARY,
)
from tensorveil.report.pictures import save_picture
from tensorveil.runs.demo_fits import (
    BOUNDS,
    BUDGETS,
    FILLED,
    LEDGER,
    LEDGER_EPSILON,
    RANK,
    RELEASE,
    RELEASED,
    Contender,
    Trial,
    fit_contenders,
    release_model,
    try_budgets,
)
from tensorveil.runs.demo_pages import draw_predictions, draw_trade_off, make_owner_page
from tensorveil.tensor import ObservedTensor, load_dataset, random_split
from tensorveil.tensor.files.formats import write_table

__all__ = ["DEMO_FILES", "BudgetScore", "DemoResult", "DemoRun", "MethodScore", "ReleaseScore", "run_demo"]

DATASET = "covid19-serology"
PREDICTIONS, TRADE_OFF = "true-against-predicted.svg", "trade-off.svg"
ASIDE = "diagnostics"
# What the demo writes, and replaces when it is run again.
DEMO_FILES = (
    LEDGER,
    *(f"{RELEASE}/{name}" for name in (MODEL, GUARANTEE, CARD, FILLED, REPORT)),
    *(f"{ASIDE}/{name}" for name in (DO_NOT_PUBLISH, OWNER_REPORT, DIAGNOSTICS, SUMMARY, "hidden.csv")),
    *(f"{ASIDE}/{name}" for name in (PREDICTIONS, TRADE_OFF, "cp-model.npz", "tucker-model.npz")),
)


@dataclass(frozen=True, kw_only=True)
class DemoRun:
    """How to run the demo.

    Parameters
    ----------
    output
        The folder for the release, the ledger and the diagnostics; an earlier demo there is replaced.
    hidden
        Share of the entries to hide.
    seed
        Seed of what is hidden and of the fits without privacy.
    threads
        Threads; None for all.
    """

    output: Path
    hidden: float = 0.3
    seed: int = 1
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class MethodScore:
    """How a method without privacy fares on the hidden entries."""

    name: str
    rmse: float
    r2: float
    parameters: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class BudgetScore:
    """How private fits fare at one budget: mean, lowest and highest error over draws of noise."""

    epsilon: float
    method: str
    rmse: float
    lowest: float
    highest: float
    r2: float


@dataclass(frozen=True, kw_only=True)
class ReleaseScore:
    """What was released, its error on the hidden entries, and the ledger that was charged."""

    epsilon: float
    method: str
    rmse: float
    sentence: str
    ledger: str
    ledger_epsilon: float


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What came out. Computed from the data without protection, but for the release itself."""

    dataset: str
    shape: tuple[int, ...]
    entries: int
    hidden: int
    methods: tuple[MethodScore, ...]
    private: tuple[BudgetScore, ...]
    budgets: tuple[float, ...]
    bounds: tuple[float, float]
    private_rank: int
    repeats: int
    released: ReleaseScore
    seed: int
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what summary.json says."""
        return {"tensorveil": __version__, **asdict(self)}


def run_demo(run: DemoRun) -> DemoResult:
    """Hide, complete privately and not, release, compare and write."""
    check_folder(run.output, force=True, ours=DEMO_FILES)
    tensor = load_dataset(DATASET)
    shown, hidden = random_split(tensor, run.hidden, random_state=run.seed)
    contenders = fit_contenders(shown, hidden, seed=run.seed, threads=run.threads)
    trials = try_budgets(shown, hidden, threads=run.threads)
    with write_folder(run.output, force=True, ours=DEMO_FILES) as folder:
        released = release_model(folder, shown, hidden, threads=run.threads)
        result = _summarise(run, tensor, hidden, contenders, trials, released)
        ledger = Ledger.open(folder / LEDGER)
        lines = {contenders[at].name: contenders[at].rmse for at in (0, 2, 3)}
        page = make_owner_page(shown, hidden, lines, trials, released, ledger)
        aside = write_diagnostics(folder / ASIDE, released, shown, held_out=hidden, page=page)
        save_picture(aside / PREDICTIONS, draw_predictions(hidden, trials, released, contenders[3]))
        save_picture(aside / TRADE_OFF, draw_trade_off(trials, lines))
        _write_models(aside, hidden, contenders, released)
        result = replace(result, files=_list_files(folder))
        (aside / SUMMARY).write_text(json.dumps(result.to_json(), indent=2) + "\n", encoding="utf-8")
    return result


def _write_models(folder: Path, hidden: ObservedTensor, contenders: Sequence[Contender], released: PrivateCP) -> None:
    """Write the models without protection, and the hidden entries with the truth and each prediction."""
    constant, additive, _, cp, tucker = contenders
    cp.model.save(folder / "cp-model.npz")
    tucker.model.save(folder / "tucker-model.npz")
    table = cells_table(hidden.columns, hidden.values, hidden.modes, "true")
    table = table.append_column("private", [released.predict(hidden)])
    for name, contender in (("constant", constant), ("biases", additive), ("cp", cp), ("tucker", tucker)):
        table = table.append_column(name, [contender.predicted])
    write_table(table, folder / "hidden.csv")


def _summarise(
    run: DemoRun,
    tensor: ObservedTensor,
    hidden: ObservedTensor,
    contenders: Sequence[Contender],
    trials: Sequence[Trial],
    released: PrivateCP,
) -> DemoResult:
    methods = [
        MethodScore(name=c.name, rmse=c.rmse, r2=c.r2, parameters=c.parameters, seconds=round(c.seconds, 3))
        for c in contenders
    ]
    return DemoResult(
        dataset=DATASET,
        shape=tensor.shape,
        entries=tensor.n_entries,
        hidden=hidden.n_entries,
        methods=tuple(methods),
        private=tuple(_score_budget(trial, hidden) for trial in trials),
        budgets=BUDGETS,
        bounds=BOUNDS,
        private_rank=RANK,
        repeats=len(trials[0].errors),
        released=ReleaseScore(
            epsilon=RELEASED,
            method=released.plan_.method,
            rmse=released.rmse(hidden),
            sentence=released.guarantee_.sentence(),
            ledger=LEDGER,
            ledger_epsilon=LEDGER_EPSILON,
        ),
        seed=run.seed,
    )


def _score_budget(trial: Trial, hidden: ObservedTensor) -> BudgetScore:
    return BudgetScore(
        epsilon=trial.epsilon,
        method=trial.method,
        rmse=trial.mean,
        lowest=min(trial.errors),
        highest=max(trial.errors),
        r2=1.0 - float(np.mean(np.square(trial.errors))) / float(np.var(hidden.values)),
    )


def _list_files(folder: Path) -> tuple[str, ...]:
    """Return the files, the summary to come among them."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return tuple(sorted([*found, f"{ASIDE}/{SUMMARY}"]))
