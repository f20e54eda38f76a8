"""The core of a Tucker model by least squares, given its factors.

Entries are grouped by the rows of one mode: with z the kron of the other rows, row i contributes kron(a_i a_i', S_i) to
the normal equations, S_i = sum z z'. Small cores are solved directly; large ones by conjugate gradients, which needs
only z' g and sums of z.

Legend
    r, K, Kp        rank of the grouping mode; product of the other ranks; K padded
    a, own          a row of the grouping mode; all of them (rows, r)
    z, y            Kronecker product of the other rows (K long); value less offset and biases
    H, G, grams     z of a block of entries; S of one row and of a batch of rows, (Kp, Kp) flat, lower triangle
    sums            (rows, K) per row: sum of y z, or of (z . g_i) z
    inner           (rows, K): g_i = a_i' core, what z is multiplied with in a product with the normal matrix
    at, origins, widths, ranks   where rows stand in the flat buffer; see kernels/tucker.py

Sums per row first, products with a after: an entry then costs K^2 (or K) and not (r K)^2. Gram matrices are formed for
a batch of rows and added up by one matrix product, in float64. The number of pieces is fixed, so that the sums are the
same for every number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.normal import add_gram
from tensorveil.kernels.padded import Padded, check_types, padded_rank
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers
from tensorveil.kernels.tucker import geometry, kron

Array = NDArray[Any]

_BLOCK = 64
# Fixed numbers of pieces: sums come out the same for every number of threads.
_PIECES = 8
_BATCH = 32
_DIRECT = 512


def tucker_core(
    rows: Rows,
    core: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    ridge: float = 1e-3,
    threads: int | None = None,
    direct_limit: int = _DIRECT,
    max_iterations: int = 100,
) -> float:
    """Replace the core by argmin sum (x - prediction)^2 + ridge |core|^2, in place.

    ``rows`` may be grouped by any mode; the one with the fewest rows is fastest. Cores of more than ``direct_limit``
    elements are improved by at most ``max_iterations`` conjugate-gradient steps from their present value. Returns the
    residual sum of squares after the step, accurate to about the precision of the dtype.
    """
    check_types(factors, rows.values, biases)
    problem = _Problem(rows, core, factors, biases, offset, thread_count(threads))
    return _solve(problem, core, ridge, direct_limit, max_iterations)


def tucker_core_over(
    ask: Callable[[str, Array | None], Iterator[Sequence[Array]]],
    mode: int,
    core: Array,
    ridge: float = 1e-3,
    direct_limit: int = _DIRECT,
    max_iterations: int = 100,
) -> float:
    """Do what `tucker_core` does, over rows of ``mode`` that are in parts, which are asked as often as needed.

    ``ask`` yields what `sum_for_core` gives of every part, for a kind of sums, and a vector if it needs one.
    """
    axes = (mode, *(m for m in range(core.ndim) if m != mode))
    return _solve(_Parts(ask, axes, core.shape), core, ridge, direct_limit, max_iterations)


def sum_for_core(
    kind: str,
    vector: Array | None,
    first: int,
    rows: Rows,
    core: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    threads: int | None = None,
) -> list[Array]:
    """Return sums over the entries of a part, whose rows begin with ``first``: "right" side, "normal" or "product"."""
    own = slice(first, first + len(rows.pointers) - 1)
    arrays = tuple(each[own] if m == rows.mode else each for m, each in enumerate(factors.arrays))
    own_biases = tuple(each[own] if m == rows.mode else each for m, each in enumerate(biases))
    problem = _Problem(rows, core, replace(factors, arrays=arrays), own_biases, 0.0, thread_count(threads))
    if kind == "right":
        right, squares = problem.right_hand_side()
        return [right, np.array([squares])]
    if kind == "normal":
        return [problem.normal_matrix()]
    assert vector is not None
    return [problem.product(vector)]


def _solve(problem: _Problem | _Parts, core: Array, ridge: float, direct_limit: int, max_iterations: int) -> float:
    """Solve the normal equations and write the core; return the residual sum of squares."""
    rhs, squares = problem.right_hand_side()
    if core.size <= direct_limit:
        normal = problem.normal_matrix() + ridge * np.eye(core.size)
        solution = _solve_symmetric(normal, rhs)
        product = normal @ solution
    else:
        solution, product = _conjugate_gradients(problem, rhs, problem.flatten(core), ridge, max_iterations)
    problem.write(solution, core)
    plain = float(solution @ product) - ridge * float(solution @ solution)
    return max(0.0, squares - 2.0 * float(solution @ rhs) + plain)


class _Turned:
    """The core as a vector, with the grouping mode first."""

    axes: tuple[int, ...]
    core_shape: tuple[int, ...]

    def flatten(self, core: Array) -> Array:
        """Return the core as a float64 vector, grouping mode first."""
        return np.ascontiguousarray(core.transpose(self.axes), dtype=np.float64).reshape(-1)

    def write(self, vector: Array, core: Array) -> None:
        """Put a vector back into the core."""
        turned = vector.reshape([self.core_shape[m] for m in self.axes])
        core[...] = turned.transpose(np.argsort(self.axes))


class _Parts(_Turned):
    """The normal equations of one core whose entries are in parts."""

    def __init__(
        self,
        ask: Callable[[str, Array | None], Iterator[Sequence[Array]]],
        axes: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> None:
        self._ask, self.axes, self.core_shape = ask, axes, shape

    def _add(self, kind: str, vector: Array | None = None) -> list[Array]:
        """Return the sums over all parts, in their order."""
        total: list[Array] = []
        for found in self._ask(kind, vector):
            total = [one + more for one, more in zip(total, found, strict=True)] if total else list(found)
        return total

    def right_hand_side(self) -> tuple[Array, float]:
        """Return the sums over all parts."""
        right, squares = self._add("right")
        return right, float(squares[0])

    def normal_matrix(self) -> Array:
        """Return the sum over all parts."""
        return self._add("normal")[0]

    def product(self, vector: Array) -> Array:
        """Return the sum over all parts."""
        return self._add("product", vector)[0]


class _Problem(_Turned):
    """The normal equations of one core, with the grouping mode first."""

    def __init__(
        self, rows: Rows, core: Array, factors: Padded, biases: tuple[Array, ...], offset: float, threads: int
    ) -> None:
        self.axes = (rows.mode, *rows.others)
        self.r = core.shape[rows.mode]
        self.K = core.size // self.r
        self.Kp = padded_rank(self.K)
        self.threads = threads
        self.dtype = factors.dtype
        self.own = factors.arrays[rows.mode][:, : self.r]
        self.pieces = cut_evenly(rows.pointers, _PIECES)
        where = geometry(factors, rows.others)
        others = tuple(factors.arrays[m] for m in rows.others)
        self.entries = (rows.pointers, rows.coords, rows.values, others)
        self.shape = (factors.flat, where.origins, where.widths, where.ranks)
        self.biases = tuple(biases[m] for m in rows.others) if biases else ()
        self.own_bias = biases[rows.mode] if biases else np.empty(0, dtype=factors.dtype)
        self.offset = factors.dtype.type(offset)
        self.core_shape = core.shape

    def _over_rows(self, task: Any) -> list[Any]:
        with workers(self.threads) as run:
            return run([partial(task, a, b) for a, b in self.pieces])

    def right_hand_side(self) -> tuple[Array, float]:
        """Return the sum of y times (a (x) z), and the sum of y squared."""

        def piece(low: int, high: int) -> tuple[Array, float]:
            sums = np.zeros((high - low, self.Kp), dtype=np.float64)
            args = (self.biases, self.own_bias, self.offset, low, high, sums)
            squares = _row_targets(*self.entries, *self.shape, *args)
            return self.own[low:high].T.astype(np.float64) @ sums[:, : self.K], float(squares)

        parts = self._over_rows(piece)
        return sum(p[0] for p in parts).reshape(-1), sum(p[1] for p in parts)

    def normal_matrix(self) -> Array:
        """Return the sum over rows of kron(a a', S)."""
        lane, pair = v.narrow_token(self.Kp), v.token(min(self.Kp, 8), 2)

        def piece(low: int, high: int) -> Array:
            total = np.zeros((self.r * self.r, self.Kp * self.Kp))
            for a in range(low, high, _BATCH):
                b = min(a + _BATCH, high)
                grams = np.zeros((b - a, self.Kp * self.Kp), dtype=self.dtype)
                _row_grams(lane, pair, *self.entries, *self.shape, self.Kp, a, b, grams)
                own = self.own[a:b].astype(np.float64)
                pairs = (own[:, :, None] * own[:, None, :]).reshape(b - a, -1)
                total += pairs.T @ grams.astype(np.float64)
            return total

        total = sum(self._over_rows(piece)).reshape(self.r, self.r, self.Kp, self.Kp)
        # Column j of a Gram matrix is filled from the diagonal downwards: mirror it.
        lower = np.tril(total.swapaxes(2, 3))
        full = lower + np.tril(lower, -1).swapaxes(2, 3)
        full = full[:, :, : self.K, : self.K].transpose(0, 2, 1, 3)
        return np.ascontiguousarray(full).reshape(self.r * self.K, self.r * self.K)

    def product(self, vector: Array) -> Array:
        """Return the normal matrix (without ridge) times a vector, from the entries."""
        core = vector.reshape(self.r, self.K)

        def piece(low: int, high: int) -> Array:
            own = self.own[low:high].astype(np.float64)
            inner = np.ascontiguousarray(own @ core)
            sums = np.zeros_like(inner)
            _row_products(*self.entries, *self.shape, low, high, inner, sums)
            return own.T @ sums

        return np.asarray(sum(self._over_rows(piece))).reshape(-1)


def _solve_symmetric(matrix: Array, rhs: Array) -> Array:
    try:
        half = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(matrix, rhs, rcond=None)[0]
    return np.linalg.solve(half.T, np.linalg.solve(half, rhs))


def _conjugate_gradients(
    problem: _Problem | _Parts, rhs: Array, start: Array, ridge: float, max_iterations: int
) -> tuple[Array, Array]:
    """Return the solution and the matrix (with ridge) times it."""
    x = start
    product = problem.product(x) + ridge * x
    residual = rhs - product
    direction, norm = residual.copy(), residual @ residual
    goal = 1e-16 * max(float(rhs @ rhs), np.finfo(float).tiny)
    for _ in range(max_iterations):
        if norm <= goal:
            break
        image = problem.product(direction) + ridge * direction
        length = norm / (direction @ image)
        x, product = x + length * direction, product + length * image
        residual = residual - length * image
        norm, old = residual @ residual, norm
        direction = residual + (norm / old) * direction
    return x, product


@kernel()
def _place(coords: Array, p: int, origins: Array, widths: Array, at: Array) -> None:
    for k in range(len(at)):
        at[k] = origins[k] + np.int64(coords[k, p]) * widths[k]


@kernel()
def _row_targets(
    pointers: Array, coords: Array, values: Array, others: tuple[Array, ...], flat: Array, origins: Array,
    widths: Array, ranks: Array, biases: tuple[Array, ...], own_bias: Array, offset: Any, low: int, high: int,
    sums: Array,
) -> float:  # fmt: skip
    at, z = np.empty(len(ranks), dtype=np.int64), np.empty(sums.shape[1], dtype=flat.dtype)
    squares = 0.0
    for i in range(low, high):
        own = own_bias[i] if len(own_bias) > 0 else offset - offset
        for p in range(pointers[i], pointers[i + 1]):
            _place(coords, p, origins, widths, at)
            size = kron(flat, at, ranks, 0, len(ranks), z)
            y = np.float64(values[p] - own - e.sum_at(offset, biases, e.column(others, coords, p)))
            squares += y * y
            for k in range(size):
                sums[i - low, k] += y * z[k]
    return squares


@kernel()
def _row_grams(
    lane: v.Token, pair: v.Token, pointers: Array, coords: Array, values: Array, others: tuple[Array, ...],
    flat: Array, origins: Array, widths: Array, ranks: Array, Kp: int, low: int, high: int, grams: Array,
) -> None:  # fmt: skip
    at = np.empty(len(ranks), dtype=np.int64)
    H = np.zeros(_BLOCK * Kp, dtype=flat.dtype)
    for i in range(low, high):
        for first in range(pointers[i], pointers[i + 1], _BLOCK):
            last = min(first + _BLOCK, pointers[i + 1])
            for p in range(first, last):
                _place(coords, p, origins, widths, at)
                kron(flat, at, ranks, 0, len(ranks), H[(p - first) * Kp : (p - first + 1) * Kp])
            add_gram(lane, pair, H, last - first, Kp, grams[i - low])


@kernel()
def _row_products(
    pointers: Array, coords: Array, values: Array, others: tuple[Array, ...], flat: Array, origins: Array,
    widths: Array, ranks: Array, low: int, high: int, inner: Array, sums: Array,
) -> None:  # fmt: skip
    at, z = np.empty(len(ranks), dtype=np.int64), np.empty(inner.shape[1], dtype=flat.dtype)
    for i in range(low, high):
        for p in range(pointers[i], pointers[i + 1]):
            _place(coords, p, origins, widths, at)
            size = kron(flat, at, ranks, 0, len(ranks), z)
            dot = 0.0
            for k in range(size):
                dot += z[k] * inner[i - low, k]
            for k in range(size):
                sums[i - low, k] += dot * z[k]
