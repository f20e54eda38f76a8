"""The work behind `tensorveil plan`."""

from __future__ import annotations

import math
from typing import Any

from tensorveil.cli.plan import ASSUMED
from tensorveil.completion.private_matrix import planned_ranks
from tensorveil.completion.settings import cp_ranks, tucker_ranks
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import COMPARED
from tensorveil.mechanisms.planner import plan
from tensorveil.privacy import Budget, Unit
from tensorveil.runs.complete import plain
from tensorveil.runs.private_complete import DEFAULT_RANK
from tensorveil.runs.reading import read_tensor

READING = ("modes", "value", "file_format", "indices", "no_header", "variable")


def planned(file: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Predict errors for every budget."""
    shape, entries = _public(file, options)
    low, high = options["bounds"]
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    if entries > math.prod(shape):
        raise InputError("--entries: there are more entries than cells in --shape. Check both.")
    rank = options["rank"] or DEFAULT_RANK[options["model"]]
    ranks = _ranks(options["model"], rank, shape)
    budgets = []
    for epsilon in dict.fromkeys(options["epsilons"]):
        budget = Budget(epsilon=epsilon, delta=options["delta"])
        found = plan(
            shape=shape, n_entries=entries, bounds=(low, high), ranks=ranks, core=options["model"] == "tucker",
            budget=budget, unit=Unit.value(),
        )  # fmt: skip
        expected = [{"method": each.method, "rmse": each.rmse} for each in found.predictions]
        budgets.append({"epsilon": epsilon, "delta": options["delta"], "method": found.method, "expected": expected})
    return {
        "unit": "value",
        "shape": list(shape),
        "entries": entries,
        "bounds": [low, high],
        "model": options["model"],
        "rank": plain(rank),
        "delta": options["delta"],
        "methods": list(COMPARED),
        "budgets": budgets,
        "assumed": ASSUMED,
    }


def _ranks(model: str, rank: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if model == "matrix":
        return planned_ranks(rank, shape)
    return (cp_ranks if model == "cp" else tucker_ranks)(rank, shape)


def _public(file: str | None, options: dict[str, Any]) -> tuple[tuple[int, ...], int]:
    """Give shape and number of entries; of a file's values nothing is used."""
    if file is None:
        return options["shape"], options["entries"]
    tensor = read_tensor(file, **{name: options[name] for name in READING})
    return tensor.shape, tensor.n_entries
