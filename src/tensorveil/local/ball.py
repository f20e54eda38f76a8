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
from tensorveil.local.requirements import Requirements, check_bounds, check_outside
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Unit
from tensorveil.privacy.exact import positive

Array = NDArray[Any]
ROOM = 1e-9  # relative: norms are computed in floating point, and a tensor on the edge must not be refused


@dataclass(frozen=True, kw_only=True, eq=False)
class BallMechanism(LocalMechanism, abstract=True):
    """What the mechanisms for whole tensors have in common.

    Parameters
    ----------
    bounds
        Declared (low, high) of every entry; the ball is the one around this cube.
    radius
        Instead of bounds: the declared largest Euclidean norm of a tensor.
    outside
        "error" or "clip": entries outside of the bounds are cut off, tensors beyond the radius are shortened.
    """

    bounds: tuple[float, float] | None = None
    radius: float | None = None
    outside: str = "error"
    perturbs: ClassVar[Literal["entries", "tensors"]] = "tensors"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.bounds is None) == (self.radius is None):
            raise InputError("give either bounds of the entries or the radius of the tensors. Try bounds=(-1, 1).")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", check_bounds(self.bounds))
        else:
            object.__setattr__(self, "radius", positive("radius", self.radius))
        check_outside(self.outside)

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
            "outside": required.outside,
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

    def _center_rows(self, rows: Array) -> Array:
        """Return the rows, centred and inside the ball; refuse others unless they are to be clipped."""
        if not np.all(np.isfinite(rows)):
            raise InputError("x must hold finite numbers. Replace NaN and infinities before perturbing.")
        if self.bounds is not None:
            low, high = self.bounds
            if self.outside == "error" and not (rows.min() >= low and rows.max() <= high):
                raise InputError(f"x must lie within bounds {self.bounds}. Clip it, or set outside='clip'.")
            out: Array = np.clip(rows, low, high) - self.center
            return out
        norms = row_norms(rows)
        if self.outside == "error" and norms.max() > self.reach * (1 + ROOM):
            raise InputError(
                f"x must have a norm of at most radius {self.radius:g}. Shorten it, or set outside='clip'."
            )
        shortened: Array = rows * np.minimum(1.0, self.reach / np.maximum(norms, np.finfo(float).tiny))[:, None]
        return shortened

    def worst_tensor(self) -> Array:
        """Return a tensor whose report has the largest expected error: the one in the middle."""
        return np.full(self.shape, self.center)

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data."""
        return super().settings() | {"bounds": self.bounds, "radius": self.radius, "outside": self.outside}

    def _notes(self) -> tuple[str, ...]:
        return ("Answers lie on a public grid.", *super()._notes())

    def _conditions(self) -> tuple[str, ...]:
        return () if self.bounds is not None else (f"tensors have a norm of at most {self.radius:g}",)


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
        centred = self._center_rows(rows)
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
