"""Private margins, then input perturbation of the residuals that they leave."""

from __future__ import annotations

from dataclasses import replace

from tensorveil.mechanisms import input as perturbation
from tensorveil.mechanisms import margins
from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateValues

_MARGINS_SHARE = 0.3


def run_margins_input(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release private biases and a model fitted to the perturbed residuals that they leave.

    Guarantee: ``spend``, unit value (docs/guarantees.md#sums, docs/guarantees.md#input).
    """
    for_margins, for_values = spend.split(_MARGINS_SHARE, 1 - _MARGINS_SHARE)
    first = margins.private_margins(data, for_margins)
    baseline = first.at(data.columns)
    solution, rest = perturbation.fit_perturbed(data, form, for_values, baseline, first.spread)
    found = solution.biases or [0.0] * len(data.shape)
    biases = tuple(bias + more for bias, more in zip(first.biases, found, strict=True))
    solution = replace(solution, offset=solution.offset + first.offset, biases=biases)
    return Outcome(solution=solution, parts=(*first.parts, *rest))


def predict_error(case: Case) -> float:
    """Predict the error: measured, it is never below that of the better part, whose noise enters every residual."""
    return 1.1 * min(margins.predict_error(case), perturbation.predict_error(case))


METHOD = Method(
    name="margins+input",
    title="private margins and input perturbation",
    unit="value",
    run=run_margins_input,
    proofs=perturbation.PROOFS,
    expected=predict_error,
    fits_values=True,
)
