"""Private biases from noisy sums per index of every mode: the first of the stages alone."""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import ONE_WAY
from tensorveil.mechanisms.stages import run_stages
from tensorveil.mechanisms.tradeoffs import INTERACTIONS, bias_error, mean_share, sum_bending, sum_shares
from tensorveil.privacy.gate import PrivateValues


def run_margins(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release an offset and biases.

    Guarantee: ``spend``, unit value (docs/guarantees.md#stages).
    """
    return run_stages(data, form, spend, [ONE_WAY])


def predict_error(case: Case) -> float:
    """Predict the error of biases alone: interactions, which are not fitted, and the error of the biases."""
    counts = [np.array([case.n_entries / size]) for size in case.shape]
    # The sums get what mean and histogram leave; the prediction reckons with a little less.
    rest = case.part(0.97 - mean_share(case.noise, case.n_entries))
    shares, spreads = sum_shares(rest.noise, counts, power=2 if case.epsilon is not None else 1)
    noises = (rest.part(share).noise * (2 * spreads) ** 2 for share in shares)
    found = sum(bias_error(noise, count, len(counts)) for noise, count in zip(noises, counts, strict=True))
    return INTERACTIONS + found + sum_bending(spreads) + case.side_noise


METHOD = Method(
    name="margins",
    title="private margins",
    unit="value",
    run=run_margins,
    proofs=(
        "docs/guarantees.md#sums",
        "docs/guarantees.md#counts",
        "docs/guarantees.md#stages",
        "docs/guarantees.md#errors",
    ),
    expected=predict_error,
    has_rank=False,
    smooths=True,
)
