"""Rows of which features speak: a row's prior mean is a linear map of its features.

Row i has the prior N(center + W'x_i, 1 / alpha) per component, x_i its features. What is drawn towards zero is W, with
a precision gamma per feature (relative to alpha, so that components may be multiplied): a feature that says nothing is
switched off by evidence (automatic relevance; MacKay 1992). A row without entries gets its prior mean, which is what
its features say of it: a cold start. Rows and map are two factors of the variational posterior, both exact given the
other. Regression of factors on attributes: Agarwal and Chen (2009); Porteous, Asuncion and Welling (2010).

With V the inverse of X'X + diag(gamma), the map has the posterior mean V X'(f - center) and the covariance V / alpha in
every component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.coupled import RowSums, SolvedRows
from tensorveil.kernels.posterior import Posterior
from tensorveil.solvers.priors.row_prior import solve_biases

Array = NDArray[Any]

_LARGEST = 1e8


@dataclass(kw_only=True)
class Side:
    """The prior of one mode: features (rows, features), their map (features, rank), and what is known of both."""

    features: Array
    weights: Array
    gamma: Array
    spread: Array  # V

    @staticmethod
    def start(rank: int, features: Array) -> Side:
        """Return a prior in which features say nothing yet."""
        known = features.shape[1]
        return Side(
            features=features,
            weights=np.zeros((known, rank)),
            gamma=np.full(known, float(len(features))),
            spread=np.eye(known),
        )

    def solve(
        self, sums: RowSums, center: Array, alpha: Array, variance: float, beta: float | None, bias: Array
    ) -> SolvedRows:
        """Return the posterior of each row; biases follow, given the rows."""
        size, rank = sums.target.shape
        precision = sums.gram / variance
        precision[:, np.arange(rank), np.arange(rank)] += alpha
        covariances = np.linalg.inv(precision)
        old = bias if beta is not None else np.zeros(size)
        right = (sums.target - old[:, None] * sums.design) / variance + alpha * (center + self.features @ self.weights)
        means = np.einsum("irs,is->ir", covariances, right)
        biases, spread = solve_biases(sums, means, variance, beta, size)
        logdet = -float(np.linalg.slogdet(precision)[1].sum())
        return means, covariances + means[:, :, None] * means[:, None, :], biases, spread, logdet

    def learn(self, posterior: Posterior, mode: int, alpha: Array) -> tuple[Array, Array]:
        """Re-estimate center, map, relevance and alpha, with one more row at zero as the center's own prior."""
        size, means = posterior.shape[mode], posterior.factor(mode)
        center: Array = np.sum(means - self.features @ self.weights, axis=0) / (size + 1)
        # The map's posterior and the relevances settle each other; a few rounds per sweep are enough.
        moments = self.features.T @ self.features
        for _ in range(3):
            self.spread = np.linalg.inv(moments + np.diag(self.gamma))
            self.weights = self.spread @ (self.features.T @ (means - center))
            determined = np.maximum(1.0 - self.gamma * np.diag(self.spread), 1e-6) * len(alpha)
            self.gamma = np.clip(determined / np.maximum(self.weights**2 @ alpha, 1e-300), 1e-6, _LARGEST)
        uncertain = posterior.squares(mode) - np.sum(means**2, axis=0)
        square = np.sum((means - center - self.features @ self.weights) ** 2, axis=0)
        square += self.gamma @ self.weights**2 + center**2
        determined = np.maximum(size + 1 - alpha * uncertain, 1e-3)
        return center, np.clip(determined / np.maximum(square, 1e-300), 1e-6, _LARGEST)

    def evidence(self, posterior: Posterior, mode: int, center: Array, alpha: Array) -> float:
        """Return the expected log density of rows and map, less that of the map's posterior; half a unit per number."""
        size, means = posterior.shape[mode], posterior.factor(mode)
        square = posterior.squares(mode) - np.sum(means**2, axis=0)
        square = square + np.sum((means - center - self.features @ self.weights) ** 2, axis=0)
        rows = np.sum(size * (np.log(alpha) + 1) - alpha * (square + self.gamma @ self.weights**2))
        moments = self.features.T @ self.features
        map_ = np.sum(np.log(self.gamma)) - np.sum((moments + np.diag(self.gamma)) * self.spread)
        map_ += np.linalg.slogdet(self.spread)[1] + len(self.gamma)
        return float(0.5 * (rows + len(alpha) * map_))

    def rescale(self, scales: Array) -> None:
        """Follow components that were multiplied."""
        self.weights = self.weights * scales
