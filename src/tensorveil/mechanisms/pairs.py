"""A matrix of low rank from noisy cells of known precision: variational Bayes, which also finds the rank.

The mean of cell (i, j) is u_i w_j' plus noise of a known variance, different from cell to cell. Rows have Gaussian
posteriors; the precision of every component's prior is estimated on both sides, so that components which the cells do
not support vanish (Nakajima and Sugiyama 2011 for the matrix case). Cells enter by matrix products only.

Legend
    I, J, R             rows, columns, components
    precision           (I, J) one over the variance of a cell's mean, 0 where there is no entry
    score               (I, J) precision times the cell's mean
    left, right         (I, R), (J, R) means of the rows u and w
    spread              (J, R, R) covariances of the rows w
    alpha, beta         (R,) precisions of the priors of u and w
    walks               of u and of w: the prior of rows whose neighbours are alike, or None
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.smooth import OF_PAIRS, learn_prior, list_waves, solve_rows
from tensorveil.solvers.priors.walk import Walk

_HELD = 2
_EXTRA, _ITERATIONS = 4, 8
# Rows and columns with hardly any entries count as if they had this share of the average precision when scaling.
_LEAST_WEIGHT = 1e-3
# Of matrices with a unit diagonal that rounding made singular.
_RIDGE = 1e-10


Walks = tuple[Walk | None, Walk | None]


@dataclass(frozen=True, kw_only=True)
class PairEffect:
    """A two-way effect, left right', and what its fit goes on from."""

    left: Array
    right: Array
    spread: Array
    alpha: Array
    beta: Array
    walks: Walks = (None, None)

    def at(self, rows: Array, columns: Array) -> Array:
        """Return the effect at cells."""
        found: Array = np.einsum("nr,nr->n", self.left[rows], self.right[columns])
        return found

    @property
    def matrix(self) -> Array:
        """The effect of all cells."""
        whole: Array = self.left @ self.right.T
        return whole

    @property
    def strengths(self) -> Array:
        """Mean square of every component over all cells."""
        strengths: Array = np.mean(self.left**2, axis=0) * np.mean(self.right**2, axis=0)
        return strengths


def fit_pairs(
    precision: Array,
    score: Array,
    rank: int,
    sweeps: int,
    start: PairEffect | None = None,
    walks: Walks = (None, None),
) -> PairEffect:
    """Fit a two-way effect, from its spectrum or from an earlier fit. Post-processing only.

    ``walks`` are priors of rows and of columns whose neighbours are alike; an earlier fit has its own.
    """
    rank = min(rank, *precision.shape)
    effect = _start(precision, score, rank, walks) if start is None else start
    left, right, spread = effect.left, effect.right, effect.spread
    alpha, beta = effect.alpha, effect.beta
    one, other = [walk and replace(walk) for walk in (walks if start is None else start.walks)]
    for sweep in range(sweeps):
        left, left_spread = _solve(precision, score, right, spread, alpha, one)
        right, spread = _solve(precision.T, score.T, left, left_spread, beta, other)
        left_square, right_square = _mean_square(left, left_spread), _mean_square(right, spread)
        if sweep >= _HELD or start is not None:
            alpha = _find_prior(left, left_spread, left_square, alpha, one)
            beta = _find_prior(right, spread, right_square, beta, other)
        # Scale moves freely between the sides; it is shared evenly.
        even = (right_square / left_square) ** 0.25
        left, left_spread, alpha = left * even, left_spread * np.outer(even, even), alpha / even**2
        right, spread, beta = right / even, spread / np.outer(even, even), beta * even**2
        for walk, scale in ((one, even), (other, 1.0 / even)):
            if walk is not None:
                walk.rescale(scale)
    return PairEffect(left=left, right=right, spread=spread, alpha=alpha, beta=beta, walks=(one, other))


