"""The mean of several fits as one model: components side by side, each with its share of the weight.

Fits from different starts err in different directions where entries are few; their mean errs less than most of them. A
mean of CP models is a CP model of the sum of their ranks, and one of Tucker models has their cores along its diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorveil.solvers.task import Array, Solution


def average(solutions: Sequence[Solution]) -> Solution:
    """Return the solution whose linear part is the mean of those of all."""
    if len(solutions) == 1:
        return solutions[0]
    count, first = len(solutions), solutions[0]
    factors = [np.concatenate(each, axis=1) for each in zip(*(s.factors for s in solutions), strict=True)]
    if first.core is None:
        share = factors[0].dtype.type(count ** (-1.0 / len(factors)))
        factors = [factor * share for factor in factors]
    biases = None
    if first.biases is not None:
        biases = tuple(_mean(each) for each in zip(*(s.biases or () for s in solutions), strict=True))
    remainders = [s.remainder for s in solutions if s.remainder is not None]
    variances = [s.noise_variance for s in solutions if s.noise_variance is not None]
    return replace(
        first,
        factors=tuple(factors),
        core=_join_cores([s.core for s in solutions if s.core is not None]),
        offset=float(np.mean([s.offset for s in solutions])),
        biases=biases,
        noise_variance=float(np.mean(variances)) if variances else None,
        remainder=_mean(remainders) if remainders else None,
    )


def _mean(arrays: Sequence[Array]) -> Array:
    out: Array = np.mean(arrays, axis=0).astype(arrays[0].dtype)
    return out


def _join_cores(cores: list[Array]) -> Array | None:
    """Return the cores along the diagonal of a larger one, over their number."""
    if not cores:
        return None
    wide = np.zeros([sum(sizes) for sizes in zip(*(core.shape for core in cores), strict=True)], cores[0].dtype)
    at = np.zeros(wide.ndim, dtype=int)
    for core in cores:
        wide[tuple(slice(low, low + size) for low, size in zip(at, core.shape, strict=True))] = core / len(cores)
        at += core.shape
    return wide
