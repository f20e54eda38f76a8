"""What CP and Tucker models share: the baseline, the checks, and everything that users ask of a fitted model."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.checks import (
    as_offset,
    check_biases,
    check_matrices,
    check_order,
    check_remainder,
    float_arrays,
)
from tensorveil.models.contract import Floats
from tensorveil.models.errors import Errors
from tensorveil.models.evaluate import GIBIBYTE, predict_columns, predict_intervals, predict_slice
from tensorveil.models.folding import NewRows, append_labels, append_rows, solve_rows
from tensorveil.models.indexing import find_columns, find_places
from tensorveil.models.link import IDENTITY, Link
from tensorveil.models.ranking import Ranking, rank_candidates
from tensorveil.models.storage import StoredModel, write_model
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.checks import as_bounds
from tensorveil.tensor.modes import check_modes, find_axis

# By this name it is stored.
REMAINDER = "remainder"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MultilinearModel(ABC):
    """Offset + biases + a part that is linear in each mode's rows; the form of that part is the subclass's.

    A form names itself (`KIND`), checks its ranks, and computes the multilinear part in three ways: at coordinates,
    as a regression design, and on a grid. Arrays of its own, such as a core, are fields that `_own_arrays` lists.
    """

    KIND: ClassVar[str]

    factors: tuple[Floats, ...]
    offset: float = 0.0
    biases: tuple[Floats, ...] | None = None
    modes: tuple[Mode, ...] = None  # type: ignore[assignment]
    bounds: tuple[float, float] | None = None
    errors: Errors | None = None
    # How predictions follow from the linear part, and the loss that says how values spread around them.
    link: Link = IDENTITY
    loss: str = "gaussian"
    value_name: str = "value"
    remainder: Floats | None = None

    def __post_init__(self) -> None:
        check_order(self.factors)
        own, order = self._own_arrays(), len(self.factors)
        named: dict[str, Any] = dict(own)
        named |= {f"factors[{m}]": factor for m, factor in enumerate(self.factors)}
        named |= {f"biases[{m}]": bias for m, bias in enumerate(self.biases or ())}
        # All arrays are converted together, because they share one floating type.
        arrays = list(float_arrays(named).values())
        for name, array in zip(own, arrays, strict=False):
            object.__setattr__(self, name, array)
        factors = tuple(arrays[len(own) : len(own) + order])
        biases = None if self.biases is None else tuple(arrays[len(own) + order :])
        check_matrices(factors)
        self._check_ranks(tuple(factor.shape[1] for factor in factors))
        shape = tuple(len(factor) for factor in factors)
        check_biases(biases, shape)
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "biases", biases)
        object.__setattr__(self, "offset", as_offset(self.offset))
        object.__setattr__(self, "modes", check_modes(self.modes, shape))
        object.__setattr__(self, "bounds", as_bounds(self.bounds))
        if self.remainder is not None:
            object.__setattr__(self, "remainder", check_remainder(self.remainder, shape, self.dtype))

    def _own_arrays(self) -> dict[str, Floats]:
        """Return the arrays that only this form has, by the names of their fields."""
        return {}

    @abstractmethod
    def _check_ranks(self, ranks: tuple[int, ...]) -> None:
        """Refuse numbers of columns that do not make a model of this form."""

    @abstractmethod
    def multilinear(self, columns: NDArray[np.int32], threads: int | None = None) -> Floats:
        """Return the multilinear part at checked (order, n) columns, without offset, biases and clipping."""

    @abstractmethod
    def design(self, columns: NDArray[np.int32], mode: int) -> Floats:
        """Return (n, rank) such that the multilinear part is design . row of ``mode``."""

    @abstractmethod
    def grid(self, rows: Sequence[Floats]) -> Floats:
        """Return the dense multilinear part spanned by one (J, rank) matrix per mode."""

    @property
    @abstractmethod
    def rank(self) -> int | tuple[int, ...]:
        """Number of components: one number, or one per mode."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.factors)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of all arrays and of predictions."""
        return self.factors[0].dtype

    @property
    def n_parameters(self) -> int:
        """Number of fitted numbers."""
        return 1 + sum(array.size for array in self._arrays())

    @property
    def nbytes(self) -> int:
        """Memory of all fitted arrays."""
        return sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> tuple[Floats, ...]:
        return (*self._own_arrays().values(), *self.factors, *(self.biases or ()))

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        name = type(self).__name__
        return f"{name}({sizes}, rank={self.rank}, {self.dtype}, {self.n_parameters:,} parameters)"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from tensorveil.markup import notebook_card

        facts = [
            ("shape", " x ".join(f"{mode.name}: {size:,}" for mode, size in zip(self.modes, self.shape, strict=True))),
            ("rank", self.rank),
            ("parameters", f"{self.n_parameters:,} ({self.dtype})"),
            ("predicts", self.value_name),
            ("bounds", "none" if self.bounds is None else f"{self.bounds[0]:g} to {self.bounds[1]:g}"),
        ]
        if self.errors is not None:
            facts.append(("RMSE, as measured under noise", f"about {self.errors.rmse:.3g}"))
        return notebook_card(type(self).__name__, facts)

    @overload
    def predict(
        self, coords: Any, *, interval: None = None, clip: bool = True, threads: int | None = None
    ) -> Floats: ...
    @overload
    def predict(
        self, coords: Any, *, interval: float, clip: bool = True, threads: int | None = None
    ) -> tuple[Floats, Floats, Floats]: ...

    def predict(
        self, coords: Any, *, interval: float | None = None, clip: bool = True, threads: int | None = None
    ) -> Floats | tuple[Floats, Floats, Floats]:
        """Predict at (n, order) integer coordinates, or at a frame of labels, which has a column for every mode.

        With ``interval``, a share such as 0.9, return predictions, low and high: this share of values is expected
        between low and high. The model must know its errors, as private models of unit "value" do.
        """
        return self._predict(find_places(coords, self.modes, self.shape), interval, clip, threads)

    @overload
    def predict_labels(
        self, labels: Any, *, interval: None = None, clip: bool = True, threads: int | None = None
    ) -> Floats: ...
    @overload
    def predict_labels(
        self, labels: Any, *, interval: float, clip: bool = True, threads: int | None = None
    ) -> tuple[Floats, Floats, Floats]: ...

    def predict_labels(
        self, labels: Any, *, interval: float | None = None, clip: bool = True, threads: int | None = None
    ) -> Floats | tuple[Floats, Floats, Floats]:
        """Predict at labels: a frame or mapping with a column per mode, or one sequence per mode; as `predict`."""
        return self._predict(find_columns(labels, self.modes, self.shape), interval, clip, threads)

    def _predict(
        self, columns: NDArray[np.int32], interval: float | None, clip: bool, threads: int | None
    ) -> Floats | tuple[Floats, Floats, Floats]:
        if interval is None:
            return predict_columns(self, columns, clip=clip, threads=threads)
        if not clip:
            raise InputError("interval needs clip=True: errors are those of clipped predictions. Leave out clip.")
        return predict_intervals(self, columns, interval, threads=threads)

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

    def recommend(
        self,
        mode: str | int,
        n: int = 10,
        *,
        users: Any = None,
        along: str | int | None = None,
        at: Mapping[Any, Any] | None = None,
        seen: Any = None,
    ) -> Any:
        """Return an Arrow table of the n best candidates for every index of ``mode``, with labels: films for users.

        ``users`` are labels (or indices, where there are none) of those to recommend for; by default everybody.
        ``along`` is the mode that is ranked: the only other one, unless there are several. Further modes are averaged,
        or held ``at`` a label, {"day": "monday"}. What a user has in ``seen``, a tensor or a frame, is left out,
        wherever it was seen; entries of labels that the model does not have say nothing, with a `LeftOutWarning`.

        >>> import tensorveil as tv
        >>> problem = tv.synthetic_cp((6, 5), 2, random_state=0)
        >>> model = tv.CP(2, sweeps=5).fit(problem.train.with_modes(["user", "film"])).model_
        >>> model.recommend("user", 2, users=[3]).column("user").to_pylist()
        [3, 3]
        """
        from tensorveil.models.recommending import recommend

        return recommend(self, mode, n, users, along, at or {}, seen)

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
    ) -> Self:
        """Return a new model with rows appended for the tensor's indices of ``mode``; see `solve_rows`.

        Its errors are no longer known.
        """
        position = find_axis(self.modes, mode)
        named = append_labels(self.modes[position], tensor.modes[position])
        new = self.solve_rows(tensor, mode, regularization=regularization, noise_variance=noise_variance)
        biases = self.biases
        if biases is not None and new.biases is not None:
            biases = append_rows(biases, position, new.biases)
        modes = (*self.modes[:position], named, *self.modes[position + 1 :])
        factors = append_rows(self.factors, position, new.rows)
        remainder = self.remainder
        if remainder is not None:  # nothing is known of what the new rows leave over
            known = [(0, len(new.rows)) if m == position else (0, 0) for m in range(self.order)]
            remainder = np.pad(remainder, known)
        return replace(self, factors=factors, biases=biases, modes=modes, errors=None, remainder=remainder)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, whole or not at all; read it with `tensorveil.load_model`."""
        stored = StoredModel(
            kind=self.KIND,
            offset=self.offset,
            bounds=self.bounds,
            modes=self.modes,
            factors=self.factors,
            biases=self.biases,
            core=self._own_arrays().get("core"),
            extra=self._extra_arrays(),
            link=self.link.name,
            loss=self.loss,
            value_name=self.value_name,
        )
        write_model(path, stored)

    def _extra_arrays(self) -> dict[str, Floats]:
        arrays = {} if self.errors is None else self.errors.to_arrays()
        return arrays if self.remainder is None else {**arrays, REMAINDER: self.remainder}

    @abstractmethod
    def to_tensorly(self, *, include_baseline: bool = True) -> Any:
        """Return TensorLy's tensor of the same form; the baseline becomes part of it, or is left out."""
