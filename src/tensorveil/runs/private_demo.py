"""The private part of `tensorveil demo`: what each budget costs in accuracy, and one release with its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.completion import PrivateCP
from tensorveil.privacy import Budget, Ledger
from tensorveil.release.names import REPORT
from tensorveil.release.release import FittedModel, write_release
from tensorveil.report.pictures import Tried
from tensorveil.report.release_page import report_writer
from tensorveil.runs.cells import cells_table, write_cells
from tensorveil.tensor import ObservedTensor

# Declared. The publishers have centred the data, so that a range around zero is natural; its width is our choice, and
# was made by people who had seen these public data. With private data it must come from other knowledge.
BOUNDS = (-5.0, 5.0)
RANK = 8  # the command's default
BUDGETS = (1.0, 5.0, 20.0)
GRID = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
REPEATS = 5
RELEASED = 5.0
RELEASE, FILLED = "release", "filled.csv"
LEDGER, LEDGER_EPSILON = "serology.ledger", 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One budget, tried several times; the model of the first time."""

    tried: Tried
    model: FittedModel


def trade_off(shown: ObservedTensor, hidden: ObservedTensor, *, threads: int | None) -> list[Trial]:
    """Measure the held-out error at every budget: a study of public data, with seeded noise; none of it is released."""
    trials = []
    for epsilon in sorted({*GRID, *BUDGETS}):
        fits = [_estimator(epsilon, threads=threads, noise_seed=seed).fit(shown) for seed in range(REPEATS)]
        errors = tuple(fit.rmse(hidden) for fit in fits)
        tried = Tried(epsilon=epsilon, method=fits[0].plan_.method, errors=errors)
        trials.append(Trial(tried=tried, model=fits[0].model_))
    return trials


def release(folder: Path, shown: ObservedTensor, hidden: ObservedTensor, *, threads: int | None) -> PrivateCP:
    """Do what a user would do: start a ledger, fit with secure noise, release."""
    ledger = Ledger.create(
        folder / LEDGER, budget=Budget(epsilon=LEDGER_EPSILON, delta=0.0), unit="value", name="covid19-serology"
    )
    fitted = _estimator(RELEASED, threads=threads, ledger=ledger, purpose="demo of private completion").fit(shown)

    def write_filled(path: Path, model: FittedModel) -> None:
        # Positions are public in unit value, so the cells that are missing may be named.
        write_cells(path, cells_table(hidden.columns, fitted.predict(hidden), model.modes, "value"))

    # So is their number, which the report's budget explorer asks for.
    report = report_writer(fitted, n_entries=shown.n_entries)
    write_release(fitted, folder / RELEASE, also={FILLED: write_filled, REPORT: report})
    return fitted


def _estimator(epsilon: float, *, threads: int | None, **options: Any) -> PrivateCP:
    return PrivateCP(
        RANK, epsilon=epsilon, delta=0.0, unit="value", bounds=BOUNDS, random_state=0, restarts=1, threads=threads,
        **options,
    )  # fmt: skip
