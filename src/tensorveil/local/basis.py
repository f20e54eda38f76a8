"""Public orthonormal bases: a few coefficients of a tensor can be reported with far less noise than all its entries.

A basis is declared, never fitted to the data. The range of a coefficient follows from the declared bounds alone:
|<b, x - c>| <= half the width times the sum of |b|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.local.requirements import check_shape

Array = NDArray[Any]
KINDS = ("dct", "haar", "matrix")
ROOM = 1 + 1e-9  # coefficients are computed in floating point


@dataclass(frozen=True, kw_only=True, eq=False)
class Basis:
    """Some vectors of an orthonormal basis of tensors; make one with `dct`, `haar` or `own`.

    Parameters
    ----------
    kind
        "dct", "haar" or "matrix".
    shape
        Shape of the tensors.
    keep
        Number of coefficients that are kept, coarsest first.
    matrices
        For "dct" and "haar" one orthonormal matrix per mode; for "matrix" one matrix (keep, entries).
    places
        Where the kept coefficients stand among all of them.
    """

    kind: str
    shape: tuple[int, ...]
    keep: int
    matrices: tuple[Array, ...]
    places: NDArray[np.int64]

    @classmethod
    def dct(cls, shape: Any, keep: int) -> Basis:
        """Take the lowest frequencies of the discrete cosine transform.

        >>> from tensorveil.local import Basis
        >>> Basis.dct((28, 28), 64).analyse([[0.5] * 784]).shape
        (1, 64)
        """
        from scipy.fft import dct

        sizes = check_shape(shape)
        matrices = tuple(dct(np.eye(n), axis=0, norm="ortho") for n in sizes)
        return cls._separable("dct", sizes, keep, matrices, [np.arange(n) / n for n in sizes])

    @classmethod
    def haar(cls, shape: Any, keep: int) -> Basis:
        """Take the coarsest wavelets of Haar's transform; a mode is halved as often as its size is even."""
        sizes = check_shape(shape)
        pairs = [haar_matrix(n) for n in sizes]
        matrices, levels = tuple(matrix for matrix, _ in pairs), [level for _, level in pairs]
        return cls._separable("haar", sizes, keep, matrices, levels)

    @classmethod
    def own(cls, matrix: ArrayLike, shape: Any) -> Basis:
        """Take the rows of a public matrix with orthonormal rows, one column per entry of the tensor."""
        sizes = check_shape(shape)
        rows = np.array(matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != int(np.prod(sizes)) or len(rows) < 1:
            raise InputError("matrix must have one row per coefficient and one column per entry of the tensor.")
        if not np.allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-8):
            raise InputError("matrix must have orthonormal rows. Try numpy.linalg.qr(matrix.T)[0].T.")
        return cls(kind="matrix", shape=sizes, keep=len(rows), matrices=(rows,), places=np.arange(len(rows)))

    @classmethod
    def _separable(
        cls, kind: str, shape: tuple[int, ...], keep: int, matrices: tuple[Array, ...], coarseness: list[Array]
    ) -> Basis:
        entries = int(np.prod(shape))
        if isinstance(keep, bool) or not isinstance(keep, int | np.integer) or not 1 <= keep <= entries:
            raise InputError(
                f"keep must be between 1 and the {entries} entries of a tensor; got {keep!r}. Try keep=16."
            )
        total = sum(np.square(part).reshape([-1 if k == mode else 1 for k in range(len(shape))])
                    for mode, part in enumerate(coarseness))  # fmt: skip
        order = np.argsort(np.broadcast_to(total, shape).reshape(-1), kind="stable")[: int(keep)]
        return cls(kind=kind, shape=shape, keep=int(keep), matrices=matrices, places=order)

    def analyse(self, rows: ArrayLike) -> Array:
        """Return the kept coefficients of tensors, as rows (n, keep) of rows (n, entries)."""
        values = np.asarray(rows, dtype=np.float64)
        if self.kind == "matrix":
            out: Array = values @ self.matrices[0].T
            return out
        return self._along_modes(values, transposed=False)[:, self.places]

    def synthesise(self, coefficients: Array) -> Array:
        """Return the tensors (n, entries) that have these coefficients, and 0 for those that are not kept."""
        if self.kind == "matrix":
            out: Array = coefficients @ self.matrices[0]
            return out
        full = np.zeros((len(coefficients), int(np.prod(self.shape))))
        full[:, self.places] = coefficients
        return self._along_modes(full, transposed=True)

    def _along_modes(self, rows: Array, *, transposed: bool) -> Array:
        block = rows.reshape(-1, *self.shape)
        for mode, matrix in enumerate(self.matrices, start=1):
            turned = np.tensordot(block, matrix.T if transposed else matrix, axes=(mode, 1))
            block = np.moveaxis(turned, -1, mode)
        return np.ascontiguousarray(block).reshape(len(rows), -1)

    def ranges(self, half: float) -> Array:
        """Return bounds on every kept coefficient of tensors whose entries lie within ``half`` of the middle."""
        if self.kind == "matrix":
            sums = np.abs(self.matrices[0]).sum(axis=1)
        else:
            sums = np.ones(1)
            for matrix in self.matrices:
                sums = np.multiply.outer(sums, np.abs(matrix).sum(axis=1)).reshape(-1)
            sums = sums[self.places]
        out: Array = half * sums * ROOM
        return out

    def radius(self, half: float) -> float:
        """Return a bound on the norm of the kept coefficients: by their ranges, and by the norm of the tensor."""
        whole = half * float(np.sqrt(np.prod(self.shape)))
        return min(float(np.linalg.norm(self.ranges(half))), whole) * ROOM

    def settings(self) -> dict[str, Any]:
        """Return the basis as plain data."""
        found: dict[str, Any] = {"kind": self.kind, "keep": self.keep}
        return found | ({"matrix": self.matrices[0].tolist()} if self.kind == "matrix" else {})

    @classmethod
    def from_settings(cls, settings: dict[str, Any], shape: Any) -> Basis:
        """Make the basis that `settings` describes."""
        kind = settings.get("kind")
        if kind not in KINDS:
            raise InputError(f"basis must be one of {', '.join(KINDS)}; got {kind!r}.")
        if kind == "matrix":
            return cls.own(settings["matrix"], shape)
        return cls.dct(shape, settings["keep"]) if kind == "dct" else cls.haar(shape, settings["keep"])


def haar_matrix(size: int) -> tuple[Array, Array]:
    """Return Haar's orthonormal transform of a length, and how fine each of its rows is: 0 for the averages."""
    coarse, fine, levels = np.eye(size), [], []
    while len(coarse) % 2 == 0:
        fine.append((coarse[0::2] - coarse[1::2]) / np.sqrt(2))
        coarse = (coarse[0::2] + coarse[1::2]) / np.sqrt(2)
        levels.append(len(fine[-1]))
    matrix = np.concatenate([coarse, *fine[::-1]])
    fineness = np.concatenate([np.zeros(len(coarse)), *(np.full(n, 1.0 + k) for k, n in enumerate(levels[::-1]))])
    return matrix, fineness
