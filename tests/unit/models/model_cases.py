"""Random models and a brute-force evaluation to hold them against."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorveil.models import CPModel, TuckerModel

LETTERS = "abcdefgh"


def random_model(
    kind: Any,
    shape: Any = (4, 5, 3),
    rank: int = 2,
    *,
    offset: float = 0.7,
    biases: bool = True,
    seed: int = 0,
    modes: Any = None,
    bounds: Any = None,
    dtype: Any = None,
) -> Any:
    rng = np.random.default_rng(seed)
    dtype = dtype or np.float64
    factors = tuple(rng.normal(size=(size, rank)).astype(dtype) for size in shape)
    common = {
        "factors": factors,
        "offset": offset,
        "biases": tuple(rng.normal(size=size).astype(dtype) for size in shape) if biases else None,
        "modes": modes,
        "bounds": bounds,
    }
    if kind == "cp":
        return CPModel(**common)
    return TuckerModel(core=rng.normal(size=(rank,) * len(shape)).astype(dtype), **common)


def brute_force(model: Any, clip: bool = True) -> Any:
    """Every cell, straight from the definition."""
    coords = np.argwhere(np.ones(model.shape, dtype=bool))
    cells = brute_force_at(model, coords).reshape(model.shape)
    return np.clip(cells, *model.bounds) if clip and model.bounds else cells


def brute_force_at(model: Any, coords: Any) -> Any:
    """Unclipped values at coordinates, one by one."""
    values = []
    for index in coords:
        rows = [factor[i].astype(float) for factor, i in zip(model.factors, index, strict=True)]
        if isinstance(model, CPModel):
            value = np.prod(rows, axis=0).sum()
        else:
            value = model.core.astype(float)
            for row in reversed(rows):
                value = value @ row
        if model.biases is not None:
            value += sum(bias[i] for bias, i in zip(model.biases, index, strict=True))
        values.append(value + model.offset)
    return np.array(values)