def _start(precision: Array, score: Array, rank: int, walks: Walks) -> PairEffect:
    """Start from leading singular vectors, scaled so that noise is about even.

    Where neighbours are alike, slow waves show components that noise would hide: several numbers of waves are tried,
    and those are taken in which most stands out.
    """
    average = max(float(precision.mean()), 1e-300)
    by_row = np.sqrt(np.maximum(precision.mean(axis=1), _LEAST_WEIGHT * average))
    by_column = np.sqrt(np.maximum(precision.mean(axis=0) / average, _LEAST_WEIGHT))
    even = score / np.outer(by_row, by_column)
    bases = product(*(list_waves(walk, size) for walk, size in zip(walks, even.shape, strict=True)))
    tried = [_find_standing(even, rank, *pair) for pair in bases]
    one, strength, other = max(tried, key=lambda found: float(np.sum(found[1] ** 2)))
    left, right = one * strength / by_row[:, None], other * strength / by_column[:, None]
    scale = (np.mean(right**2, axis=0) / np.maximum(np.mean(left**2, axis=0), 1e-300)) ** 0.25
    left, right = left * scale, right / scale
    return PairEffect(
        left=left,
        right=right,
        spread=np.zeros((precision.shape[1], rank, rank)),
        alpha=_invert(np.mean(left**2, axis=0), walks[0]),
        beta=_invert(np.mean(right**2, axis=0), walks[1]),
    )


def _invert(square: Array, walk: Walk | None) -> Array:
    """Return the precisions that numbers of this mean square suggest; a walk's stay where it can be solved."""
    precisions: Array = 1.0 / np.maximum(square, 1e-300)
    return precisions if walk is None else np.clip(precisions, *OF_PAIRS)


def _find_standing(even: Array, rank: int, rows: Array | None, columns: Array | None) -> tuple[Array, Array, Array]:
    """Return leading singular vectors within bases of rows and columns, and how far their strength is above noise."""
    part = even if rows is None else rows.T @ even
    part = part if columns is None else part @ columns
    one, values, other = _leading(part, rank)
    if len(values) < rank:  # bases are not that wide: the others are those of the whole
        return _find_standing(even, rank, None, None)
    edge = np.sqrt(part.shape[0]) + np.sqrt(part.shape[1])  # of the singular values of noise alone
    strength = np.sqrt(np.where(values > edge, 0.9 * np.sqrt(np.maximum(values**2 - edge**2, 0.0)), 0.02 * edge))
    return one if rows is None else rows @ one, strength, other if columns is None else columns @ other


def _leading(matrix: Array, rank: int) -> tuple[Array, Array, Array]:
    """Return leading singular vectors and values by subspace iteration from a fixed start."""
    width = min(rank + _EXTRA, *matrix.shape)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((matrix.shape[1], width)))[0]
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(matrix.T @ (matrix @ basis))[0]
    one, values, other = np.linalg.svd(matrix @ basis, full_matrices=False)
    return one[:, :rank], values[:rank], (basis @ other.T)[:, :rank]


def _find_prior(rows: Array, spread: Array, square: Array, before: Array, walk: Walk | None) -> Array:
    if walk is not None:
        return learn_prior(walk, rows, spread, before)
    return np.clip(1.0 / square, *OF_PAIRS)


def _solve(
    precision: Array, score: Array, other: Array, spread: Array, prior: Array, walk: Walk | None
) -> tuple[Array, Array]:
    """Return means and covariances of the rows of one side, given the other's."""
    rank = other.shape[1]
    low, high = np.tril_indices(rank)
    packed = precision @ (other[:, low] * other[:, high] + spread[:, low, high])
    gram = np.empty((len(precision), rank, rank))
    gram[:, low, high] = packed
    gram[:, high, low] = packed
    if walk is not None:
        return solve_rows(walk, gram, score @ other, prior)[:2]
    gram[:, np.arange(rank), np.arange(rank)] += prior
    covariance = _invert_all(gram)
    return np.einsum("ipq,iq->ip", covariance, score @ other), covariance


def _invert_all(gram: Array) -> Array:
    """Invert positive definite matrices; where rounding made one of them singular, none quite as it is.

    What is next to singular on a unit diagonal gets a ridge there that rounding cannot hide.
    """
    try:
        inverse: Array = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        scale = 1.0 / np.sqrt(np.maximum(np.einsum("ipp->ip", gram), 1e-300))
        even = gram * scale[:, :, None] * scale[:, None, :] + _RIDGE * np.eye(gram.shape[1])
        inverse = np.linalg.inv(even) * scale[:, :, None] * scale[:, None, :]
    return inverse


def _mean_square(rows: Array, spread: Array) -> Array:
    """Return the expected mean square of every component, over rows."""
    square: Array = np.mean(rows**2 + np.einsum("irr->ir", spread), axis=0)
    return np.maximum(square, 1e-300)
