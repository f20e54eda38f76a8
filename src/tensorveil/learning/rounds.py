"""What the recipes of type III have in common: a budget, rounds of exact integer sums, a runner and the guarantee.

They follow the contract of `tensorveil.rounds`, so the federated engine runs them unchanged.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.learning.samples import Samples
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Composed, Gaussian, Guarantee, Unit, gaussian_mu, split_gaussian
from tensorveil.privacy.delta import check_delta
from tensorveil.rounds import Round, State, describe_parts, draw_noise

__all__ = ["Learned", "LearningRounds", "learn_in_rounds"]

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
        The largest possible number of units: sums must fit into 64 bits, and delta stay below one in so many.
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

    def _check_length(self) -> None:
        """Refuse what the bound could not hold; a recipe calls it when its own parameters are checked."""
        from tensorveil.kernels.bounding import MOST_STEPS

        if self.longest > MOST_STEPS:
            raise InputError("the recipe has too many numbers for its grid. Take a smaller network, or fewer classes.")

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
    def width(self) -> int:
        """The number of integers that one unit contributes; a record's may go to one of several places of the sum."""
        return self.size

    @property
    @abstractmethod
    def norm(self) -> float:
        """The Euclidean norm to which one unit's contribution is cut."""

    @property
    @abstractmethod
    def step(self) -> float:
        """The step of the grid."""

    @cached_property
    def longest(self) -> int:
        """The greatest length of one unit's contribution, in grid steps: what the bound enforces, rounding included."""
        return norm_limit(self.norm, self.step, self.width)

    @property
    def limit(self) -> int:
        """The largest change of a round's sum by one unit: Euclidean norm, in grid steps.

        A user's contribution may be replaced by the opposite one; a record is added or removed.
        """
        return 2 * self.longest if self.protect == "user" else self.longest

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the contributed numbers."""
        return (-1.0, 1.0)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, with what each spends: equal shares of mu squared."""
        return tuple(
            Round(
                name=f"round {k + 1}", size=self.size, limit=self.limit, largest=self.longest, mu=mu,
                statistic=self.statistic,
            )
            for k, mu in enumerate(split_gaussian(self.mu, [1.0] * self.turns))
        )  # fmt: skip

    @abstractmethod
    def start(self) -> State:
        """Return the public state before the first round."""

    @abstractmethod
    def _rows(self, state: State, group: Samples) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        """Yield the numbers of units (n, width), and for each unit the place (of size / width) that it is added to."""

    def contribute(self, state: State, group: Samples, *, threads: int | None = None) -> NDArray[np.int64]:
        """Return the sum of what a client's units contribute, each bounded, as integers.

        The bound holds whatever state and records are, and what cannot be computed counts as nothing: an error would
        tell something about the record that caused it.
        """
        from tensorveil.kernels import bounding

        total = np.zeros(self.rounds[state.round].size, dtype=np.int64)
        if len(group) == 0:
            return total
        with np.errstate(all="ignore"):
            for rows, places in self._rows(state, group):
                numbers = np.ascontiguousarray(rows, dtype=np.float64)
                sums = total.reshape(-1, numbers.shape[1])
                once = np.ones(len(numbers))
                bounding.add_bounded_rows(numbers, once, places, 1 / self.step, self.longest, sums)
        return total

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """What a run has found, and what the same run promises.

    Parameters
    ----------
    model
        The classifier.
    state
        What the last round has left.
    guarantee
        The promise, with the noise that was really drawn; None if no noise was added, and nothing is promised.
    """

    model: Any
    state: State
    guarantee: Guarantee | None


def learn_in_rounds(
    recipe: LearningRounds, groups: Iterable[Samples], source: NoiseSource | None, *, accept_delta: bool = False
) -> Learned:
    """Run all rounds in one trusted place; without a source no noise is added, and nothing is promised.

    A delta above 0.01, or no smaller than one in ``most_users``, is refused unless ``accept_delta`` insists on it.

    Guarantee: with a secure source, the recipe's (docs/guarantees.md#learning-in-rounds).

    >>> from tensorveil.learning import ClassMoments, Directions
    >>> from tensorveil.local import Basis
    >>> from tensorveil.noise import SecureSource
    >>> recipe = ClassMoments(
    ...     epsilon=1.0, delta=1e-5, most_users=10, directions=Directions(basis=Basis.dct((2,), 2)), classes=2
    ... )
    >>> group = Samples(x=[[0.0, 1.0], [1.0, 0.0]], y=[0, 1], classes=2)
    >>> learn_in_rounds(recipe, [group], SecureSource()).guarantee.private
    True
    """
    if source is not None:
        check_delta(recipe.delta, Unit.slice(recipe.protect), among=recipe.most_users, accepted=accept_delta)
    everyone = tuple(groups)
    state = recipe.start()
    for this in recipe.rounds:
        total = np.zeros(this.size, dtype=np.int64)
        for group in everyone:
            total += recipe.contribute(state, group)
        if source is not None:
            total += draw_noise(this, source)
        state = recipe.advance(state, total)
    guarantee = None if source is None else _promise(recipe, source)
    return Learned(model=recipe.finish(state), state=state, guarantee=guarantee)


def _promise(recipe: LearningRounds, source: NoiseSource) -> Guarantee:
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
        against="anyone who sees the classifier and the noisy sums",
        among=recipe.most_users,
    )


def norm_limit(norm: float, step: float, size: int) -> int:
    """Return the length, in grid steps, that leaves rows of a norm as they are when they are rounded and bounded.

    Rounding to the nearest grid point moves each of the ``size`` numbers by at most half a step; another millionth more
    than covers the floating-point errors of the norm itself. The bound holds without any of this.
    """
    return math.ceil(norm / step * (1 + 1e-6) + 0.5 * math.sqrt(size)) + 1


def try_row(width: int, compute: Callable[[], Array]) -> Array:
    """Return one unit's numbers; zeros if they cannot be computed, because whether they can may depend on the data."""
    try:
        found = np.asarray(compute(), dtype=np.float64).reshape(-1)
    except Exception:
        return np.zeros(width)
    return found if len(found) == width else np.zeros(width)


def check_classes(group: Samples, classes: int) -> None:
    """Refuse records that were declared for another number of classes; both numbers are public."""
    if group.classes != classes:
        raise InputError(f"the records must have the recipe's {classes} classes. Declare Samples(classes={classes}).")
