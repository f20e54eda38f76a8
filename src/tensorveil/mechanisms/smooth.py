"""Effects of indices whose neighbours are alike: priors of open fits (solvers/priors/walk.py), for what tables show.

A mode is taken to be smooth because somebody who knows the subject says so; how smooth it is, if at all, is learnt from
released numbers by evidence, so it costs no budget. Each number of an index has a Gaussian posterior given the others.

Legend
    T, R            indices of the mode; components, 1 for biases
    gram, target    (T, R, R) and (T, R): precision of what was measured of each index, and precision times its mean
    alpha           (R,) precisions of the prior
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tensorveil.kernels.coupled import RowSums
from tensorveil.kernels.posterior import hold_rows
from tensorveil.mechanisms.data import Array
from tensorveil.solvers.priors.row_prior import PriorFactory
from tensorveil.solvers.priors.walk import Walk

# By mode: how the prior of its rows is made.
Smooth = Mapping[int, PriorFactory]
NOTHING_SMOOTH: Smooth = MappingProxyType({})

# Bases of slow waves: so many, with at least so many waves.
_BASES, _FEWEST_WAVES = 4, 2
# Components that are alike make Gram matrices singular; so much is added to diagonals, relatively.
_ROUNDING = 1e-9
# How many times the prior of biases is learnt anew from their posterior before other effects move.
_STEPS = 10
# Precisions of biases, in units of the rest, and of components of two-way effects.
OF_BIASES, OF_PAIRS = (0.1, 1e8), (1e-12, 1e30)
# Biases are there if their evidence is this much above that of none: three standard deviations of Laplace noise.
_PRESENT = 11.0


def start_walk(smooth: Smooth, mode: int, rank: int, limits: tuple[float, float]) -> Walk | None:
    """Return a mode's prior of numbers around zero, with precisions within limits; None if it is not smooth."""
    if mode not in smooth:
        return None
    walk = smooth[mode](rank)
    assert isinstance(walk, Walk)
    return replace(walk, centered=False, limits=limits)


def solve_rows(walk: Walk, gram: Array, target: Array, alpha: Array) -> tuple[Array, Array, float]:
    """Return means and covariances, and the evidence beyond that of no effect."""
    own = np.arange(target.shape[1])
    gram = gram.copy()
    gram[:, own, own] *= 1.0 + _ROUNDING
    nothing, center, zeros = np.zeros(target.shape), np.zeros(target.shape[1]), np.zeros(len(target))
    sums = RowSums(gram=gram, target=target, design=nothing, value=zeros, count=zeros)
    means, second, _, _, logdet = walk.solve(sums, center, alpha, 1.0, None, zeros)
    evidence = walk.evidence(hold_rows(means, second), 0, center, alpha) + 0.5 * logdet
    evidence += float(np.sum(target * means)) - 0.5 * float(np.sum(gram * second))
    return means, second - means[:, :, None] * means[:, None, :], evidence


def learn_prior(walk: Walk, means: Array, covariances: Array, alpha: Array) -> Array:
    """Learn from the posterior how alike neighbours are; return how precise their prior is."""
    second = covariances + means[:, :, None] * means[:, None, :]
    return walk.learn(hold_rows(means, second), 0, alpha)[1]


def list_waves(walk: Walk | None, size: int) -> list[Array | None]:
    """Return orthonormal bases of the slowest waves along a mode, the half of all, a quarter, ...; None is for all."""
    bases: list[Array | None] = [None]
    if walk is None:
        return bases
    place, number = np.argsort(walk.order)[:, None], np.arange(size)
    if walk.cycle:
        angles = 2.0 * np.pi * ((number + 1) // 2) * place / size
        waves = np.where(number % 2, np.sin(angles), np.cos(angles))
    else:
        waves = np.cos(np.pi * number * (place + 0.5) / size)
    waves = waves / np.maximum(np.linalg.norm(waves, axis=0), 1e-12)
    count = size // 2
    while count >= _FEWEST_WAVES and len(bases) <= _BASES:
        bases.append(waves[:, :count])
        count //= 2
    return bases


def fit_biases(
    walk: Walk, pull: Array, precision: Array, prior: float, rest: float, *, learn: bool
) -> tuple[Array, float]:
    """Return biases of a mode and their prior variance; no biases where evidence is for none.

    ``pull`` is precision times mean, and ``prior`` the variance that was found before; ``learn`` finds it anew.
    """
    gram, target = precision[:, None, None] * rest, pull[:, None] * rest**0.5  # in units of the rest
    alpha = np.array([rest / prior])
    means, spread, evidence = solve_rows(walk, gram, target, alpha)
    for _ in range(_STEPS * learn):
        alpha = learn_prior(walk, means, spread, alpha)
        means, spread, evidence = solve_rows(walk, gram, target, alpha)
    return means[:, 0] * (rest**0.5 if evidence > _PRESENT else 0.0), rest / float(alpha[0])
