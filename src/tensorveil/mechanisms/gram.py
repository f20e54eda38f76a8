"""Unit "entry": alternating least squares on noisy Gram matrices and right-hand sides.

Positions are private, so the design of every row is too: each row's sum of h h' and of y h gets noise, also where there
is no entry at all. Adding or removing an entry changes one row of a mode by (h h', y h); with h scaled by the largest
possible length (known from the already private factors) and y to [-1, 1], this has length at most sqrt(2).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.deferred import each
from tensorveil.mechanisms.design import draw_start, make_entry_design, scale_columns
from tensorveil.mechanisms.entry_errors import private_entry_errors
from tensorveil.mechanisms.method import NOT_COMPARED, Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import private_total
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.privacy.private import Private
from tensorveil.solvers.task import Solution

SWEEPS = 2
_MEAN_SHARE, _ERRORS_SHARE = 0.1, 0.03
# Levels of errors are parted by predictions at so many cells.
_PLACES = 5_000


def run_gram(data: PrivateEntries, form: Form, spend: Spend) -> Outcome:
    """Release an offset and factors, with their errors; a Tucker core stays at its public random start.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#entry).
    """
    order = len(data.shape)
    steps = SWEEPS * order
    last = _ERRORS_SHARE
    for_mean, for_errors, *rest = spend.split(_MEAN_SHARE, last, *[(1 - _MEAN_SHARE - last) / steps] * steps)
    total = private_total(data, for_mean)
    center = total.mean
    parts: list[Part] = [for_mean.part("mean", "sum and number of the entries")]
    core, factors = draw_start(data.shape, form)
    reach = max(data.bounds[1] - center, center - data.bounds[0])
    residual = Private(each(partial(_scale_values, center, reach), data.values.reveal()))
    for turn, step in enumerate(rest):
        mode = turn % order
        factors = [factor if k == mode else scale_columns(factor) for k, factor in enumerate(factors)]
        factors[mode] = _rows(data, core, factors, mode, residual, step) * reach
        parts.append(step.part(f"factor {mode}, sweep {turn // order}", "Gram matrix and right-hand side of every row"))
    solution = Solution(factors=tuple(factors), core=core, offset=center, biases=None)
    parts.append(for_errors.part("errors", "histogram of the residuals of the released predictions"))
    rng = np.random.default_rng(form.seed)
    places = np.stack([rng.integers(0, size, _PLACES) for size in data.shape]).astype(np.int32)
    errors = private_entry_errors(data, solution, places, total.count, for_errors)
    return Outcome(solution=solution, parts=tuple(parts), errors=errors)


def _rows(
    data: PrivateEntries, core: Array | None, factors: list[Array], mode: int, residual: Private[Array], spend: Spend
) -> Array:
    """Return the rows that solve the noisy normal equations."""
    columns = data.columns.reveal()
    longest = _longest(core, factors, mode)
    rank = factors[mode].shape[1]
    low, high = np.tril_indices(rank)
    stretch = np.where(low == high, 1.0, np.sqrt(2.0))  # so that lengths are those of the whole matrix
    rows = each(partial(_make_rows, core, factors, mode, longest, stretch), columns, residual.reveal())
    own = each(partial(_take_mode, mode), columns)
    noisy = spend.bounded_rows(rows, own, data.shape[mode], longest=np.sqrt(2.0))
    gram = np.zeros((data.shape[mode], rank, rank))
    gram[:, low, high] = noisy.values[:, : len(low)] / stretch
    gram[:, high, low] = gram[:, low, high]
    values, vectors = np.linalg.eigh(gram)
    # Eigenvalues below the noise are not curvature; the ridge keeps such directions near zero.
    ridge = 2.0 * np.sqrt(noisy.variance * rank) + 1e-9
    turned = np.einsum("ipq,ip->iq", vectors, noisy.values[:, len(low) :])
    solved: Array = np.einsum("ipq,iq->ip", vectors, turned / (np.maximum(values, 0.0) + ridge))
    return solved / longest


def _scale_values(center: float, reach: float, values: Array) -> Array:
    return (values - center) / reach


def _take_mode(mode: int, columns: Array) -> Array:
    own: Array = columns[mode]
    return own


def _make_rows(
    core: Array | None,
    factors: list[Array],
    mode: int,
    longest: float,
    stretch: Array,
    columns: Array,
    residual: Array,
) -> Array:
    """Return every entry's share of the Gram matrix and of the right-hand side of its row."""
    design = make_entry_design(columns, core, factors, mode) / longest
    low, high = np.tril_indices(design.shape[1])
    return np.concatenate([design[:, low] * design[:, high] * stretch, residual[:, None] * design], axis=1)


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
    proofs=("docs/guarantees.md#entry", "docs/guarantees.md#errors", "docs/guarantees.md#post-processing"),
    expected=NOT_COMPARED,
    uses_core=True,
)
