"""What the recipes of type III share: a budget, rounds of exact integer sums, running them in one place, the guarantee.

They keep the contract of `tensorveil.rounds`, so that the federated engine runs them as they are.
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
from tensorveil.rounds import Round, State, noise_for, parts_of

__all__ = ["LearningRounds", "learn_in_rounds", "promise_of"]

Array = NDArray[Any]
FORMAT = 1
TRUSTED = "whoever adds up the contributions is trusted with them, and adds the noise"


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningRounds(ABC):
    """Common part of the recipes: everything here is public and declared.

    Parameters
    ----------
    epsilon, delta: the budget of all rounds together, for one unit (`protect`); delta is above 0.
    most_users: how many units there are at most; sums must fit 64 bits.
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
        """How many rounds there are."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many integers a round sums."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """By how much, in steps and Euclidean norm, one unit can change a round's sum, rounding included."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The largest integer of one unit's contribution."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the numbers that are contributed."""
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
        """Give the public state before the first round."""

    @abstractmethod
    def contribute(self, state: State, group: Samples, *, threads: int | None = None) -> NDArray[np.int64]:
        """Give a client's bounded integers; the bound holds whatever the state says."""

    @abstractmethod
    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Give the next state from the noisy sum: post-processing."""

    @abstractmethod
    def finish(self, state: State) -> Any:
        """Give the classifier: post-processing."""

    def to_json(self) -> dict[str, Any]:
        """Give plain data, from which every party makes the same recipe."""
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
            raise InputError("the recipe has not the fields it should have. Use the same tensorveil everywhere.")
        return cls(**cls._read({name: content[name] for name in names}))

    @classmethod
    def _read(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Turn plain data into the fields."""
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
            total += noise_for(this, source)
        state = recipe.advance(state, total)
    return state


def promise_of(recipe: LearningRounds, source: NoiseSource) -> Guarantee:
    """Say what a run in one trusted place promises, with noise from this source."""
    return Guarantee.prove(
        unit=Unit.slice(recipe.protect),
        event=Composed(Gaussian(this.mu) for this in recipe.rounds),
        epsilon=recipe.epsilon,
        delta=recipe.delta,
        composition=parts_of(cast(Any, recipe)),
        released=("the classifier", "every round's noisy sum"),
        proof=recipe.proof,
        secure_noise=source.secure,
        bounds=None,
        mechanism=recipe.label,
        conditions=(TRUSTED,),
    )


def norm_limit(norm: float, step: float, size: int) -> int:
    """Return, in steps, the largest norm of rows that were cut to a norm and then rounded to the grid.

    Rounding to the nearest point moves each of so many numbers by half a step at most; a millionth more than covers
    the floating-point errors of the norm itself.
    """
    return math.ceil(norm / step * (1 + 1e-6) + 0.5 * math.sqrt(size)) + 1


def shortened(rows: Array, norm: float) -> Array:
    """Return rows cut to a Euclidean norm; what is not finite counts as nothing."""
    finite = np.where(np.isfinite(rows), rows, 0.0)
    scale = np.abs(finite).max(axis=1)
    safe = np.where(scale > 0, scale, 1.0)[:, None]
    lengths = safe[:, 0] * np.sqrt(np.einsum("ij,ij->i", finite / safe, finite / safe))
    out: Array = finite * np.minimum(1.0, norm / np.maximum(lengths, norm * 1e-9))[:, None]
    return out
