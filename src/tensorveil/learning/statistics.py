"""Type III in one round: means and second moments of the classes as noisy sums, and a discriminant fitted to them.

One round of sums takes the place of the many noisy rounds in which a network learns. `ClassMoments` protects single
records, `ClassMeans` everything that a user holds.
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
from tensorveil.learning.discriminant import Discriminant, Moments, fit_discriminant
from tensorveil.learning.encoding import Directions
from tensorveil.learning.rounds import Array, LearningRounds, check_classes, try_row
from tensorveil.learning.samples import Samples
from tensorveil.rounds import State

__all__ = ["ClassMeans", "ClassMoments"]

STEP = 2.0**-20  # the grid step, for rows of length 1
COUNT = 0.5  # what a record adds to its class's count, beside a row and products of length 1 each
ROWS = 512  # records per batch
LEAST = 1.0  # the smallest number of records of a class: noise may leave fewer, or a negative number


@dataclass(frozen=True, kw_only=True, eq=False)
class _Statistics(LearningRounds):
    """One round over rows of length 1."""

    directions: Directions
    classes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            raise InputError(f"classes must be at least 2; got {self.classes}. Try classes=10.")
        self._check_length()

    @property
    def turns(self) -> int:
        """One round."""
        return 1

    @property
    def step(self) -> float:
        """The step of the grid."""
        return STEP

    def start(self) -> State:
        """Return sums of zero."""
        return State(round=0, arrays={"sums": np.zeros(self.size)})

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Keep the noisy sums."""
        return state.after(sums=total * STEP)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on every sum, in units of the rows."""
        return self.limit * STEP / self.mu

    @classmethod
    def _read(cls, content: dict[str, Any]) -> dict[str, Any]:
        return content | {"directions": Directions.from_json(content["directions"])}


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassMoments(_Statistics):
    """Counts, sums and sums of products of the records' directions by class, with noise added once.

    Parameters
    ----------
    directions
        Which direction of a record is used: public.
    classes
        The number of classes.
    products
        Whether products are summed too. Without them all classes have the same covariance, a multiple of the identity:
        for many directions and few records, where noise would drown the products.
    epsilon, delta, most_users
        As for `LearningRounds`; most_users bounds the number of records.

    Guarantee: (epsilon, delta) for adding or removing one record, its class included
    (docs/guarantees.md#learning-in-rounds).

    >>> from tensorveil.local import Basis
    >>> told = Directions(basis=Basis.dct((8, 8), 10))
    >>> ClassMoments(epsilon=1.0, delta=1e-5, most_users=10**6, directions=told, classes=2).size
    132
    """

    products: bool = True

    protect: ClassVar[str] = "record"
    statistic: ClassVar[str] = "counts, sums and products of directions, by class"
    label: ClassVar[str] = "moments of classes, Gaussian noise once"
    proof: ClassVar[str] = "docs/guarantees.md#learning-in-rounds"

    @property
    def _products(self) -> int:
        return self.directions.dimension * (self.directions.dimension + 1) // 2 if self.products else 0

    @cached_property
    def size(self) -> int:
        """The number of counts, sums and products of all classes."""
        return self.classes * self.width

    @property
    def width(self) -> int:
        """One class's numbers: those to which a record contributes."""
        return 1 + self.directions.dimension + self._products

    @property
    def norm(self) -> float:
        """One record's count, row and products of its row, of lengths 0.5, 1 and 1."""
        return math.sqrt(COUNT**2 + 1 + self.products)

    @cached_property
    def _pairs(self) -> tuple[Array, Array, Array]:
        """Positions of the products, and their weights: off the diagonal a product stands for two."""
        first, second = np.triu_indices(self.directions.dimension if self.products else 0)
        return first, second, np.where(first == second, 1.0, math.sqrt(2))

    def _rows(self, state: State, group: Samples) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        check_classes(group, self.classes)
        first, second, weights = self._pairs
        for at in range(0, len(group), ROWS):
            part = self.directions(group.x[at : at + ROWS])
            products = part[:, first] * part[:, second] * weights
            yield np.concatenate([np.full((len(part), 1), COUNT), part, products], axis=1), group.y[at : at + ROWS]

    def finish(self, state: State) -> Discriminant:
        """Return the discriminant; without products, the nearest mean."""
        found = self.moments(state)
        if self.products:
            return fit_discriminant(found, self.directions)
        k = self.directions.dimension
        same = np.stack([np.eye(k)] * self.classes)
        return Discriminant(
            shares=np.full(self.classes, 1 / self.classes), means=found.means, covariances=same, encode=self.directions
        )

    def moments(self, state: State) -> Moments:
        """Return the moments of the classes, and the size of their errors by noise."""
        k, sums = self.directions.dimension, state["sums"].reshape(self.classes, -1)
        counts = np.maximum(sums[:, 0] / COUNT, LEAST)
        first, second, weights = self._pairs
        seconds = np.zeros((self.classes, k, k))
        seconds[:, first, second] = seconds[:, second, first] = sums[:, 1 + k :] / weights
        noise = (self.deviation / counts) ** 2
        means = sums[:, 1 : 1 + k] / counts[:, None]
        lengths = np.minimum(np.einsum("ci,ci->c", means, means), 1.0)
        return Moments(
            shares=counts / counts.sum(),
            means=means,
            seconds=seconds / counts[:, None, None],
            mean_errors=noise,
            # Off the diagonal a product has half the variance of the noise; the noise n of the means m enters as
            # m n' + n m' and n n'; records themselves vary by less than 1 / k in every direction.
            second_errors=0.5 * noise + 2 * lengths * noise / k + noise**2 + (1 - lengths) ** 2 / (k * k * counts),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassMeans(_Statistics):
    """Every user's class means relative to the overall mean, bounded in norm, averaged with noise added once.

    For few users: one user of three contributes a third of everything, so only a few numbers can be released.

    Parameters
    ----------
    users
        The public number of users who take part.
    clip
        The largest norm of one user's centred class means together.
    directions, classes, epsilon, delta, most_users
        As for `ClassMoments`; most_users is the number of users.

    Guarantee: (epsilon, delta) however all data of one user are replaced, added or removed
    (docs/guarantees.md#learning-in-rounds).
    """

    users: int
    clip: float

    protect: ClassVar[str] = "user"
    statistic: ClassVar[str] = "the users' centred class means, bounded in norm, added up"
    label: ClassVar[str] = "means of classes, Gaussian noise once"
    proof: ClassVar[str] = "docs/guarantees.md#learning-in-rounds"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.clip) and 0 < self.clip <= 1e3):
            raise InputError(f"clip must be above 0 and at most 1000; got {self.clip}. Try clip=1.0.")
        super().__post_init__()
        if not 1 <= self.users <= self.most_users:
            raise InputError(f"users must be between 1 and most_users; got {self.users}. Try users=3.")

    @cached_property
    def size(self) -> int:
        """One row for all records, and one per class."""
        return (1 + self.classes) * self.directions.dimension

    @property
    def norm(self) -> float:
        """As declared."""
        return self.clip

    def _rows(self, state: State, group: Samples) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        """Yield one user's mean and centred class means; classes that the user does not have are zero."""
        check_classes(group, self.classes)
        rows = self.directions(group.x)
        yield try_row(self.size, lambda: self._means(rows, group.y))[None], np.zeros(1, dtype=np.int64)

    def _means(self, rows: Array, y: Array) -> Array:
        means = np.zeros((1 + self.classes, rows.shape[1]))
        means[0] = rows.mean(axis=0)
        for c in np.unique(y).tolist():
            means[1 + c] = rows[y == c].mean(axis=0) - means[0]
        return means

    def finish(self, state: State) -> Discriminant:
        """Return the nearest mean, with means shrunk by the share of their squared norm that noise would explain."""
        k = self.directions.dimension
        found = state["sums"].reshape(1 + self.classes, k) / self.users
        noise = (self.deviation / self.users) ** 2
        middle, means = _shrink(found[:1], noise), _shrink(found[1:], noise)
        share = np.full(self.classes, 1 / self.classes)
        return Discriminant(
            shares=share, means=middle + means, covariances=np.stack([np.eye(k)] * self.classes), encode=self.directions
        )


def _shrink(rows: Array, noise: float) -> Array:
    """Shrink rows towards 0 (James and Stein 1961, with known noise), but never all the way."""
    total = float(np.einsum("ij,ij->", rows, rows))
    out: Array = rows * max(1 - noise * rows.size / max(total, 1e-300), 0.05)
    return out
