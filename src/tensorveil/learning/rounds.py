"""What the recipes of type III have in common: a budget, rounds of exact integer sums, a runner and the guarantee.

They follow the contract of `tensorveil.rounds`, so the federated engine runs them unchanged.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.learning.samples import Samples
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Composed, Gaussian, Guarantee, Unit, gaussian_mu, split_gaussian
from tensorveil.rounds import Round, State, describe_parts, draw_noise

__all__ = ["LearningRounds", "learn_in_rounds", "promise_of"]

Array = NDArray[Any]
FORMAT = 1
TRUSTED = "whoever adds up the contributions is trusted with them, and adds the noise"


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningRounds(ABC):
    """The common part of the recipes: everything here is public and declared.

    Parameters
    ----------
    epsilon, delta
        The budget of all rounds together, for one unit (`protect`); delta must be above 0.
    most_users
        The largest possible number of units, because sums must fit into 64 bits.
    """

    epsilon: float
    delta: float
    most_users: int

    protect: ClassVar[str]
    statistic: ClassVar[str]
    label: ClassVar[str]
    proof: ClassVar[str]

    def __post_init__(self) -> None:
        _ = self.mu
        if isinstance(self.most_users, bool) or not isinstance(self.most_users, int) or self.most_users < 1:
            raise InputError(f"most_users must be at least 1; got {self.most_users!r}. Declare an upper bound.")

    @cached_property
    def mu(self) -> float:
        """What all rounds together spend."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    @abstractmethod
    def turns(self) -> int:
        """The number of rounds."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of integers in a round's sum."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """The largest change of a round's sum by one unit: Euclidean norm, in grid steps, including rounding."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The largest integer in one unit's contribution."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the contributed numbers."""
        return (-1.0, 1.0)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, with what each spends: equal shares of mu squared."""
        return tuple(
            Round(
                name=f"round {k + 1}", size=self.size, limit=self.limit, largest=self.largest, mu=mu,
                statistic=self.statistic,
            )
            for k, mu in enumerate(split_gaussian(self.mu, [1.0] * self.turns))
        )  # fmt: skip

    @abstractmethod
    def start(self) -> State:
        """Return the public state before the first round."""

    @abstractmethod
    def contribute(self, state: State, group: Samples, *, threads: int | None = None) -> NDArray[np.int64]:
        """Return a client's bounded integers; the bound holds whatever the state is."""

    @abstractmethod
    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Return the next state from the noisy sum: post-processing."""

    @abstractmethod
    def finish(self, state: State) -> Any:
        """Return the classifier: post-processing."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data, from which every party makes the same recipe."""
        content = {"format": FORMAT}
        for each in fields(self):
            value = getattr(self, each.name)
            content[each.name] = value.to_json() if hasattr(value, "to_json") else value
        return content

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Read what `to_json` wrote; anything missing or unknown is refused."""
        names = {each.name for each in fields(cls)}
        if not isinstance(content, dict) or set(content) != names | {"format"} or content["format"] != FORMAT:
            raise InputError(
                "the recipe must have the fields that to_json writes, no more and no fewer. "
                "Use the same version of tensorveil everywhere."
            )
        return cls(**cls._read({name: content[name] for name in names}))

    @classmethod
    def _read(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Turn plain data into the values of the fields."""
        return content


def learn_in_rounds(recipe: LearningRounds, groups: Iterable[Samples], source: NoiseSource | None) -> State:
    """Run all rounds in one trusted place and return the last state; without a source no noise is added.

    Guarantee: with a secure source, the recipe's (docs/guarantees.md#learning-in-rounds).
    """
    everyone = tuple(groups)
    state = recipe.start()
    for this in recipe.rounds:
        total = np.zeros(this.size, dtype=np.int64)
        for group in everyone:
            total += recipe.contribute(state, group)
        if source is not None:
            total += draw_noise(this, source)
        state = recipe.advance(state, total)
    return state


def promise_of(recipe: LearningRounds, source: NoiseSource) -> Guarantee:
    """Return the guarantee of a run in one trusted place, with noise from this source."""
    return Guarantee.prove(
        unit=Unit.slice(recipe.protect),
        event=Composed(Gaussian(this.mu) for this in recipe.rounds),
        epsilon=recipe.epsilon,
        delta=recipe.delta,
        composition=describe_parts(cast(Any, recipe)),
        released=("the classifier", "every round's noisy sum"),
        proof=recipe.proof,
        secure_noise=source.secure,
        bounds=None,
        mechanism=recipe.label,
        conditions=(TRUSTED,),
    )


def norm_limit(norm: float, step: float, size: int) -> int:
    """Return, in grid steps, the largest norm of rows that were clipped to a norm and then rounded to the grid.

    Rounding to the nearest grid point moves each of the ``size`` numbers by at most half a step; another millionth more
    than covers the floating-point errors of the norm itself.
    """
    return math.ceil(norm / step * (1 + 1e-6) + 0.5 * math.sqrt(size)) + 1


def clip_rows(rows: Array, norm: float) -> Array:
    """Clip rows to a Euclidean norm; numbers that are not finite count as 0."""
    finite = np.where(np.isfinite(rows), rows, 0.0)
    scale = np.abs(finite).max(axis=1)
    safe = np.where(scale > 0, scale, 1.0)[:, None]
    lengths = safe[:, 0] * np.sqrt(np.einsum("ij,ij->i", finite / safe, finite / safe))
    out: Array = finite * np.minimum(1.0, norm / np.maximum(lengths, norm * 1e-9))[:, None]
    return out
