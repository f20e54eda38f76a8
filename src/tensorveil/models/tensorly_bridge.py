"""To and from TensorLy's CP and Tucker tensors, baseline included.

An offset is one rank-one component of ones, and a bias vector is one component whose other modes are
ones; so a model with a baseline is again a plain CP or Tucker tensor, of a slightly larger rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.models.contract import Floats


def tensorly_module() -> Any:
    """Import TensorLy, or explain how to install it."""
    try:
        import tensorly
    except ImportError as error:
        raise MissingDependencyError(
            "to_tensorly needs TensorLy. Install it with: pip install 'tensorveil[tensorly]'"
        ) from error
    return tensorly


def cp_with_baseline(
    factors: Sequence[Floats], offset: float, biases: Sequence[Floats] | None
) -> tuple[Floats, list[Floats]]:
    """Return weights and factors of a CP tensor that includes offset and biases."""
    biases = biases or ()
    weights = np.ones(factors[0].shape[1] + 1 + len(biases), dtype=factors[0].dtype)
    weights[factors[0].shape[1]] = offset
    wide = []
    for m, factor in enumerate(factors):
        ones = np.ones((len(factor), 1 + len(biases)), dtype=factor.dtype)
        if biases:
            ones[:, 1 + m] = biases[m]
        wide.append(np.concatenate([factor, ones], axis=1))
    return weights, wide


def tucker_with_baseline(
    core: Floats, factors: Sequence[Floats], offset: float, biases: Sequence[Floats] | None
) -> tuple[Floats, list[Floats]]:
    """Return core and factors of a Tucker tensor that includes offset and biases."""
    extra = 1 if biases is None else 2
    wide_core = np.pad(core, [(0, extra)] * core.ndim)
    ones_at = list(core.shape)  # each factor's first new column is the column of ones
    wide_core[tuple(ones_at)] = offset
    wide = []
    for m, factor in enumerate(factors):
        columns = [factor, np.ones((len(factor), 1), dtype=factor.dtype)]
        if biases is not None:
            columns.append(biases[m][:, None])
            wide_core[tuple(r + 1 if axis == m else r for axis, r in enumerate(ones_at))] = 1.0
        wide.append(np.concatenate(columns, axis=1))
    return wide_core, wide


def split_parts(obj: Any) -> tuple[Floats | None, list[Floats]]:
    """Take (weights or core, factors) out of a TensorLy tensor or a plain pair."""
    try:
        head, factors = obj
        arrays = [np.asarray(factor) for factor in factors]
        leading = None if head is None else np.asarray(head)
    except (TypeError, ValueError) as error:
        raise InputError(
            "obj must be a tensorly CPTensor or TuckerTensor, or a pair (weights or core, factors)."
        ) from error
    return leading, arrays


def is_tucker(leading: Floats | None, factors: Sequence[Floats]) -> bool:
    """Tell a core (one axis per mode) from weights (one axis at most)."""
    return leading is not None and leading.ndim == len(factors)


def spread_weights(factors: Sequence[Floats], weights: Floats | None) -> tuple[Floats, ...]:
    """Spread the weights evenly over the modes, the sign going to the first."""
    if weights is None:
        return tuple(factors)
    weights = np.atleast_1d(weights)
    root = np.abs(weights) ** (1.0 / len(factors))
    return tuple(f * (root * np.sign(weights) if m == 0 else root) for m, f in enumerate(factors))


def refuse_remainder(present: bool) -> None:
    """Refuse to turn what is added cell by cell into components."""
    if present:
        raise InputError(
            "to_tensorly cannot hold what this model adds cell by cell. Try include_baseline=False, or dense()."
        )
