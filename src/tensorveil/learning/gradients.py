"""Type III for single records: sums of gradients that are bounded record by record, and exact Gaussian noise.

Differentially private gradient descent (Abadi et al. 2016) over all records in every round: no sampling, so that the
rounds compose exactly, and one draw of noise serves all records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tensorveil.errors import InputError
from tensorveil.learning.network_rounds import NetworkRounds
from tensorveil.learning.rounds import Array, norm_limit
from tensorveil.learning.samples import Samples
from tensorveil.learning.training import parameters_of, reproducible
from tensorveil.rounds import State

__all__ = ["PrivateGradients", "record_gradients"]

ROWS = 256  # records at a time


def record_gradients(network: nn.Module, x: Array, y: Array) -> list[Array]:
    """Return the gradients of the cross entropy by record, one array (records, ...) per parameter."""
    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def loss(values: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        answer = torch.func.functional_call(network, values, (one.unsqueeze(0),))
        return nn.functional.cross_entropy(answer, label.unsqueeze(0))

    network.eval()
    inputs = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    with reproducible(0):
        found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, inputs, torch.from_numpy(y))
    return [found[name].numpy() for name in parameters]


def _gradient(network: nn.Module, x: Array, y: int) -> Array:
    """Return one record's gradient as one row.

    Alone, and in a tensor of its own: in a batch its last bits could depend on the other records, and with them the
    integers that it is rounded to, which the sensitivity does not allow for.
    """
    answer = network(torch.tensor(np.asarray(x, dtype=np.float32)).unsqueeze(0))
    loss = nn.functional.cross_entropy(answer, torch.tensor([int(y)]))
    found = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([each.reshape(-1) for each in found]).numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateGradients(NetworkRounds):
    """Gradient descent with bounded gradients per record and Gaussian noise on their sum.

    Parameters
    ----------
    network: as for `AveragedParameters`; without dropout.
    records: how many records there are about; public, and only a scale: gradients are divided by it.
    steps: rounds; all records take part in each.
    clip: the largest norm of one record's gradient.
    rate, momentum: of the descent.
    seed: of the starting parameters.
    others: as for `LearningRounds`.

    Guarantee: (epsilon, delta) for adding or removing one record (docs/guarantees.md#learning-in-rounds).

    >>> from tensorveil.learning import Plan
    >>> plan = Plan(kind="mlp", sizes={"inputs": 4, "classes": 2})
    >>> recipe = PrivateGradients(
    ...     epsilon=1.0, delta=1e-5, most_users=100, network=plan, records=90, steps=3, clip=1.0, rate=1.0
    ... )
    >>> len(recipe.rounds), round(sum(this.mu**2 for this in recipe.rounds) / recipe.mu**2, 6)
    (3, 1.0)
    """

    records: int
    steps: int
    rate: float
    momentum: float = 0.9

    steps_in_clip: ClassVar[int] = 1 << 20
    protect: ClassVar[str] = "record"
    statistic: ClassVar[str] = "gradients, each record's bounded in norm, added up"
    label: ClassVar[str] = "gradient descent, Gaussian noise on sums of bounded gradients"
    proof: ClassVar[str] = "docs/guarantees.md#learning-in-rounds"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or self.records < 1:
            raise InputError("steps and records must be at least 1. Try steps=30.")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"rate must be above 0; got {self.rate}. Try rate=1.0.")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must be at least 0 and below 1; got {self.momentum}. Try momentum=0.9.")

    @property
    def turns(self) -> int:
        """The number of steps."""
        return self.steps

    @cached_property
    def limit(self) -> int:
        """The longest gradient of one record."""
        return norm_limit(self.clip, self.step, self.size)

    def start(self) -> State:
        """Give the starting parameters of the seed."""
        first = parameters_of(self.network.make(self.seed))
        return State(round=0, arrays={"parameters": first, "velocity": np.zeros_like(first)})

    def contribute(self, state: State, group: Samples, *, threads: int | None = None) -> NDArray[np.int64]:
        """Add up the records' bounded gradients, as integers."""
        from tensorveil.kernels import learning

        network = self.at(state)
        total = np.zeros(self.size, dtype=np.int64)
        with reproducible(0):
            for at in range(0, len(group), ROWS):
                pairs = zip(group.x[at : at + ROWS], group.y[at : at + ROWS].tolist(), strict=True)
                rows = np.stack([_gradient(network, x, y) for x, y in pairs])
                learning.bounded_sum(rows, self.clip, self.step, total)
        return total

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Take one step along the noisy mean gradient."""
        velocity: Array = self.momentum * state["velocity"] + total * (self.step / self.records)
        return state.after(parameters=state["parameters"] - self.rate * velocity, velocity=velocity)
