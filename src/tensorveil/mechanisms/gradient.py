"""Gradient perturbation: full-batch descent whose gradients get noise, for every factor and the core.

The gradient of a row is sum w (prediction - x) h over its entries; given already private factors only the sum of w x h
depends on the values, linearly, and one value touches one row of each mode. Every entry takes part once per pass (the
batch is all of them, so that one draw of noise serves as many entries as possible), and passes compose.
"""

from __future__ import annotations

import math

import numpy as np

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.refinement import RowSums, predict_refined_error, refine
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateValues

PASSES = 4
_RATE = 0.7
# Gradient steps go part of the way that solutions go, so that more error is left.
_BEHIND = 1.15
# Designs have unit mean square, unless a solver has switched everything off; then curvature can be the smallest float.
_NOTHING = 1e-100


def run_gradient(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release factors (and core) after noisy gradient steps.

    Guarantee: ``spend``, unit value (docs/guarantees.md#gradient).
    """
    return refine(data, form, spend, sweeps=PASSES, step=step_rows, name="gradients")


def step_rows(before: Array, sums: RowSums) -> Array:
    """Move rows against their noisy gradient, divided by the largest curvature; less where noise outweighs it."""
    gradient = np.einsum("ipq,iq->ip", sums.gram, before) - sums.right
    largest = np.linalg.eigvalsh(sums.gram)[:, -1]
    rank = before.shape[1]
    expected = sums.variance * np.trace(sums.second, axis1=1, axis2=2) + rank * sums.noise
    # The share of the squared gradients that is not error, over all rows: a step of this length does the least harm.
    # What error alone reaches by chance, within three standard deviations, does not count as signal.
    chance = 1.0 + 3.0 * math.sqrt(2.0 / gradient.size)
    signal = max(1.0 - chance * float(np.sum(expected)) / max(float(np.sum(gradient**2)), 1e-300), 0.0)
    moved: Array = before - _RATE * signal * gradient / np.where(largest > _NOTHING, largest, np.inf)[:, None]
    return moved


def predict_error(case: Case) -> float:
    """Predict the error of gradient perturbation."""
    return _BEHIND * predict_refined_error(case, PASSES)


METHOD = Method(
    name="gradient",
    title="gradient perturbation",
    unit="value",
    run=run_gradient,
    proofs=(
        "docs/guarantees.md#sums",
        "docs/guarantees.md#counts",
        "docs/guarantees.md#input",
        "docs/guarantees.md#gradient",
        "docs/guarantees.md#errors",
        "docs/guarantees.md#post-processing",
    ),
    expected=predict_error,
    uses_core=True,
    audit_runs=8_000,
)
