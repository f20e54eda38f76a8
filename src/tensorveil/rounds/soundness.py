"""Which states an honest run can be in: what a contributor checks before it answers, and what every round keeps to.

The bound on contributions holds for any state (kernels/bounding.py). This check comes before it: a state that no sum,
however noisy, leads to was made up, and a question about it is not answered.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.rounds.contract import BIAS_PRECISIONS, COUNTS, OFFSET, SPREAD, TASTE_COVARIANCE, USERS, State
from tensorveil.rounds.stage import Setup

__all__ = ["LEAST_COUNT", "check_state", "make_definite"]

Array = NDArray[Any]

LEAST_COUNT: Final = 1e-6  # of a row's entries, however strongly noise says that there are none
# Shares of the variances by which a covariance is above zero in every direction. Rounds leave more than is asked for,
# so that rounding, which differs between machines, never decides.
_LEFT, _ASKED = 1e-10, 0.0


def check_state(setup: Setup, state: State) -> None:
    """Refuse a state that no honest run can be in.

    Parameters
    ----------
    setup
        The public facts of the fit.
    state
        A state that came from outside, with the arrays that belong to its round.
    """
    if not all(np.isfinite(array).all() for array in state.arrays.values()):
        raise InputError("state must hold finite numbers.")
    if any(float(state[name][0]) <= 0.0 for name in (SPREAD, USERS) if name in state):
        raise InputError("spread and users of a state must be above 0.")
    if np.any(state[COUNTS] < LEAST_COUNT) or np.any(state[BIAS_PRECISIONS] < 0.0):
        raise InputError("counts of a state must not vanish, and precisions must not be negative.")
    if abs(float(state[OFFSET][0]) - setup.middle) > setup.half * (1 + 1e-9):
        raise InputError("offset of a state must lie between the bounds.")
    covariance = state[TASTE_COVARIANCE]
    if not (np.array_equal(covariance, covariance.T) and _is_definite(covariance, _ASKED)):
        raise InputError("taste_covariance of a state must be symmetric and positive definite.")


def make_definite(covariance: Array) -> Array:
    """Return a covariance that is symmetric and, whatever rounding did to it, positive definite."""
    out: Array = 0.5 * (covariance + covariance.T)
    more = _LEFT
    while not _is_definite(out, _LEFT):
        # A diagonal that outgrows all the rest makes any matrix definite.
        out[np.diag_indices(len(out))] = np.maximum(np.diag(out) * (1 + more), np.finfo(float).tiny)
        more *= 10
    return out


def _is_definite(matrix: Array, share: float) -> bool:
    """Tell whether a matrix stays positive definite without a share of its diagonal."""
    try:
        np.linalg.cholesky(matrix - share * np.diag(np.diag(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True
