"""The posterior of rows on a store: the parts of a mode's order update their rows, here or elsewhere.

What a part needs are the moments of the other modes' rows; what it gives are those of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tensorveil.kernels.bayes_cp import cp_bayes_mode
from tensorveil.kernels.posterior import Posterior
from tensorveil.kernels.rows import Rows
from tensorveil.solvers.stored_rows import Elsewhere, StoredRows
from tensorveil.solvers.task import Array, Scaling, Task
from tensorveil.tensor.stored import StoredTensor

__all__ = ["Update", "UpdateRows", "find_update"]

# Of a mode, given posterior, prior's center and precision, variance, and precision of biases: updates the mode's rows
# in place; returns the expected residual sum of squares, and the sum of the log determinants of covariances.
Update = Callable[[int, Posterior, Array, Array, float, float | None], tuple[float, float]]


def find_update(task: Task, stored: StoredTensor, scaling: Scaling) -> Update:
    """Return what updates the rows of a mode, part by part."""
    if task.elsewhere is None:
        return partial(_update_here, StoredRows(stored, scaling, np.dtype(np.float64)), task.threads)
    return partial(_update_elsewhere, task.elsewhere, scaling)


def _update_here(
    rows: StoredRows, threads: int | None, mode: int, posterior: Posterior, center: Array, alpha: Array,
    variance: float, beta: float | None,
) -> tuple[float, float]:  # fmt: skip
    residual = logdet = 0.0
    for first, grouped in rows.read(mode):
        sums, more = cp_bayes_mode(grouped, posterior, center, alpha, variance, beta, threads, first=first)
        residual, logdet = residual + sums.after, logdet + more
    return residual, logdet


@dataclass(frozen=True, kw_only=True, eq=False)
class UpdateRows:
    """Update the rows of parts, as `PartWork`: ``others`` is the posterior of all modes but the one, which is empty."""

    mode: int
    others: Posterior
    center: Array
    alpha: Array
    variance: float
    beta: float | None

    def work_on(self, first: int, rows: Rows, threads: int | None) -> tuple[dict[str, float], list[Array]]:
        """Return the moments of the rows and of their biases."""
        count = len(rows.pointers) - 1
        posterior = _open_mode(self.others, self.mode, count)
        sums, logdet = cp_bayes_mode(rows, posterior, self.center, self.alpha, self.variance, self.beta, threads)
        own = posterior.rows(self.mode)
        found = (posterior.mean, posterior.second, posterior.bias, posterior.bias_variance)
        return {"residual": sums.after, "logdet": logdet}, [each[own] for each in found]


def _open_mode(posterior: Posterior, mode: int, size: int) -> Posterior:
    """Return a posterior in which a mode has so many rows, all nothing, in place of its own."""
    shape = tuple(size if m == mode else each for m, each in enumerate(posterior.shape))
    own = posterior.rows(mode)

    def put(each: Array) -> Array:
        nothing = np.zeros((size, *each.shape[1:]), each.dtype)
        return np.concatenate([each[: own.start], nothing, each[own.stop :]])

    return Posterior(
        shape=shape, ranks=posterior.ranks, starts=np.concatenate([[0], np.cumsum(shape)[:-1]]).astype(np.int64),
        mean=put(posterior.mean), second=put(posterior.second), bias=put(posterior.bias),
        bias_variance=put(posterior.bias_variance),
    )  # fmt: skip


def _update_elsewhere(
    elsewhere: Elsewhere, scaling: Scaling, mode: int, posterior: Posterior, center: Array, alpha: Array,
    variance: float, beta: float | None,
) -> tuple[float, float]:  # fmt: skip
    others = _open_mode(posterior, mode, 0)
    work = UpdateRows(mode=mode, others=others, center=center, alpha=alpha, variance=variance, beta=beta)
    residual = logdet = 0.0
    start = posterior.rows(mode).start
    kept = (posterior.mean, posterior.second, posterior.bias, posterior.bias_variance)
    for first, facts, arrays in elsewhere.work_on(mode, work, scaling, np.dtype(np.float64)):
        for array, found in zip(kept, arrays, strict=True):
            array[start + first : start + first + len(found)] = found
        residual, logdet = residual + facts["residual"], logdet + facts["logdet"]
    return residual, logdet
