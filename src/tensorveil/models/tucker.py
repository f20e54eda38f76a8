"""The Tucker model: a small core multiplied by one matrix per mode, with an optional baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import tensorly_bridge as bridge
from tensorveil.models.contract import Floats
from tensorveil.models.multilinear import MultilinearModel
from tensorveil.models.tucker_algebra import tucker_design, tucker_grid, tucker_values


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TuckerModel(MultilinearModel):
    """A fitted Tucker model: offset + biases + core multiplied by each mode's row.

    Parameters
    ----------
    core
        Array of shape (rank of mode 0, rank of mode 1, ...).
    factors
        One (size, rank of the mode) matrix per mode, 2 to 8 of them.
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

    >>> model = TuckerModel(core=[[1.0, 2.0]], factors=([[1.0], [3.0]], [[1.0, 0.0], [0.0, 1.0]]))
    >>> model.dense().tolist()
    [[1.0, 2.0], [3.0, 6.0]]
    """

    KIND: ClassVar[str] = "tucker"

    core: Floats

    def _own_arrays(self) -> dict[str, Floats]:
        return {"core": self.core}

    def _check_ranks(self, ranks: tuple[int, ...]) -> None:
        if self.core.shape != ranks:
            raise InputError(f"core must have the shape of the factors' ranks {ranks}; got {self.core.shape}.")

    @property
    def rank(self) -> tuple[int, ...]:
        """Rank of each mode: the shape of the core."""
        return self.core.shape

    def multilinear(self, columns: NDArray[np.int32], threads: int | None = None) -> Floats:
        """Return the core times the rows at checked (order, n) columns, without offset, biases and clipping."""
        return tucker_values(columns, self.core, self.factors, threads)

    def design(self, columns: NDArray[np.int32], mode: int) -> Floats:
        """Return (n, rank of the mode) such that the multilinear part is design . row of ``mode``."""
        return tucker_design(columns, self.core, self.factors, mode)

    def grid(self, rows: Sequence[Floats]) -> Floats:
        """Return the dense multilinear part spanned by one (J, rank) matrix per mode."""
        return tucker_grid(self.core, rows)

    def to_tensorly(self, *, include_baseline: bool = True) -> Any:
        """Return a TensorLy TuckerTensor; offset and biases enlarge the core, or are left out."""
        tl = bridge.tensorly_module()
        bridge.refuse_remainder(self.remainder is not None and include_baseline)
        core, factors = self.core.copy(), [f.copy() for f in self.factors]
        if include_baseline and (self.offset != 0.0 or self.biases is not None):
            core, factors = bridge.tucker_with_baseline(self.core, self.factors, self.offset, self.biases)
        return tl.tucker_tensor.TuckerTensor((tl.tensor(core), [tl.tensor(factor) for factor in factors]))
