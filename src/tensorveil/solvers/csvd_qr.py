"""CSVD-QR: the leading part of a singular value decomposition by two QR factorisations per step (Guo 2025, alg. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.thin import orthonormal
from tensorveil.solvers.task import Array


class Products(Protocol):
    """What CSVD-QR needs of a matrix: numpy arrays and scipy.sparse matrices have it, and operators may."""

    @property
    def shape(self) -> Any:
        """Number of rows and columns."""

    @property
    def T(self) -> Any:  # noqa: N802
        """The transposed matrix."""

    def __matmul__(self, other: Any) -> Any: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ThreeFactors:
    """X is about L D R: columns of L and rows of R orthonormal, D lower triangular.

    ``error`` is the norm of X - L D R where the norm of X is known (None for operators), exact to about eight digits of
    the norm of X; ``steps`` is the number of steps taken.
    """

    L: Array
    D: Array
    R: Array
    steps: int
    error: float | None

    def product(self) -> Array:
        """Return L D R as a dense array."""
        out: Array = (self.L @ self.D) @ self.R
        return out


def csvd_qr(
    matrix: Products, rank: int, *, steps: int = 20, tol: float = 0.0, start: Array | None = None
) -> ThreeFactors:
    """Approximate a matrix by L D R of the given rank.

    Each step: L from a QR factorisation of X R', then R and D from one of X' L. It is subspace iteration: steps turn L
    and R towards the leading singular vectors, at a rate set by how far singular value ``rank`` stands above the next.

    Parameters
    ----------
    matrix
        A numpy array, a scipy.sparse matrix or array, or an operator with ``shape``, ``@`` and ``T``.
    rank
        Number of columns of L, at most the smaller side; the paper's default, a hundredth of that side, is not offered.
    steps
        Greatest number of steps.
    tol
        Stop when the norm of X - L D R is at most this (the paper: its square); not for operators.
    start
        R to start from, (rank, columns); by default the first rows of the identity, as published.

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> matrix = np.outer([1.0, 2.0, 3.0], [4.0, 5.0])
    >>> found = tv.csvd_qr(matrix, 1, steps=1)
    >>> bool(np.allclose(found.product(), matrix))
    True
    """
    m, n = matrix.shape
    side = min(m, n)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= side:
        raise InputError(f"rank must be a whole number from 1 to the smaller side, {side}; got {rank!r}. Try rank=1.")
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise InputError(f"steps must be a whole number of at least 1; got {steps!r}. Try steps=20.")
    R: Array = np.eye(rank, n) if start is None else np.asarray(start)
    if R.shape != (rank, n):
        raise InputError(f"start must have shape (rank, columns), here {(rank, n)}; got {R.shape}.")
    norm = _squared_norm(matrix)
    error, made = None, 0
    while made < steps and (error is None or error > tol):
        L, _ = orthonormal(_floats(matrix @ R.T))
        basis, triangle = orthonormal(_floats(matrix.T @ L))
        R, D = basis.T, triangle.T
        if norm is not None:
            # D R = L' X, and L has orthonormal columns: what is missing is |X|^2 - |L' X|^2.
            error = float(np.sqrt(max(norm - np.sum(D**2), 0.0)))
        made += 1
    return ThreeFactors(L=L, D=D, R=R, steps=made, error=error)


def _floats(product: Any) -> Array:
    """Return a product as an array of floats, all finite: QR factors of anything else would be meaningless."""
    array = np.asarray(product)
    if not np.isfinite(array).all():
        raise InputError("matrix must be finite; got NaN or infinity. Mark missing cells as zeros, or drop them.")
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def _squared_norm(matrix: Any) -> float | None:
    """Return the squared Frobenius norm of an array or a scipy.sparse matrix."""
    values = matrix if isinstance(matrix, np.ndarray) else getattr(matrix, "data", None)
    return None if values is None else float(np.sum(np.asarray(values, dtype=np.float64) ** 2))
