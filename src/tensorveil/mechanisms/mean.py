"""The private mean, alone (the constant predictor) or as the first step of other mechanisms."""

from __future__ import annotations

from functools import partial

import numpy as np

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Array, Form, Outcome, make_constant
from tensorveil.mechanisms.deferred import beside, each, put_together
from tensorveil.mechanisms.errors import errors_share, private_errors
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import SIGNAL
from tensorveil.privacy.gate import PrivateValues


def private_mean(data: PrivateValues, spend: Spend) -> float:
    """Return the mean, from one noisy sum; the number of entries is public.

    Guarantee: ``spend``, unit value (docs/guarantees.md#sums).
    """
    half, values = 0.5 * data.width, data.values.reveal()
    everything = beside(values, put_together(data.columns), put_together)
    around = each(partial(_leave_middle, data.middle), values)
    total = spend.sums(around, -half, half, everything, 1).values[0]
    return float(np.clip(data.middle + total / data.n_entries, *data.bounds))


def _leave_middle(middle: float, values: Array) -> Array:
    around: Array = values - middle
    return around


def run_mean(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release the constant predictor, and how values are spread around it.

    Guarantee: ``spend``, unit value (docs/guarantees.md#sums, docs/guarantees.md#errors).
    """
    share = errors_share(spend, data.n_entries)
    for_mean, for_errors = spend.split(1 - share, share)
    solution = make_constant(data.shape, form, private_mean(data, for_mean))
    errors, part = private_errors(data, solution, form.threads, for_errors)
    return Outcome(solution=solution, parts=(for_mean.part("mean", "sum of the values"), part), errors=errors)


def predict_error(case: Case) -> float:
    """Predict the error of a constant: all signal, and the noise on the mean."""
    return SIGNAL + case.mean_noise


METHOD = Method(
    name="mean",
    title="private mean",
    unit="value",
    run=run_mean,
    proofs=("docs/guarantees.md#sums", "docs/guarantees.md#errors"),
    expected=predict_error,
    has_rank=False,
    audit_runs=1_000_000,
)
