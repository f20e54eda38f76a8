"""What recipes that train a network have in common: the network, its starting weights, the grid of its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import nn

from tensorveil.errors import InputError
from tensorveil.learning.networks import Network, count_parameters
from tensorveil.learning.rounds import LearningRounds
from tensorveil.learning.samples import Samples
from tensorveil.learning.training import fix_randomness, put_parameters
from tensorveil.rounds import State

__all__ = ["NetworkRounds"]


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkRounds(LearningRounds):
    """The common part of `AveragedParameters` and `PrivateGradients`.

    Parameters
    ----------
    network
        A `Network`; within one process anything whose ``make(seed)`` returns a torch network.
    clip
        The bound on a contribution.
    seed
        The public seed of the starting parameters.
    epsilon, delta, most_users
        As for `LearningRounds`.
    """

    network: Any
    clip: float
    seed: int = 0

    steps_in_norm: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.clip) and 1e-30 <= self.clip <= 1e30):
            raise InputError(f"clip must be above 0 (and between 1e-30 and 1e30); got {self.clip}. Try clip=1.0.")
        self._check_length()

    @property
    def norm(self) -> float:
        """The norm to which one contribution is cut."""
        return self.clip

    @property
    def step(self) -> float:
        """The step of the grid."""
        return self.norm / self.steps_in_norm

    @cached_property
    def size(self) -> int:
        """The number of parameters."""
        return count_parameters(self.network.make(self.seed))

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of one contributed number."""
        return (-self.clip, self.clip)

    def at(self, state: State) -> nn.Module:
        """Return the network with the parameters of a state."""
        network: nn.Module = self.network.make(self.seed)
        put_parameters(network, state["parameters"])
        return network.eval()

    def at_records(self, state: State, group: Samples) -> nn.Module:
        """Return the network of a state, if it is one for these records; what is asked of it is public.

        A record that it fails for counts as nothing, so a network that fails for all of them must be refused here.
        """
        network = self.at(state)
        with torch.no_grad(), fix_randomness(0):
            try:
                scores = network(torch.zeros(1, *group.shape)).shape[-1]
            except Exception:
                scores = 0
        if scores < group.classes:
            raise InputError(
                f"network must take tensors of shape {group.shape} and score {group.classes} classes. Check its sizes."
            )
        return network

    def finish(self, state: State) -> nn.Module:
        """Return the trained network."""
        return self.at(state)

    @classmethod
    def _read(cls, content: dict[str, Any]) -> dict[str, Any]:
        return content | {"network": Network.from_json(content["network"])}
