"""Rows of an ordered mode, of which neighbours are alike: each component is an autoregression of first order.

A component's rows have the prior of a stationary process with a mean, a precision alpha and a correlation phi between
neighbours, which is learnt by evidence, per component. At phi = 0 it is the prior of rows that have nothing to do with
each other, so a mode that is not smooth loses nothing; towards phi = 1 it is a random walk. In a cycle the last row is
a neighbour of the first. Rows without entries lie between their neighbours instead of at the mean. The posterior of all
rows together is exact (kernels/chain.py); a bias per row stays independent.

With z the rows less their mean and q = (1 - phi^2) / alpha the variance of a step, the exponent is the quadratic form

    sum z_t^2 (1 + phi^2) - 2 phi sum z_t z_(t+1)  [less phi^2 (z_first^2 + z_last^2) unless it is a cycle],  over q.

The determinant is that of a tridiagonal or a circulant matrix: q^-T (1 - phi^2), or q^-T (1 - phi^T)^2 (Rue and Held,
2005, chapters 1 and 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.chain import solve_chain
from tensorveil.kernels.coupled import RowSums, SolvedRows
from tensorveil.kernels.posterior import Posterior, diagonal_positions
from tensorveil.solvers.priors.row_prior import solve_biases

Array = NDArray[Any]

# Correlations that are compared when a component's is learnt; the last one is near enough to a random walk.
_CORRELATIONS = 1.0 - 10.0 ** (-np.arange(129) / 32)
_START = 0.5
# The smallest cycle in which the neighbours of a row are two different ones.
SMALLEST_CYCLE = 3


@dataclass(kw_only=True)
class Walk:
    """The prior of one mode: correlations of neighbours per component, and their covariances in the posterior.

    Means are learnt, or zero where rows are not ``centered``. Precisions alpha stay within ``limits``.
    """

    order: Array
    cycle: bool
    phi: Array
    cross: Array
    centered: bool = True
    limits: tuple[float, float] = (1e-6, 1e8)

    @staticmethod
    def start(rank: int, order: Array, *, cycle: bool) -> Walk:
        """Return a prior that leans to neither side, of rows in this order; too short a cycle is a walk."""
        cycle = cycle and len(order) >= SMALLEST_CYCLE
        return Walk(order=order, cycle=cycle, phi=np.full(rank, _START), cross=np.zeros(rank))

    def solve(
        self, sums: RowSums, center: Array, alpha: Array, variance: float, beta: float | None, bias: Array
    ) -> SolvedRows:
        """Return the exact posterior of all rows; biases follow, given the rows."""
        size, rank = sums.target.shape
        step = alpha / (1.0 - self.phi**2)
        diagonal = np.broadcast_to(step * (1.0 + self.phi**2), (size, rank)).copy()
        if not self.cycle:
            for end in (0, -1):
                diagonal[self.order[end]] -= step * self.phi**2
        blocks = sums.gram / variance
        blocks[:, np.arange(rank), np.arange(rank)] += diagonal
        old = bias if beta is not None else np.zeros(size)
        right = (sums.target - old[:, None] * sums.design) / variance + alpha * center * self._weights(size)
        back = np.argsort(self.order)
        means, covariances, self.cross, logdet = solve_chain(
            blocks[self.order], right[self.order], -step * self.phi, cycle=self.cycle
        )
        means, covariances = means[back], covariances[back]
        biases, spread = solve_biases(sums, means, variance, beta, size)
        return means, covariances + means[:, :, None] * means[:, None, :], biases, spread, logdet

    def learn(self, posterior: Posterior, mode: int, alpha: Array) -> tuple[Array, Array]:
        """Re-estimate center, correlation and alpha, with one more row at zero as the center's own prior."""
        del alpha
        size = posterior.shape[mode]
        center = self._find_center(posterior.factor(mode))
        count = size + self.centered
        phi = np.maximum(np.vstack([np.tile(_CORRELATIONS[:, None], len(self.phi)), self.phi]), 0.0)
        forms = self._quadratic(posterior, mode, center, phi) / (1.0 - phi**2) + center**2
        gain = self._logdet(phi, size) - count * np.log(np.maximum(forms, 1e-300))
        best = np.argmax(gain, axis=0)
        components = np.arange(len(self.phi))
        self.phi = phi[best, components]
        return center, np.clip(count / np.maximum(forms[best, components], 1e-300), *self.limits)

    def evidence(self, posterior: Posterior, mode: int, center: Array, alpha: Array) -> float:
        """Return the expected log density of the rows, with half a unit added for each of their numbers."""
        size = posterior.shape[mode]
        form = alpha * self._quadratic(posterior, mode, center, self.phi) / (1.0 - self.phi**2)
        return float(0.5 * np.sum(size * (np.log(alpha) + 1) + self._logdet(self.phi, size) - form))

    def rescale(self, scales: Array) -> None:
        """Follow components that were multiplied."""
        self.cross = self.cross * scales**2

    def _find_center(self, means: Array) -> Array:
        if not self.centered:
            return np.zeros(means.shape[1])
        weights = self._weights(len(means))
        center: Array = np.sum(weights * means, axis=0) / (weights.sum(axis=0) + 1.0)
        return center

    def _weights(self, size: int) -> Array:
        """Return what each row counts for the mean: sums of the precision's rows, over alpha."""
        weights: Array = np.tile((1.0 - self.phi) / (1.0 + self.phi), (size, 1))
        if not self.cycle:
            for end in (0, -1):
                weights[self.order[end]] += self.phi / (1.0 + self.phi)
        return weights

    def _logdet(self, phi: Array, size: int) -> Array:
        """Return the log determinant of the rows' precision at alpha = 1."""
        ends = 2 * np.log(1.0 - phi**size) if self.cycle else np.log(1.0 - phi**2)
        logdet: Array = ends - size * np.log(1.0 - phi**2)
        return logdet

    def _quadratic(self, posterior: Posterior, mode: int, center: Array, phi: Array) -> Array:
        """Return the expected quadratic form, over (1 - phi^2)."""
        size, rank = posterior.shape[mode], posterior.ranks[mode]
        plain = posterior.factor(mode)
        means = plain[self.order] - center
        total = posterior.squares(mode) - 2 * center * posterior.sums(mode) + size * center**2
        pairs = np.sum(means[1:] * means[:-1], axis=0) + self.cross
        form: Array = (1 + phi**2) * total - 2 * phi * pairs
        if self.cycle:
            form -= 2 * phi * means[0] * means[-1]
            return form
        ends = self.order[[0, -1]]
        second = posterior.second[posterior.rows(mode)][ends][:, diagonal_positions(rank)]
        squares = second - plain[ends] ** 2 + means[[0, -1]] ** 2
        form -= phi**2 * squares.sum(axis=0)
        return form
