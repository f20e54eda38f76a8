"""The model that all users share: biases and factors of the released modes, and nothing of any user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.users.contract import State

if TYPE_CHECKING:
    from tensorveil.users.recipe import Recipe

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedModel:
    """What is released: offset, biases of the released modes, and what is known of users' tastes as a population."""

    modes: tuple[str, ...]
    protect: str
    bounds: tuple[float, float]
    offset: float
    biases: tuple[Array, ...] = field(repr=False)
    spread: float
    taste_mean: Array = field(repr=False)
    taste_covariance: Array = field(repr=False)

    @classmethod
    def from_state(cls, recipe: Recipe, state: State) -> SharedModel:
        """Take what is released out of the last state."""
        return cls(
            modes=recipe.modes,
            protect=recipe.protect,
            bounds=recipe.bounds,
            offset=float(state["offset"][0]),
            biases=tuple(np.array(state["biases"][part]) for part in recipe.row_slices),
            spread=float(state["spread"][0]),
            taste_mean=np.array(state["taste_mean"]),
            taste_covariance=np.array(state["taste_covariance"]),
        )
