"""A start from the data's spectrum, for tensors of order three and more.

Alternating updates from a random start find a component only if its strength is about the size of the tensor's modes;
the leading eigenvectors of the unfoldings' Gram matrices show it at the three-quarter power already (Richard and
Montanari 2014). Squares of single entries stand on the diagonal of such a Gram matrix and say nothing about directions,
so the diagonal is left out; what remains has a spectrum that is symmetric around zero where there is no signal, and
eigenvalues count as signal where they exceed the most negative one.

Y_m is the unfolding along mode m, zero where nothing was observed; U_m its leading directions; the projected core
Y x U_1' x U_2' ... is small, and its own CP decomposition gives the components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorveil.solvers.task import Array

_ITERATIONS, _EXTRA, _MARGIN = 10, 8, 1.1
# With more entries than this, a random part of them is enough to see the directions.
_MOST_ENTRIES = 4_000_000
# Projecting n entries costs n times the product of all dimensions but one.
_LARGEST_WORK = 2e9
_CORE_STARTS, _CORE_SWEEPS = 10, 60


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Leading directions of every mode (orthonormal columns), and the data projected on them."""

    bases: tuple[Array, ...]
    core: Array


def subtract_biases(columns: Array, values: Array, shape: Sequence[int]) -> Array:
    """Subtract each mode's means by index, shrunk as if a tenth of the unit variance were biases."""
    for column, size in zip(columns, shape, strict=True):
        sums = np.bincount(column, values, minlength=size)
        values = values - (sums / (np.bincount(column, minlength=size) + 10.0))[column]
    return values


def find_spectrum(
    columns: Array, values: Array, shape: Sequence[int], ranks: Sequence[int], rng: np.random.Generator, least: int = 0
) -> Spectrum | None:
    """Return the directions that stand out of the noise in every mode, or None where some mode shows none.

    At least the ``least`` leading ones are taken, whether they stand out or not.
    """
    if len(values) > _MOST_ENTRIES:
        part = rng.integers(len(values), size=_MOST_ENTRIES)
        columns, values = columns[:, part], values[part]
    bases = []
    for mode, rank in enumerate(ranks):
        basis = _find_leading(columns, values, shape, mode, min(rank, shape[mode]), rng, least)
        if not basis.shape[1]:
            return None
        bases.append(basis)
    bases = _shorten(bases, len(values))
    # Most of a core's elements are sums over cells that were not observed; these count as observed in proportion.
    observed = len(values) / float(np.prod([float(size) for size in shape]))
    return Spectrum(bases=tuple(bases), core=_project(columns, values, bases) / observed)


