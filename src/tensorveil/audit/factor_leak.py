"""What noiseless factors give away: one hidden value, from the factors and all other values.

A converged fit is stationary: the gradient of every row vanishes. If one factor got noise, its rows are solved again
from the others, as functions of the hidden value. The gradients of the rows that the hidden entry touches are then
functions of that value alone, and vanish at the true one. Only the factors without noise are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.cp_algebra import cp_design

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Leak:
    """What an attacker knows of a CP fit: the positions of all entries, all values but one, the factors, the ridge.

    Parameters
    ----------
    columns, values
        All entries. Subtract the offset and the biases of the model from the values first.
    hidden
        The number of the hidden entry; ``values[hidden]`` is never read.
    factors
        The factors of the fit.
    regularization, per_entry
        The ridge of a row is ``regularization``, times the row's number of entries if ``per_entry``, as in the papers'
        descent.
    solved
        The mode whose factor got noise and is solved again, or None if no factor did.
    """

    columns: Array
    values: Array
    hidden: int
    factors: tuple[Array, ...]
    regularization: float
    per_entry: bool
    solved: int | None

    def __post_init__(self) -> None:
        if not 0 <= self.hidden < len(self.values):
            raise InputError("hidden must be the number of an entry.")
        values = np.array(self.values, dtype=np.float64)
        values[self.hidden] = 0.0
        object.__setattr__(self, "values", values)

    def ridge(self, entries: int) -> float:
        """Return the ridge of a row with this many entries."""
        return self.regularization * (entries if self.per_entry else 1)


def recover(leak: Leak, bounds: tuple[float, float]) -> float:
    """Return the value, within bounds, at which the rows that the hidden entry touches are most nearly stationary.

    >>> import tensorveil as tv
    >>> data = tv.synthetic_cp((9, 8, 7), 2, snr=4.0, missing=0.3, random_state=0).train
    >>> fit = tv.CP(2, solver="als", baseline="none", regularization=1e-6, tol=0.0, sweeps=300, random_state=1)
    >>> fit = fit.fit(data)
    >>> leak = Leak(columns=data.columns, values=data.values, hidden=7, factors=fit.model_.factors,
    ...             regularization=0.0, per_entry=False, solved=2)
    >>> bool(abs(recover(leak, (-3.0, 3.0)) - data.values[7]) < 1e-6)
    True
    """
    size = residual(leak)
    # The real parts of all turning points: rounding may push a double root off the axis, and a wrong one does no harm.
    turns = np.real(np.asarray(size.deriv().roots(), dtype=complex))
    places = np.concatenate([np.clip(turns, *bounds), bounds])
    return float(places[np.argmin(size(places))])


def residual(leak: Leak) -> Polynomial:
    """Return the squared length of the touched rows' gradients, as a polynomial of the hidden value."""
    solved_rows = None if leak.solved is None else _solve_again(leak)
    total = Polynomial([0.0])
    for mode in range(len(leak.factors)):
        if mode != leak.solved:
            for coordinate in _gradient(leak, mode, solved_rows).T:
                total = total + Polynomial(coordinate) ** 2
    return total


def _gradient(leak: Leak, mode: int, solved_rows: tuple[Array, Array] | None) -> Array:
    """Return the gradient sum (prediction - x) h + ridge a of the hidden entry's row a: coefficients of 1, v, v^2."""
    here = leak.columns[mode] == leak.columns[mode, leak.hidden]
    columns = leak.columns[:, here]
    own = (np.flatnonzero(here) == leak.hidden).astype(np.float64)
    row = leak.factors[mode][leak.columns[mode, leak.hidden]]
    factors = list(leak.factors)
    if leak.solved is None or solved_rows is None:
        fixed = cp_design(columns, factors, mode)
        moving = np.zeros_like(fixed)
    else:
        rows, slope = solved_rows
        factors[leak.solved] = rows
        fixed = cp_design(columns, factors, mode)
        # Entries in the hidden entry's slice of the solved mode: their design moves with the value.
        touched = columns[leak.solved] == leak.columns[leak.solved, leak.hidden]
        factors[leak.solved] = np.broadcast_to(slope, rows.shape)
        moving = np.where(touched[:, None], cp_design(columns, factors, mode), 0.0)
    error = fixed @ row - leak.values[here]
    growth = moving @ row - own
    ridge = leak.ridge(int(here.sum())) * row
    return np.stack([error @ fixed + ridge, growth @ fixed + error @ moving, growth @ moving])


def _solve_again(leak: Leak) -> tuple[Array, Array]:
    """Return the rows of the solved mode with the hidden value at 0, and how the touched row moves with it."""
    assert leak.solved is not None
    column = leak.columns[leak.solved]
    design = cp_design(leak.columns, leak.factors, leak.solved)
    rows = np.zeros(leak.factors[leak.solved].shape)
    slope: Array = np.zeros(design.shape[1])
    for k in np.unique(column).tolist():
        here = column == k
        h = design[here]
        gram = h.T @ h + leak.ridge(int(here.sum())) * np.eye(h.shape[1])
        rows[k] = np.linalg.solve(gram, h.T @ leak.values[here])
        if k == column[leak.hidden]:
            slope = np.linalg.solve(gram, design[leak.hidden])
    return rows, slope
