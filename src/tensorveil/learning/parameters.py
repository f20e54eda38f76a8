"""Type III: every user trains on their own data; parameters are bounded, averaged with noise, and sent back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tensorveil.errors import InputError
from tensorveil.learning.network_rounds import NetworkRounds
from tensorveil.learning.rounds import Array, try_row
from tensorveil.learning.samples import Samples
from tensorveil.learning.training import Training, parameters_of, train
from tensorveil.rounds import State

__all__ = ["AveragedParameters"]

CLIPS = ("max", "norm")


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragedParameters(NetworkRounds):
    """Federated averaging: in every round each user trains from the shared parameters, and the mean is shared again.

    A client stands for one user; everything that the user holds is protected.

    Parameters
    ----------
    network
        A `Network`; within one process anything whose ``make(seed)`` returns a torch network.
    users
        The public number of users who take part. The sum of contributions is divided by it.
    epochs
        The number of rounds; each user makes one pass over their data per round.
    clip
        The bound: on every single parameter ("max", as in Yuan et al.), or on the norm of the change by training
        ("norm").
    clip_kind
        "max" or "norm".
    batch, rate
        Batch size and learning rate of the users' training.
    seed
        The public seed of the starting parameters and of the order of records.
    epsilon, delta, most_users
        As for `LearningRounds`; most_users is the number of users.

    Guarantee: (epsilon, delta) however all data of one user are replaced, added or removed
    (docs/guarantees.md#learning-in-rounds).

    >>> from tensorveil.learning import Network
    >>> network = Network(kind="mlp", sizes={"inputs": 4, "classes": 2})
    >>> recipe = AveragedParameters(
    ...     epsilon=8.0, delta=1e-5, most_users=3, network=network, users=3, epochs=2, clip=1.0, clip_kind="norm"
    ... )
    >>> [this.size for this in recipe.rounds]
    [10, 10]
    """

    users: int
    epochs: int
    clip_kind: str
    batch: int = 64
    rate: float = 0.001

    steps_in_norm: ClassVar[int] = 1 << 24
    protect: ClassVar[str] = "user"
    statistic: ClassVar[str] = "the users' bounded parameters, added up"
    label: ClassVar[str] = "averaged parameters, Gaussian noise in every round"
    proof: ClassVar[str] = "docs/guarantees.md#learning-in-rounds"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip_kind not in CLIPS:
            raise InputError(f"clip_kind must be one of {', '.join(CLIPS)}; got {self.clip_kind!r}.")
        if not 1 <= self.users <= self.most_users:
            raise InputError(f"users must be between 1 and most_users; got {self.users}. Try users=3.")
        _ = self.training

    @cached_property
    def training(self) -> Training:
        """One pass per round."""
        return Training(epochs=1, batch=self.batch, rate=self.rate) if self.epochs >= 1 else Training(epochs=0)

    @property
    def turns(self) -> int:
        """One round per epoch."""
        return self.epochs

    @property
    def norm(self) -> float:
        """The bound on the norm; parameters that are all bounded by themselves are so many times longer."""
        return self.clip * (math.sqrt(self.size) if self.clip_kind == "max" else 1.0)

    def start(self) -> State:
        """Return the starting parameters of the seed."""
        return State(round=0, arrays={"parameters": parameters_of(self.network.make(self.seed))})

    def _rows(self, state: State, group: Samples) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        network = self.at_records(state, group)
        yield try_row(self.size, lambda: self._train(network, state, group))[None], np.zeros(1, dtype=np.int64)

    def _train(self, network: nn.Module, state: State, group: Samples) -> Array:
        """Train from the shared parameters, and return them or their change."""
        train(network, group, self.training, seed=1000 * self.seed + state.round)
        found = parameters_of(network)
        if self.clip_kind == "norm":
            found -= state["parameters"]
            return found
        np.clip(np.nan_to_num(found, nan=0.0), -self.clip, self.clip, out=found)
        return found

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Replace the parameters by the mean, or move them by the mean change."""
        mean: Array = total * (self.step / self.users)
        return state.after(parameters=mean if self.clip_kind == "max" else state["parameters"] + mean)
