"""Input perturbation: every value gets noise of its own, and a solver that knows the noise does the rest at no cost.

It is the last of the stages alone: a small share of the budget buys a private mean and a histogram of the residuals,
which are clipped to an interval much narrower than the declared bounds; the noise is scaled to that.
"""

from __future__ import annotations

import math

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import VALUES
from tensorveil.mechanisms.stages import run_stages
from tensorveil.mechanisms.tradeoffs import (
    BIASES,
    INTERACTIONS,
    SIGNAL,
    TYPICAL_SQUARE,
    bending,
    clipped_noise,
    input_gain,
    input_spreads,
    parameters,
    shrinkage_error,
    sum_bending,
)
from tensorveil.privacy.gate import PrivateValues

PROOFS = (
    "docs/guarantees.md#sums",
    "docs/guarantees.md#counts",
    "docs/guarantees.md#input",
    "docs/guarantees.md#errors",
    "docs/guarantees.md#post-processing",
)
# Components are lost below the first of these clarities and found above the second.
_LOST, _CLEAR = 0.8, 1.7


def run_input(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release a model fitted to perturbed residuals from a private mean.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input).
    """
    return run_stages(data, form, spend, [VALUES])


def gain_of_input(spend: Spend, data: PrivateValues, form: Form) -> float:
    """Return what noise on every value adds to predictions, for values within a width of 1."""
    return input_gain(
        spend.noise_of_values(TYPICAL_SQUARE), data.n_entries, parameters(data.shape, form.ranks, form.core)
    )


def predict_start_error(case: Case) -> float:
    """Predict the error where the components are found."""
    spreads = input_spreads(case.value_noise, case.input_gain)
    per_value = clipped_noise(case.input_gain, spreads) + (1 - SIGNAL) * case.parameters / case.n_entries
    return shrinkage_error(SIGNAL, per_value) + bending(spreads)


def allow_for_loss(case: Case, error: float, clear: float) -> float:
    """Predict the error where components may be lost; biases, which are found all the same, remain.

    ``error`` is the error if they are found, which is certain from the clarity ``clear`` on.
    """
    found = min(max(math.log(case.clarity / _LOST) / math.log(clear / _LOST), 0.0), 1.0)
    count = float(sum(case.shape))
    spreads = input_spreads(case.value_noise, case.input_gain)
    gain = input_gain(case.value_noise, case.n_entries, count)
    per_value = clipped_noise(gain, spreads) + (1 - BIASES) * count / case.n_entries
    lost = INTERACTIONS + shrinkage_error(BIASES, per_value) + sum_bending(spreads)
    return found * error + (1 - found) * min(lost, SIGNAL)


def predict_error(case: Case) -> float:
    """Predict the error of input perturbation."""
    case = case.part(0.94)  # the rest is for mean, spread and slope
    return allow_for_loss(case, predict_start_error(case), _CLEAR) + case.side_noise


METHOD = Method(
    name="input",
    title="input perturbation",
    unit="value",
    run=run_input,
    proofs=PROOFS,
    expected=predict_error,
    fits_values=True,
    smooths=True,
)
