"""Products: what effects say of a tensor whose modes multiply, beyond their sum.

Counts and other positive numbers are often nearly multiplicative: twice the trips at this place and thrice at this hour
make six times both. Tables show effects only, but of a multiplicative tensor they tell its interactions of three and
more modes too. By Kirkwood's superposition (1935), a cell is

    m  prod_i (T_i / m)  prod_ij (T_ij m / (T_i T_j)),

with the mean m and the means T of one index or two, all above the lower bound. What this says beyond the sum of effects
is fitted by a few components. How much of it is true is one number, which costs a small share of the budget.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorveil.mechanisms.data import Array, Form
from tensorveil.mechanisms.decoder import Effects
from tensorveil.mechanisms.fitting import Perturbed, fit_values, predict_solution

_RANK, _SWEEPS = 8, 30
# Means of one index are at least this share of the mean, those of two at least this share of the lower of theirs.
_FLOOR = 0.2
# Components are fitted as if products had noise of this share of their variance.
_NOISE = 0.02


def multiply(effects: Effects, columns: Array, bounds: tuple[float, float]) -> Array:
    """Return what products of means say at coordinates, within bounds; ``effects`` without products themselves."""
    low, high = bounds
    mean = max(effects.offset - low, 1e-6 * (high - low))
    singles = [np.maximum(1.0 + bias / mean, _FLOOR) for bias in effects.biases]
    total = np.full(columns.shape[1], np.log(mean))
    for single, column in zip(singles, columns, strict=True):
        total += np.log(single)[column]
    for (one, other), pair in effects.pairs.items():
        left, right = singles[one][:, None], singles[other][None, :]
        both = 1.0 + (effects.biases[one][:, None] + effects.biases[other][None, :] + pair.matrix) / mean
        both = np.maximum(both, _FLOOR * np.minimum(left, right))
        total += np.log(both / (left * right))[columns[one], columns[other]]
    product: Array = np.clip(low + np.exp(np.minimum(total, np.log(high - low))), low, high)
    return product


def find_products(
    effects: Effects, columns: Array, bounds: tuple[float, float], form: Form
) -> tuple[tuple[Array, ...], Array]:
    """Return components of what products say beyond the sum of effects, and their values at coordinates."""
    shape = tuple(len(bias) for bias in effects.biases)
    beyond = multiply(effects, columns, bounds) - effects.at(columns)
    spread = float(np.std(beyond))
    if spread <= 0:
        return tuple(np.zeros((size, 1)) for size in shape), np.zeros(columns.shape[1])
    perturbed = Perturbed(columns=columns, shape=shape, noise=_NOISE * spread**2)
    plain = replace(
        form, ranks=(_RANK,) * len(shape), core=False, solver="bayes", estimate_rank=False, sweeps=_SWEEPS, smooth={}
    )
    solution = fit_values(perturbed, beyond, plain, once=True).solution
    components = replace(solution, offset=0.0, biases=None)
    return components.factors, predict_solution(components, columns, form.threads)
