"""The CP model: a sum of rank-one components, with an optional baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import tensorly_bridge as bridge
from tensorveil.models.contract import Floats
from tensorveil.models.cp_algebra import cp_design, cp_grid, cp_values
from tensorveil.models.multilinear import MultilinearModel


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CPModel(MultilinearModel):
    """A fitted CP model: offset + biases + sum over components of the products of the modes' rows.

    Parameters
    ----------
    factors
        One (size, rank) matrix per mode, 2 to 8 of them.
    offset
        The constant part of every prediction.
    biases
        One vector per mode, added to predictions; or None.
    modes
        Names, or modes with labels; default ``mode_0``, ``mode_1``, ...
    bounds
        (low, high) to which predictions are clipped; or None.
    remainder
        What is added cell by cell, in the shape of the model: what fits with two smooth modes that make one time leave
        over (`FitSettings`); or None.
    errors
        How values are spread around predictions, as private fits of unit "value" measure it; or None.
    link, loss
        How predictions follow from the linear part, and the name of the loss it was fitted by.

    >>> factors = [[1.0], [2.0]], [[3.0], [4.0], [5.0]]
    >>> model = CPModel(factors=factors, modes=("user", "film"), bounds=(0, 9))
    >>> model.predict([[0, 1], [1, 2]]).tolist()
    [4.0, 9.0]
    >>> model.slice({"user": 1}).tolist()
    [6.0, 8.0, 9.0]
    >>> model.top(1, given={"user": 0}, along="film").indices.tolist()
    [2]
    """

    KIND: ClassVar[str] = "cp"

    def _check_ranks(self, ranks: tuple[int, ...]) -> None:
        if len(set(ranks)) > 1:
            raise InputError(f"factors must all have as many columns as the rank; got {list(ranks)}.")

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.factors[0].shape[1])

    def multilinear(self, columns: NDArray[np.int32], threads: int | None = None) -> Floats:
        """Return the sum over components at checked (order, n) columns, without offset, biases and clipping."""
        return cp_values(columns, self.factors, threads)

    def design(self, columns: NDArray[np.int32], mode: int) -> Floats:
        """Return (n, rank) such that the multilinear part is design . row of ``mode``."""
        return cp_design(columns, self.factors, mode)

    def grid(self, rows: Sequence[Floats]) -> Floats:
        """Return the dense multilinear part spanned by one (J, rank) matrix per mode."""
        return cp_grid(rows)

    def to_tensorly(self, *, include_baseline: bool = True) -> Any:
        """Return a TensorLy CPTensor; offset and biases become extra components, or are left out."""
        tl = bridge.tensorly_module()
        bridge.refuse_remainder(self.remainder is not None and include_baseline)
        weights, factors = np.ones(self.rank, dtype=self.dtype), [f.copy() for f in self.factors]
        if include_baseline and (self.offset != 0.0 or self.biases is not None):
            weights, factors = bridge.cp_with_baseline(self.factors, self.offset, self.biases)
        return tl.cp_tensor.CPTensor((tl.tensor(weights), [tl.tensor(factor) for factor in factors]))
