"""What is reported of a tensor: the direction of its coefficients in a public basis about a public centre.

Lengths are dropped. Every record then lies on the unit sphere, where PrivUnit has the least error, and where the
variance of its noise is known: the mean squared length of many reports, less 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.local import Basis

__all__ = ["Directions", "principal_directions"]

Array = NDArray[Any]
ROWS = 4096  # tensors per batch


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """A public map of tensors to the unit sphere.

    Parameters
    ----------
    basis
        A public basis, such as `Basis.dct((28, 28), 64)`.
    centre
        A public number or tensor that is subtracted first.

    >>> told = Directions(basis=Basis.dct((2, 2), 2), centre=0.5)
    >>> told([[[1.0, 1.0], [1.0, 1.0]]]).round(6).tolist()
    [[1.0, 0.0]]
    """

    basis: Basis
    centre: Any = 0.0

    def __post_init__(self) -> None:
        centre = np.asarray(self.centre, dtype=np.float64)
        if centre.shape not in ((), self.basis.shape) or not np.all(np.isfinite(centre)):
            raise InputError("centre must be a finite number, or a finite tensor of the basis's shape. Try centre=0.0.")
        object.__setattr__(self, "centre", centre)

    @property
    def dimension(self) -> int:
        """The number of coefficients that are reported of a tensor."""
        return self.basis.keep

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"shape": list(self.basis.shape), "basis": self.basis.settings(), "centre": self.centre.tolist()}

    @classmethod
    def from_json(cls, content: Any) -> Directions:
        """Read what `to_json` wrote."""
        if not isinstance(content, dict) or set(content) != {"shape", "basis", "centre"}:
            raise InputError(
                "the directions must have the fields shape, basis and centre. Were they written by Directions.to_json?"
            )
        return cls(basis=Basis.from_settings(content["basis"], content["shape"]), centre=content["centre"])

    def __call__(self, x: ArrayLike) -> Array:
        """Return one row of length 1 per tensor, each on its own; a tensor without a direction gets the first one."""
        tensors = np.asarray(x)
        if tensors.shape[1:] != self.basis.shape:
            raise InputError(f"x must hold tensors of shape {self.basis.shape} along a leading axis.")
        rows = [self._turn(tensors[start : start + ROWS]) for start in range(0, len(tensors), ROWS)]
        return np.concatenate(rows)

    @cached_property
    def _matrix(self) -> Array:
        """The kept vectors of the basis as columns."""
        return np.ascontiguousarray(self.basis.synthesise(np.eye(self.basis.keep)).T)

    def _turn(self, tensors: Array) -> Array:
        from tensorveil.kernels import learning

        with np.errstate(all="ignore"):  # a warning would tell of a tensor
            flat = (np.asarray(tensors, dtype=np.float64) - self.centre).reshape(len(tensors), -1)
        out = np.empty((len(flat), self.basis.keep))
        learning.directions(np.ascontiguousarray(flat), self._matrix, out)
        return out


def principal_directions(public: ArrayLike, keep: int) -> Directions:
    """Make a map from public tensors: their mean as centre, their leading principal directions as basis.

    Use it only for public data: a basis of private data would be a release of them.
    """
    tensors = np.asarray(public, dtype=np.float64)
    flat = tensors.reshape(len(tensors), -1)
    if not 1 <= keep <= min(flat.shape):
        raise InputError(f"keep must be between 1 and {min(flat.shape)} here; got {keep}. Give more public tensors.")
    centre = flat.mean(axis=0)
    _, _, turned = np.linalg.svd(flat - centre, full_matrices=False)
    basis = Basis.own(turned[:keep], tensors.shape[1:])
    return Directions(basis=basis, centre=centre.reshape(tensors.shape[1:]))
