"""Classify by Gaussian classes whose means and covariances are known up to noise of a known size.

What noise hides is shrunk: the common covariance towards a multiple of the identity, the classes' own towards the
common one, by the share of the observed deviation that noise alone would explain (Ledoit and Wolf 2004, with the noise
known rather than estimated). With much noise this is the nearest mean, with little a quadratic discriminant.

All classes are shrunk by the same share and lifted to the same floor, whatever their numbers of records: a covariance
that is broader because more noise hides it makes its class less likely everywhere, which says nothing of the class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError

__all__ = ["Discriminant", "Moments", "fit_discriminant", "moments_of_reports"]

Array = NDArray[Any]
SPREADS = 2.0  # deviations by which a squared norm must exceed that of noise before it counts as signal
FLOOR = 0.3  # share of the largest eigenvalue of noise alone to which smaller ones of a covariance are lifted


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """What is known of the classes, for rows on the unit sphere.

    Parameters
    ----------
    shares
        Shares of the classes, above 0.
    means
        Means (classes, k).
    seconds
        E r r' by class, (classes, k, k), without the noise's own contribution.
    mean_errors
        Variance of one element of the means, by class.
    second_errors
        Average variance of one element of the covariances that follow from both, by class.
    """

    shares: Array
    means: Array
    seconds: Array
    mean_errors: Array
    second_errors: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Discriminant:
    """A fitted classifier: predict the class with the highest Gaussian density.

    ``encode`` turns tensors into rows first; with None, x holds rows already.
    """

    shares: Array
    means: Array
    covariances: Array
    encode: Callable[[Any], Array] | None = None

    def scores(self, x: ArrayLike) -> Array:
        """Return log densities, one column per class, up to a common constant."""
        rows = np.asarray(x, dtype=np.float64) if self.encode is None else self.encode(x)
        out = np.empty((len(rows), len(self.shares)))
        for k, (share, mean, covariance) in enumerate(zip(self.shares, self.means, self.covariances, strict=True)):
            root = np.linalg.cholesky(covariance)
            away = np.linalg.solve(root, (rows - mean).T)
            out[:, k] = np.log(share) - np.log(np.diag(root)).sum() - 0.5 * np.einsum("ij,ij->j", away, away)
        return out

    def predict(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return the class of every tensor."""
        return np.asarray(self.scores(x).argmax(axis=1), dtype=np.int64)


def moments_of_reports(reports: ArrayLike, y: ArrayLike, classes: int) -> Moments:
    """Estimate the moments of rows of length 1 from unbiased reports of them with isotropic noise.

    The variance of the noise per element is the mean squared length of the reports, less 1, over the dimension.
    """
    rows, labels = np.asarray(reports, dtype=np.float64), np.asarray(y)
    counts = np.bincount(labels, minlength=classes)
    if rows.ndim != 2 or labels.shape != (len(rows),) or counts.min() < 2:
        raise InputError("reports must be rows with one class each, and at least two of every class.")
    k = rows.shape[1]
    noise = max((float(np.einsum("ij,ij->", rows, rows)) / len(rows) - 1) / k, 0.0)
    means, seconds = np.empty((classes, k)), np.empty((classes, k, k))
    for c in range(classes):
        own = rows[labels == c]
        means[c] = own.mean(axis=0)
        seconds[c] = own.T @ own / len(own) - noise * np.eye(k)
    shares = counts / counts.sum()
    spread = noise + _variance_within(shares, means, noise / counts) / k
    return Moments(
        shares=shares,
        means=means,
        seconds=seconds,
        mean_errors=spread / counts,
        second_errors=spread**2 / counts,
    )


def fit_discriminant(moments: Moments, encode: Callable[[Any], Array] | None = None) -> Discriminant:
    """Fit the classes' Gaussians, each as far as the noise permits. Post-processing of private numbers."""
    shares, means = np.maximum(moments.shares, 1e-9), moments.means
    k = means.shape[1]
    own = moments.seconds - np.einsum("ci,cj->cij", means, means)
    common = np.einsum("c,cij->ij", shares / shares.sum(), own)
    common = 0.5 * (common + common.T)
    error = float((shares**2 @ moments.second_errors) / shares.sum() ** 2)
    level = _variance_within(shares / shares.sum(), means, moments.mean_errors) / k
    common = _lift(_shrink(common, level * np.eye(k), error), level, error)
    covariances = _shrink_alike(own, common, shares / shares.sum(), moments.second_errors, level)
    return Discriminant(shares=shares, means=means, covariances=covariances, encode=encode)


def _variance_within(shares: Array, means: Array, errors: Array) -> float:
    """Return the variance of rows within classes, summed over directions: 1 less the squared length of the means."""
    lengths = np.einsum("ci,ci->c", means, means) - means.shape[1] * errors
    return float(min(max(1 - shares @ np.maximum(lengths, 0.0), 0.02), 1.0))


def _shrink_alike(own: Array, common: Array, shares: Array, errors: Array, level: float) -> Array:
    """Move the classes' covariances towards the common one, all by the same share, and lift them to the same floor."""
    away = 0.5 * (own + own.transpose(0, 2, 1)) - common
    k, error = len(common), float(shares @ errors)
    total = float(np.einsum("c,cij,cij->", shares, away, away))
    if total <= error * k * k + SPREADS * 2 * k * float(np.linalg.norm(shares * errors)):
        return np.stack([common] * len(own))
    kept = 1 - error * k * k / total
    return np.stack([_lift(common + kept * mine, level, error) for mine in away])


def _shrink(seen: Array, target: Array, error: float) -> Array:
    """Move a matrix towards a target by the share of the distance that noise alone would explain."""
    away = seen - target
    k = len(seen)
    # The squared norm of k (k + 1) / 2 free elements, those off the diagonal counted twice, has deviation about 2 k.
    by_noise = error * (k * k + SPREADS * 2 * k)
    total = float(np.einsum("ij,ij->", away, away))
    if total <= by_noise:
        return target
    out: Array = target + (1 - error * k * k / total) * away
    return out


def _lift(matrix: Array, level: float, error: float) -> Array:
    """Lift eigenvalues that noise could have caused, but never above the mean one."""
    values, vectors = np.linalg.eigh(matrix)
    floor = min(max(FLOOR * 2 * np.sqrt(len(matrix) * error), 1e-3 * level), level)
    out: Array = (vectors * np.maximum(values, floor)) @ vectors.T
    return out