def cp_factors(found: Spectrum, rank: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return factors of the components that the core shows, at most ``rank``, their scale shared evenly."""
    sizes = found.core.shape
    rank = min(rank, max(sizes), int(np.prod(sizes)) // max(sizes))
    small = _small_cp(found.core, rank, rng)
    lengths = np.stack([np.sqrt(np.sum(factor**2, axis=0)) for factor in small]) + 1e-300
    common = np.exp(np.log(lengths).mean(axis=0))
    # A basis has columns of unit length, so factors of a large mode are small: balance per row, not per column.
    rows = np.sqrt([float(len(basis)) for basis in found.bases])
    even = np.exp(np.log(rows).mean())
    return tuple(
        basis @ (factor * (common / length) * (row / even))
        for basis, factor, length, row in zip(found.bases, small, lengths, rows, strict=True)
    )


def tucker_factors(found: Spectrum) -> tuple[tuple[Array, ...], Array]:
    """Return factors along the leading directions, and the core with unit mean square: its scale is the factors'."""
    cells = float(np.prod([float(len(basis)) for basis in found.bases]))
    size = float(np.sqrt(np.mean(found.core**2))) or 1.0
    share = (size / np.sqrt(cells)) ** (1.0 / found.core.ndim)
    return tuple(basis * np.sqrt(len(basis)) * share for basis in found.bases), found.core / size


def _find_leading(
    columns: Array, values: Array, shape: Sequence[int], mode: int, rank: int, rng: np.random.Generator, least: int
) -> Array:
    """Return the eigenvectors of the Gram matrix without its diagonal whose eigenvalues stand out."""
    from scipy.sparse import csr_array

    from tensorveil.kernels.unfolding import multiply_gram

    size = shape[mode]
    groups, n_groups = _groups(columns, shape, mode)
    unfolded = csr_array((values.astype(np.float64), (groups, columns[mode])), shape=(n_groups, size))
    basis = np.linalg.qr(rng.standard_normal((size, min(rank + _EXTRA, size))))[0]
    for _ in range(_ITERATIONS):
        image = multiply_gram(unfolded.indptr, unfolded.indices, unfolded.data, basis)
        small, turn = np.linalg.eigh(basis.T @ image)
        found = basis @ turn
        basis = np.linalg.qr(image)[0]
    order = np.argsort(-small)
    strength = small[order][:rank]
    standing = int(np.count_nonzero(strength > _MARGIN * max(-small.min(), 0.0)))
    kept: Array = found[:, order[: max(standing, least)]]
    return kept


def _groups(columns: Array, shape: Sequence[int], mode: int) -> tuple[Array, int]:
    """Number the cells of the other modes; only those that occur, if there are more cells than entries."""
    key = np.zeros(columns.shape[1], dtype=np.int64)
    cells = 1.0
    for m, size in enumerate(shape):
        if m != mode:
            key = key * size + columns[m]
            cells *= size
    if cells <= len(key):
        return key, int(cells)
    kinds, key = np.unique(key, return_inverse=True)
    return key, len(kinds)


def _shorten(bases: list[Array], n: int) -> list[Array]:
    """Shorten the longest bases until projecting on them takes seconds."""
    widths = [basis.shape[1] for basis in bases]
    while n * np.prod(sorted(widths)[:-1]) > _LARGEST_WORK and max(widths) > 2:
        widths[int(np.argmax(widths))] -= 1
    return [basis[:, :width] for basis, width in zip(bases, widths, strict=True)]


def _project(columns: Array, values: Array, bases: list[Array]) -> Array:
    """Return the core Y x U_1' x U_2' ..., one mode after the other."""
    if len(bases) == 1:
        out: Array = np.bincount(columns[0], values, minlength=len(bases[0])) @ bases[0]
        return out
    shape = [len(basis) for basis in bases]
    groups, n_groups = _groups(columns, shape, 0)
    first = np.zeros(n_groups, dtype=np.int64)
    first[groups] = np.arange(len(groups))
    rest = columns[1:, first]
    return np.stack(
        [
            _project(rest, np.bincount(groups, values * direction[columns[0]], minlength=n_groups), bases[1:])
            for direction in bases[0].T
        ]
    )


def _small_cp(core: Array, rank: int, rng: np.random.Generator) -> list[Array]:
    """Fit a small dense tensor by alternating least squares with a little ridge, from several starts side by side.

    Return the factors of the fit with the least error.
    """
    modes = range(core.ndim)
    scale = float(np.sqrt(np.mean(core**2))) or 1.0
    target = core / scale
    starts = [[rng.standard_normal((size, rank)) for size in core.shape] for _ in range(_CORE_STARTS)]
    factors: list[Array] = [np.stack(each) for each in zip(*starts, strict=True)]
    unfoldings = [np.moveaxis(target, m, 0).reshape(core.shape[m], -1) for m in modes]
    unit = np.eye(rank)
    for sweep in range(_CORE_SWEEPS):
        ridge = 0.1 ** min(1 + sweep / 10, 2)
        for m in modes:
            product = np.ones((_CORE_STARTS, 1, rank))
            for other in modes:
                if other != m:
                    product = product[:, :, None, :] * factors[other][:, None, :, :]
                    product = product.reshape(_CORE_STARTS, -1, rank)
            gram = product.transpose(0, 2, 1) @ product
            weight = ridge * (np.trace(gram, axis1=1, axis2=2) / rank + 1e-12)
            right = (unfoldings[m] @ product).transpose(0, 2, 1)
            factors[m] = np.linalg.solve(gram + weight[:, None, None] * unit, right).transpose(0, 2, 1)
    errors = np.sum((unfoldings[-1] - factors[-1] @ product.transpose(0, 2, 1)) ** 2, axis=(1, 2))
    found = [factor[int(np.argmin(errors))] for factor in factors]
    found[0] = found[0] * scale
    return found
