"""Unit "entry": alternating least squares on noisy Gram matrices and right-hand sides.

Positions are private, so the design of every row is too: each row's sum of h h' and of y h gets noise, also where there
is no entry at all. Adding or removing an entry changes one row of a mode by (h h', y h); with h scaled by the largest
possible length (known from the already private factors) and y to [-1, 1], this has length at most sqrt(2).
"""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.design import draw_start, make_entry_design, scale_columns
from tensorveil.mechanisms.method import NOT_COMPARED, Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.privacy.private import Private
from tensorveil.solvers.task import Solution

SWEEPS = 2
_MEAN_SHARE = 0.1


def run_gram(data: PrivateEntries, form: Form, spend: Spend) -> Outcome:
    """Release an offset and factors; a Tucker core stays at its public random start.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#entry).
    """
    order = len(data.shape)
    steps = SWEEPS * order
    for_mean, *rest = spend.split(_MEAN_SHARE, *[(1 - _MEAN_SHARE) / steps] * steps)
    center = _mean(data, for_mean)
    parts: list[Part] = [for_mean.part("mean", "sum and number of the entries")]
    core, factors = draw_start(data.shape, form)
    reach = max(data.bounds[1] - center, center - data.bounds[0])
    residual = Private((data.values.reveal() - center) / reach)
    for turn, step in enumerate(rest):
        mode = turn % order
        factors = [factor if k == mode else scale_columns(factor) for k, factor in enumerate(factors)]
        factors[mode] = _rows(data, core, factors, mode, residual, step) * reach
        parts.append(step.part(f"factor {mode}, sweep {turn // order}", "Gram matrix and right-hand side of every row"))
    solution = Solution(factors=tuple(factors), core=core, offset=center, biases=None)
    return Outcome(solution=solution, parts=tuple(parts))


def _mean(data: PrivateEntries, spend: Spend) -> float:
    """Return the mean from a noisy sum and a noisy number of entries."""
    low, high = data.bounds
    middle, half, values = 0.5 * (low + high), 0.5 * (high - low), data.values.reveal()
    rows = np.stack([(values - middle) / half, np.ones(len(values))], axis=1)
    everything = np.zeros(len(values), dtype=np.int64)
    total, count = spend.bounded_rows(rows, everything, 1, longest=np.sqrt(2.0)).values[0]
    return float(np.clip(middle + half * total / max(count, 1.0), low, high))


def _rows(
    data: PrivateEntries, core: Array | None, factors: list[Array], mode: int, residual: Private[Array], spend: Spend
) -> Array:
    """Return the rows that solve the noisy normal equations."""
    columns = data.columns.reveal()
    longest = _longest(core, factors, mode)
    design = make_entry_design(columns, core, factors, mode) / longest
    rank = design.shape[1]
    low, high = np.tril_indices(rank)
    stretch = np.where(low == high, 1.0, np.sqrt(2.0))  # so that lengths are those of the whole matrix
    rows = np.concatenate([design[:, low] * design[:, high] * stretch, residual.reveal()[:, None] * design], axis=1)
    noisy = spend.bounded_rows(rows, columns[mode], data.shape[mode], longest=np.sqrt(2.0))
    gram = np.zeros((data.shape[mode], rank, rank))
    gram[:, low, high] = noisy.values[:, : len(low)] / stretch
    gram[:, high, low] = gram[:, low, high]
    values, vectors = np.linalg.eigh(gram)
    # Eigenvalues below the noise are not curvature; the ridge keeps such directions near zero.
    ridge = 2.0 * np.sqrt(noisy.variance * rank) + 1e-9
    turned = np.einsum("ipq,ip->iq", vectors, noisy.values[:, len(low) :])
    solved: Array = np.einsum("ipq,iq->ip", vectors, turned / (np.maximum(values, 0.0) + ridge))
    return solved / longest


def _longest(core: Array | None, factors: list[Array], mode: int) -> float:
    """Bound the length of any possible design: product of the longest rows (times the core's norm)."""
    longest = 1.0 if core is None else float(np.sqrt(np.sum(core**2)))
    for k, factor in enumerate(factors):
        if k != mode:
            longest *= float(np.sqrt(np.max(np.sum(factor**2, axis=1))))
    return max(longest, 1e-100)  # what is longer all the same, by rounding, is shortened before it is summed


METHOD = Method(
    name="gram",
    title="alternating least squares on private Gram matrices",
    unit="entry",
    run=run_gram,
    proofs=("docs/guarantees.md#entry", "docs/guarantees.md#post-processing"),
    expected=NOT_COMPARED,
    uses_core=True,
)
