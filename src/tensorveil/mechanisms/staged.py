"""Everything in stages, each deciding on the next from what has been released: what ``method="auto"`` runs."""

from __future__ import annotations

from tensorveil.mechanisms import input as perturbation
from tensorveil.mechanisms import margins, mean, tables
from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stages import run_stages
from tensorveil.privacy.gate import PrivateValues


def run_staged(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release a model of what one-way tables, two-way tables and perturbed values show, as far as each pays.

    Guarantee: ``spend``, unit value (docs/guarantees.md#stages).
    """
    return run_stages(data, form, spend)


def predict_error(case: Case) -> float:
    """Predict the error: that of the best of its stages."""
    parts = (mean, margins, tables, perturbation)
    return float(min(part.predict_error(case) for part in parts))


METHOD = Method(
    name="staged",
    title="staged tables and values",
    unit="value",
    run=run_staged,
    proofs=(
        "docs/guarantees.md#sums",
        "docs/guarantees.md#counts",
        "docs/guarantees.md#pair-products",
        "docs/guarantees.md#input",
        "docs/guarantees.md#stages",
        "docs/guarantees.md#errors",
        "docs/guarantees.md#post-processing",
    ),
    expected=predict_error,
    fits_values=True,
    smooths=True,
)
