"""The CP model: a sum of rank-one components, with an optional baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import tensorly_bridge as bridge
from tensorveil.models.checks import check_biases, check_matrices, check_order, checked_offset, float_arrays
from tensorveil.models.contract import Floats
from tensorveil.models.cp_algebra import cp_design, cp_grid, cp_values
from tensorveil.models.evaluate import GIBIBYTE, predict_columns, predict_slice
from tensorveil.models.folding import NewRows, appended, appended_mode, solve_rows
from tensorveil.models.indexing import checked_columns, labelled_columns
from tensorveil.models.ranking import Ranking, rank_candidates
from tensorveil.models.storage import StoredModel, write_model
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.checks import as_bounds
from tensorveil.tensor.modes import checked_modes, find_axis


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CPModel:
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

    >>> factors = [[1.0], [2.0]], [[3.0], [4.0], [5.0]]
    >>> model = CPModel(factors=factors, modes=("user", "film"), bounds=(0, 9))
    >>> model.predict([[0, 1], [1, 2]]).tolist()
    [4.0, 9.0]
    >>> model.slice({"user": 1}).tolist()
    [6.0, 8.0, 9.0]
    >>> model.top(1, given={"user": 0}, along="film").indices.tolist()
    [2]
    """

    factors: tuple[Floats, ...]
    offset: float = 0.0
    biases: tuple[Floats, ...] | None = None
    modes: tuple[Mode, ...] = None  # type: ignore[assignment]
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_order(self.factors)
        named = {f"factors[{m}]": factor for m, factor in enumerate(self.factors)}
        named |= {f"biases[{m}]": bias for m, bias in enumerate(self.biases or ())}
        arrays = list(float_arrays(named).values())
        factors = tuple(arrays[: len(self.factors)])
        biases = None if self.biases is None else tuple(arrays[len(self.factors) :])
        check_matrices(factors)
        if len({factor.shape[1] for factor in factors}) > 1:
            ranks = [factor.shape[1] for factor in factors]
            raise InputError(f"factors must all have as many columns as the rank; got {ranks}.")
        shape = tuple(len(factor) for factor in factors)
        check_biases(biases, shape)
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "biases", biases)
        object.__setattr__(self, "offset", checked_offset(self.offset))
        object.__setattr__(self, "modes", checked_modes(self.modes, shape))
        object.__setattr__(self, "bounds", as_bounds(self.bounds))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.factors)

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.factors[0].shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of factors and predictions."""
        return self.factors[0].dtype

    @property
    def n_parameters(self) -> int:
        """Number of fitted numbers."""
        return 1 + sum(array.size for array in (*self.factors, *(self.biases or ())))

    @property
    def nbytes(self) -> int:
        """Memory of factors and biases."""
        return sum(array.nbytes for array in (*self.factors, *(self.biases or ())))

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"CPModel({sizes}, rank={self.rank}, {self.dtype}, {self.n_parameters:,} parameters)"

    def multilinear(self, columns: NDArray[np.int32], threads: int | None = None) -> Floats:
        """Give the multilinear part at checked (order, n) columns, without offset, biases and clipping."""
        return cp_values(columns, self.factors, threads)

    def design(self, columns: NDArray[np.int32], mode: int) -> Floats:
        """Give (n, rank) such that the multilinear part is design . row of ``mode``."""
        return cp_design(columns, self.factors, mode)

    def grid(self, rows: Sequence[Floats]) -> Floats:
        """Give the dense multilinear part spanned by one (J, rank) matrix per mode."""
        return cp_grid(rows)

    def predict(self, coords: Any, *, clip: bool = True, threads: int | None = None) -> Floats:
        """Predict at (n, order) integer coordinates."""
        return predict_columns(self, checked_columns(coords, self.shape), clip=clip, threads=threads)

    def predict_labels(self, labels: Any, *, clip: bool = True, threads: int | None = None) -> Floats:
        """Predict at labels: a frame or mapping with a column per mode, or one sequence per mode."""
        return predict_columns(self, labelled_columns(labels, self.modes, self.shape), clip=clip, threads=threads)

    def slice(self, given: Mapping[Any, Any], *, clip: bool = True, max_bytes: int = GIBIBYTE) -> Floats:
        """Predict every cell at ``given`` {mode: index or label}, over the remaining modes in order.

        In a mode with labels the value is a label; an integer in a mode with text labels is an index.
        """
        return predict_slice(self, given, clip=clip, max_bytes=max_bytes)

    def dense(self, max_bytes: int = GIBIBYTE, *, clip: bool = True) -> Floats:
        """Predict every cell; refuses with `MemoryLimitError` above ``max_bytes``."""
        return predict_slice(self, {}, clip=clip, max_bytes=max_bytes)

    def top(
        self,
        n: int = 10,
        *,
        given: Mapping[Any, Any],
        along: str | int,
        exclude: ObservedTensor | Sequence[int] | None = None,
        largest: bool = True,
    ) -> Ranking:
        """Rank the indices of mode ``along`` at ``given`` {mode: index or label}, best first.

        A mode that is neither given nor ranked along is averaged out: the ranking is by the mean
        prediction over all its indices. ``exclude`` leaves out indices, or what a tensor has observed
        at the given indices already.
        """
        return rank_candidates(self, n, given, along, exclude, largest)

    def solve_rows(
        self,
        tensor: ObservedTensor,
        mode: str | int,
        *,
        regularization: float | None = None,
        noise_variance: float | None = None,
    ) -> NewRows:
        """Compute rows of ``mode`` for the tensor's indices of it, all other modes staying as they are.

        Ridge regression. By default the rows are drawn towards the mean and the spread of the existing
        rows; with ``regularization`` towards zero, with penalty ``regularization * noise_variance``. The
        noise variance is estimated when it is not given.
        """
        return solve_rows(self, tensor, mode, regularization, noise_variance)

    def fold_in(
        self,
        tensor: ObservedTensor,
        mode: str | int,
        *,
        regularization: float | None = None,
        noise_variance: float | None = None,
    ) -> CPModel:
        """Give a new model with rows appended for the tensor's indices of ``mode``; see `solve_rows`."""
        position = find_axis(self.modes, mode)
        named = appended_mode(self.modes[position], tensor.modes[position])
        new = self.solve_rows(tensor, mode, regularization=regularization, noise_variance=noise_variance)
        biases = self.biases
        if biases is not None and new.biases is not None:
            biases = appended(biases, position, new.biases)
        modes = (*self.modes[:position], named, *self.modes[position + 1 :])
        return replace(self, factors=appended(self.factors, position, new.rows), biases=biases, modes=modes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, whole or not at all; read it with `tensorveil.load_model`."""
        write_model(
            path,
            StoredModel(
                kind="cp",
                offset=self.offset,
                bounds=self.bounds,
                modes=self.modes,
                factors=self.factors,
                biases=self.biases,
            ),
        )

    def to_tensorly(self, *, include_baseline: bool = True) -> Any:
        """Give a TensorLy CPTensor; offset and biases become extra components, or are left out."""
        tl = bridge.tensorly_module()
        weights, factors = np.ones(self.rank, dtype=self.dtype), [f.copy() for f in self.factors]
        if include_baseline and (self.offset != 0.0 or self.biases is not None):
            weights, factors = bridge.cp_with_baseline(self.factors, self.offset, self.biases)
        return tl.cp_tensor.CPTensor((tl.tensor(weights), [tl.tensor(factor) for factor in factors]))
