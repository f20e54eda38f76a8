"""Type III for few users: the directions of the classes from the overall mean, and offsets that balance predictions.

One user of three contributes a third of everything, so only a few numbers can be released. Lengths are not among them:
a user's contrasts are scaled to full length, however close the classes lie to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.learning.encoding import Directions
from tensorveil.learning.linear import Linear
from tensorveil.learning.rounds import Array, LearningRounds, check_classes, try_row
from tensorveil.learning.samples import Samples
from tensorveil.privacy import split_gaussian
from tensorveil.rounds import Round, State

__all__ = ["ClassContrasts", "signal_of_users"]

STEP = 2.0**-20  # the grid step, for contributions of length 1
SHARE = 0.8  # the share of mu squared for the contrasts; the rest is for the offsets
MIDDLE = 0.5  # the length of the mean's part of a contribution, if all rows are alike
SPREAD = 0.6  # of an offset, in deviations of a row's score: about the length of what rows have in common
TURNS = 60  # steps of balancing
LEAST = 3.0  # deviations of noise by which all users together must be able to move a number, or it is not used


def signal_of_users(users: int, mu: float) -> float:
    """Return by how many deviations of the noise all users together can move one number, if they agree: public.

    A contribution has length 1 and may be replaced by its opposite, so the deviation of the noise is 2 / mu.

    >>> signal_of_users(3, 2.0)
    3.0
    """
    return users * mu / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassContrasts(LearningRounds):
    """Every user's contrasts of class means, of total length 1, averaged with noise; then offsets for them.

    In the second round each user contributes the offsets with which the noisy contrasts would predict each class as
    often as it occurs among the user's own records. If noise is so large that all users together could not make a
    single number visible (`signal_of_users` below 3), the classifier predicts all classes equally often.

    Parameters
    ----------
    directions
        Which direction of a record is used: public.
    classes
        The number of classes.
    users
        The public number of users who take part.
    epsilon, delta, most_users
        As for `LearningRounds`; most_users is the number of users.

    Guarantee: (epsilon, delta) however all data of one user are replaced, added or removed
    (docs/guarantees.md#learning-in-rounds).

    >>> from tensorveil.local import Basis
    >>> told = Directions(basis=Basis.dct((8, 8), 10))
    >>> recipe = ClassContrasts(epsilon=64.0, delta=1e-5, most_users=3, users=3, directions=told, classes=4)
    >>> [this.size for this in recipe.rounds], recipe.tells
    ([50, 4], True)
    """

    directions: Directions
    classes: int
    users: int

    protect: ClassVar[str] = "user"
    statistic: ClassVar[str] = "the users' contrasts of classes, then offsets for them, bounded in norm, added up"
    label: ClassVar[str] = "contrasts of classes, Gaussian noise in two rounds"
    proof: ClassVar[str] = "docs/guarantees.md#learning-in-rounds"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            raise InputError(f"classes must be at least 2; got {self.classes}. Try classes=10.")
        if not 1 <= self.users <= self.most_users:
            raise InputError(f"users must be between 1 and most_users; got {self.users}. Try users=3.")
        self._check_length()

    @property
    def tells(self) -> bool:
        """Whether the budget permits any signal with so few users; public."""
        return signal_of_users(self.users, self.mu) >= LEAST

    @property
    def turns(self) -> int:
        """Two rounds: contrasts and offsets."""
        return 2

    @cached_property
    def size(self) -> int:
        """One row for all records, and one per class; the second round has fewer numbers."""
        return (1 + self.classes) * self.directions.dimension

    @property
    def norm(self) -> float:
        """Contrasts, and offsets, are of length 1 at most."""
        return 1.0

    @property
    def step(self) -> float:
        """The step of the grid."""
        return STEP

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The two rounds, with what each spends."""
        shares = split_gaussian(self.mu, [SHARE, 1 - SHARE])
        sizes = (self.size, self.classes)
        return tuple(
            Round(name=name, size=size, limit=self.limit, largest=self.longest, mu=mu, statistic=self.statistic)
            for name, size, mu in zip(("contrasts", "offsets"), sizes, shares, strict=True)
        )

    def start(self) -> State:
        """Return a classifier of zeros."""
        k = self.directions.dimension
        nothing = {"middle": np.zeros(k), "weights": np.zeros((self.classes, k)), "offsets": np.zeros(self.classes)}
        return State(round=0, arrays=nothing)

    def _rows(self, state: State, group: Samples) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        """Yield one user's mean and contrasts, or its offsets."""
        check_classes(group, self.classes)
        rows = self.directions(group.x)
        found = try_row(self.rounds[state.round].size, lambda: self._answer(state, rows, group.y))
        yield found[None], np.zeros(1, dtype=np.int64)

    def _answer(self, state: State, rows: Array, y: Array) -> Array:
        if state.round == 0:
            return _make_contrasts(rows, y, self.classes)
        scores = (rows - state["middle"]) @ state["weights"].T
        return balance(scores, y, self.classes) / max(self._reach(state["weights"]), 1e-300)

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Take the mean over users; the middle is shrunk by the share of its squared length that noise explains."""
        found, noise = total * (STEP / self.users), self._noise(state.round)
        if state.round == 0:
            rows = found.reshape(1 + self.classes, -1)
            middle = _shrink(rows[0], noise) / MIDDLE
            return state.after(middle=middle, weights=rows[1:] - rows[1:].mean(axis=0))
        # Offsets have a length of at most 1 here; anything beyond is noise.
        kept = 1 / (1 + noise * (self.classes - 1))
        return state.after(offsets=kept * self._reach(state["weights"]) * (found - found.mean()))

    def _noise(self, number: int) -> float:
        """Return the variance of the noise on one number of the users' mean."""
        return (self.limit * STEP / self.rounds[number].mu / self.users) ** 2

    def _reach(self, weights: Array) -> float:
        """Return the norm to which offsets are clipped: public, from the result of the first round.

        Their norm is about that of classes - 1 numbers. The less noise there is, the further beyond it may lie: by two
        deviations where all users together can move a number by twenty.
        """
        beyond = min(signal_of_users(self.users, self.mu) / 10, 2.0)
        deviation = math.sqrt(float(np.mean(np.square(weights))))
        return SPREAD * (math.sqrt(self.classes - 1) + beyond) * deviation

    def finish(self, state: State) -> Linear:
        """Return the classifier; one that knows nothing if the budget permits no signal."""
        known = float(self.tells)
        weights, offsets = known * state["weights"], known * state["offsets"]
        return Linear(weights=weights, offsets=offsets - weights @ state["middle"], encode=self.directions)

    @classmethod
    def _read(cls, content: dict[str, Any]) -> dict[str, Any]:
        return content | {"directions": Directions.from_json(content["directions"])}


def _make_contrasts(rows: Array, y: Array, classes: int) -> Array:
    """Return the mean, and the class means relative to it, scaled to full length; missing classes are zero."""
    out = np.zeros((1 + classes, rows.shape[1]))
    middle = rows.mean(axis=0)
    for c in np.unique(y).tolist():
        out[1 + c] = rows[y == c].mean(axis=0) - middle
    length = float(np.linalg.norm(out))
    out *= math.sqrt(1 - MIDDLE**2) / length if length > 0 else 0.0
    out[0] = MIDDLE * middle
    return out


def balance(scores: Array, y: Array, classes: int) -> Array:
    """Return offsets with which each class has the best score about as often as it occurs; their sum is 0.

    >>> scores = np.array([[3.0, 0.0], [2.0, 0.0], [1.5, 0.0], [1.0, 0.0]])
    >>> found = balance(scores, np.array([0, 0, 1, 1]), 2)
    >>> (scores + found).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    wanted = np.bincount(y, minlength=classes) / len(y)
    offsets, stride = -scores.mean(axis=0), 0.5 * float(scores.std()) * math.sqrt(classes)
    for turn in range(TURNS):
        answered = np.bincount((scores + offsets).argmax(axis=1), minlength=classes) / len(y)
        offsets = offsets + stride * 0.97**turn * (wanted - answered)
    out: Array = offsets - offsets.mean()
    return out


def _shrink(row: Array, noise: float) -> Array:
    """Shrink a row towards 0 by what noise would explain (James and Stein 1961, with known noise)."""
    out: Array = row * max(1 - noise * row.size / max(float(row @ row), 1e-300), 0.0)
    return out
