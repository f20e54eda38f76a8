"""What the functions of this folder need to know about a model, whatever its form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorveil.models.errors import Errors
from tensorveil.models.link import Link
from tensorveil.tensor import Mode

Floats = NDArray[Any]


class Multilinear(Protocol):
    """An offset, perhaps biases, and a part that is linear in each mode's rows."""

    @property
    def factors(self) -> tuple[Floats, ...]:
        """One (size, rank) matrix per mode."""

    @property
    def offset(self) -> float:
        """The constant part."""

    @property
    def biases(self) -> tuple[Floats, ...] | None:
        """One number per index of each mode, or None."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Names and labels."""

    @property
    def value_name(self) -> str:
        """What the values are called."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Where values can lie, if declared."""

    @property
    def errors(self) -> Errors | None:
        """What errors to expect, if they were measured."""

    @property
    def remainder(self) -> Floats | None:
        """What is added cell by cell, in the shape of the tensor; or None."""

    @property
    def link(self) -> Link:
        """How predictions follow from the linear part."""

    @property
    def loss(self) -> str:
        """The loss that the model was fitted by."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of all parts."""

    def multilinear(self, columns: NDArray[np.int32], threads: int | None = None) -> Floats:
        """Return the multilinear part at (order, n) coordinate columns."""

    def design(self, columns: NDArray[np.int32], mode: int) -> Floats:
        """Return (n, rank) such that the multilinear part is design . row of ``mode``."""

    def grid(self, rows: Sequence[Floats]) -> Floats:
        """Return the dense multilinear part spanned by one (J, rank) matrix per mode."""
