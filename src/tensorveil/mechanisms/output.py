"""Output perturbation: alternating least squares whose row solutions get noise.

With the other factors already private, a weighted least-squares solution G^-1 b is linear in its row's values, so its
sensitivity is known exactly. It is noised in the norm |G a|, in which one value moves every row by at most (high - low)
max |w h|: directions that the row's entries hardly determine get much noise, without harm to the others. Every factor
(and the core) is perturbed. The start is a fit to perturbed values, which finds the directions; noisy solutions are
then weighted against it by their known noise, which is post-processing.
"""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.refinement import RowSums, predict_refined_error, refine
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateValues

SWEEPS = 1
_ROUNDS, _LEAST = 20, 1e-12


def run_output(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release factors (and core) from noisy row solutions.

    Guarantee: ``spend``, unit value (docs/guarantees.md#output).
    """
    return refine(data, form, spend, sweeps=SWEEPS, step=solve_rows, name="row solutions")


def solve_rows(before: Array, sums: RowSums) -> Array:
    """Return rows between what they were and the noisy solution, as the noise of both suggests.

    Rows a = before + d, with d from N(0, T) and T estimated: b - G before = G d + error. Expectation-maximisation.
    """
    count, rank = before.shape
    eye = np.eye(rank)
    error = sums.variance * sums.second
    least = _LEAST * np.trace(error, axis1=1, axis2=2)[:, None, None]  # or rows of few entries might be singular
    error = error + (sums.noise + 1e-300 + least) * eye
    back = np.linalg.solve(error, sums.gram).transpose(0, 2, 1)  # G error^-1
    precision = back @ sums.gram
    pull = np.einsum("ipq,iq->ip", back, sums.right - np.einsum("ipq,iq->ip", sums.gram, before))
    prior = eye * max(float(np.mean(before**2)), 1e-300)
    move = np.zeros_like(before)
    for _ in range(_ROUNDS):
        covariance = np.linalg.solve(eye + prior @ precision, np.broadcast_to(prior, precision.shape))
        move = np.einsum("ipq,iq->ip", covariance, pull)
        second = (move.T @ move + covariance.sum(axis=0)) / count
        # A single row, such as a core, cannot tell directions apart.
        prior = 0.5 * (second + second.T) if count > rank else eye * np.trace(second) / rank
    moved: Array = before + move
    return moved


def predict_error(case: Case) -> float:
    """Predict the error of output perturbation."""
    return predict_refined_error(case, SWEEPS)


METHOD = Method(
    name="output",
    title="output perturbation of alternating least squares",
    unit="value",
    run=run_output,
    proofs=(
        "docs/guarantees.md#sums",
        "docs/guarantees.md#counts",
        "docs/guarantees.md#input",
        "docs/guarantees.md#output",
        "docs/guarantees.md#errors",
        "docs/guarantees.md#post-processing",
    ),
    expected=predict_error,
    uses_core=True,
)
