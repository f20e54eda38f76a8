"""Private one-way and two-way tables: biases and two-way effects of low rank, but no values on their own."""

from __future__ import annotations

import math

from tensorveil.mechanisms import margins
from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import ONE_WAY, TWO_WAY, list_tables
from tensorveil.mechanisms.stages import run_stages
from tensorveil.mechanisms.tradeoffs import INTERACTIONS, clipped_noise, shrinkage_error
from tensorveil.privacy.gate import PrivateValues

_SPREADS = 2.0
# Of the interactions so much are pairs, and two-way tables get so much of the budget.
_PAIRS, _SHARE = 0.6, 0.7


def run_tables(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release an offset, biases and two-way effects.

    Guarantee: ``spend``, unit value (docs/guarantees.md#stages).
    """
    return run_stages(data, form, spend, [ONE_WAY, TWO_WAY])


def predict_error(case: Case) -> float:
    """Predict the error of one-way and two-way tables; without two-way tables, that of margins."""
    alone = margins.predict_error(case)
    pairs = [modes for modes in list_tables(case.shape, case.n_entries) if len(modes) == 2]
    if not pairs:
        return alone
    part = case.part(_SHARE / len(pairs))
    left = 0.0
    for modes in pairs:
        one, other = (case.shape[mode] for mode in modes)
        count, signal = case.n_entries / (one * other), _PAIRS * INTERACTIONS / len(pairs)
        noise = clipped_noise(part.noise, _SPREADS) / count**2 + (1 - INTERACTIONS) / count
        lost = signal * math.sqrt(one * other) < 2 * noise
        left += signal if lost else shrinkage_error(signal, 2 * noise * (one + other) / (one * other))
    return min(margins.predict_error(case.part(1 - _SHARE)) - _PAIRS * INTERACTIONS + left, 1.05 * alone)


METHOD = Method(
    name="tables",
    title="private tables",
    unit="value",
    run=run_tables,
    proofs=(
        "docs/guarantees.md#sums",
        "docs/guarantees.md#counts",
        "docs/guarantees.md#pair-products",
        "docs/guarantees.md#stages",
        "docs/guarantees.md#errors",
    ),
    expected=predict_error,
    smooths=True,
)
