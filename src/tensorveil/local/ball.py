"""Mechanisms for whole tensors: a tensor is a point of a ball, of declared radius or around declared bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.requirements import Requirements, check_bounds, check_radius
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Unit

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class BallMechanism(LocalMechanism, abstract=True):
    """What the mechanisms for whole tensors have in common.

    Parameters
    ----------
    bounds
        Declared (low, high) of every entry; the ball is the one around this cube.
    radius
        Instead of bounds: the declared largest Euclidean norm of a tensor.
    """

    bounds: tuple[float, float] | None = None
    radius: float | None = None
    perturbs: ClassVar[Literal["entries", "tensors"]] = "tensors"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.bounds is None) == (self.radius is None):
            raise InputError("give either bounds of the entries or the radius of the tensors. Try bounds=(-1, 1).")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", check_bounds(self.bounds))
        else:
            object.__setattr__(self, "radius", check_radius(self.radius))

    @classmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return the mechanism as it is required."""
        return [cls(**cls._choice_settings(required))]

    @classmethod
    def _choice_settings(cls, required: Requirements) -> dict[str, Any]:
        return {
            "shape": required.shape,
            "epsilon": required.epsilon,
            "unit": required.unit,
            "bounds": required.bounds,
            "radius": required.radius,
        }

    @property
    def reach(self) -> float:
        """The radius of the ball: as declared, or that of the cube's corners."""
        if self.bounds is None:
            assert self.radius is not None
            return self.radius
        return math.sqrt(self.size) * 0.5 * (self.bounds[1] - self.bounds[0])

    @property
    def center(self) -> float:
        """The middle of the bounds, or 0."""
        return 0.0 if self.bounds is None else self.bounds[0] + 0.5 * (self.bounds[1] - self.bounds[0])

    @property
    def declared_bounds(self) -> tuple[float, float] | None:
        """The bounds, if they were declared."""
        return self.bounds

    def _settle_rows(self, rows: Array) -> Array:
        """Cut entries to the bounds; or shorten tensors to the radius, with NaN as 0."""
        if self.bounds is not None:
            return super()._settle_rows(rows)
        from tensorveil.kernels import local_draws

        out = np.empty(rows.shape)
        local_draws.shorten_rows(np.ascontiguousarray(rows), self.reach, out)
        return out

    def worst_tensor(self) -> Array:
        """Return a tensor whose report has the largest expected error: the one in the middle."""
        return np.full(self.shape, self.center)

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data."""
        return super().settings() | {"bounds": self.bounds, "radius": self.radius}

    def _notes(self) -> tuple[str, ...]:
        return ("Answers lie on a public grid.", *super()._notes())

    def _conditions(self) -> tuple[str, ...]:
        norm = () if self.bounds is not None else (f"tensors have a norm of at most {self.radius:g}",)
        return (*super()._conditions(), *norm)


@dataclass(frozen=True, kw_only=True, eq=False)
class DirectionMechanism(BallMechanism, abstract=True):
    """What PrivUnit and PrivUnitG share: a tensor becomes one of two opposite directions, which is perturbed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if Unit.parse(self.unit).kind != "tensor":
            raise InputError("unit must be 'tensor' for this mechanism. For single entries, try DTLDP or Staircase.")

    @classmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return the mechanism for unit tensor; for single entries there is none."""
        return super().candidates(required) if required.unit.kind == "tensor" else []

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return one for the unit ball."""
        return {cls.label: cls(shape=(3,), epsilon=epsilon, unit="tensor", radius=1.0)}

    @property
    @abstractmethod
    def _second_moment(self) -> float:
        """E |answer|^2, the same for all tensors."""

    def _mse_rows(self, rows: Array) -> Array:
        # Answers are unbiased: E |y - x|^2 = E |y|^2 - |x|^2, about the middle.
        out: Array = self._second_moment - ((rows - self.center) ** 2).sum(axis=1)
        return out

    @property
    def worst_mse(self) -> float:
        """The largest expected squared error of a report: that of the tensor in the middle."""
        return self._second_moment

    def _directions(self, rows: Array, source: NoiseSource) -> Array:
        """Return x / ||x|| or its opposite, with chances (1 +- ||x|| / R) / 2, so that R times it has the mean x.

        Any random map into the sphere is as private; only the mean rests on these floats.
        """
        centred = rows - self.center
        largest = np.abs(centred).max(axis=1, keepdims=True)
        scaled = centred / np.where(largest > 0, largest, 1.0)
        scaled[largest[:, 0] == 0, 0] = 1.0
        units = scaled / np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
        shares = 0.5 * (1 + np.minimum(row_norms(centred) / self.reach, 1.0))
        kept = (source.uniform64(len(rows)) >> np.uint64(11)) * 2.0**-53 < shares
        out: Array = np.where(kept, 1.0, -1.0)[:, None] * units
        return out


def row_norms(rows: Array) -> Array:
    """Return Euclidean norms of rows, without overflow."""
    largest = np.abs(rows).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    scaled = rows / safe[:, None]
    out: Array = safe * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return out
