"""Products: what effects say of a tensor whose modes multiply, beyond their sum.

Counts and other positive numbers are often nearly multiplicative: twice the trips at this place and thrice at this hour
make six times both. Tables show effects only, but of a multiplicative tensor they tell its interactions of three and
more modes too: of all positive tensors with given means over the cells of some tables, the one that is a product of
factors by cell of these tables assumes least. It is found by proportional fitting (Deming and Stephan 1940), which
takes account of where entries are. The means are those of what effects say, above the lower bound.

What this says beyond the effects is fitted by a few components. How much of it is true is one number, which costs a
small share of the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorveil.mechanisms.cells import Cells
from tensorveil.mechanisms.data import Array, Form
from tensorveil.mechanisms.decoder import Effects
from tensorveil.mechanisms.design import predict_entries
from tensorveil.mechanisms.fitting import Perturbed, fit_values, predict_solution, weigh

_RANK, _SWEEPS = 8, 30
# Means of one index are at least this share of the mean, those of two at least this share of what single ones make.
_FLOOR, _ROUNDS = 0.2, 4
# Components are fitted as if products had noise of this share of their variance.
_NOISE = 0.02


def multiply(effects: Effects, columns: Array, bounds: tuple[float, float]) -> Array:
    """Return what products that have the means of effects say at coordinates, within bounds."""
    low, high = bounds
    above = effects.at(columns) - low
    mean = max(float(np.mean(above)), 1e-6 * (high - low))
    shape = tuple(len(bias) for bias in effects.biases)
    ones = [Cells.of(columns, shape, (mode,)) for mode in range(len(shape))]
    twos = [Cells.of(columns, shape, modes) for modes in sorted(effects.pairs)]
    wanted = [(cells, np.maximum(cells.sum(above), _FLOOR * mean * cells.counts)) for cells in ones]
    product = _fit_proportions(np.full(len(above), mean), wanted)
    if twos:
        wanted += [(cells, np.maximum(cells.sum(above), _FLOOR * cells.sum(product))) for cells in twos]
        product = _fit_proportions(product, wanted)
    return np.clip(low + product, low, high)


def _fit_proportions(product: Array, wanted: Sequence[tuple[Cells, Array]]) -> Array:
    """Multiply positive numbers by a factor for every cell, so that they have the wanted sums over cells."""
    for _ in range(_ROUNDS):
        for cells, sums in wanted:
            product = product * (sums / np.maximum(cells.sum(product), 1e-300))[cells.index]
    return product


def weigh_products(factors: tuple[Array, ...], middle: float, spread: float, columns: Array) -> Array:
    """Return what products count, around their mean, as rows of one number."""
    return weigh(predict_entries(columns, None, factors, 1) - middle, spread)[:, None]


def find_products(
    effects: Effects, columns: Array, bounds: tuple[float, float], form: Form
) -> tuple[tuple[Array, ...], Array]:
    """Return components of what products say beyond effects, and their values at coordinates."""
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
