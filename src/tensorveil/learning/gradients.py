"""Type III for single records: sums of gradients that are bounded record by record, with exact Gaussian noise.

Differentially private gradient descent (Abadi et al. 2016) over all records in every round. There is no sampling, so
the rounds compose exactly, and one draw of noise serves all records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tensorveil.errors import InputError
from tensorveil.learning.network_rounds import NetworkRounds
from tensorveil.learning.rounds import Array, try_row
from tensorveil.learning.samples import Samples
from tensorveil.learning.training import fix_randomness, parameters_of
from tensorveil.rounds import State

__all__ = ["PrivateGradients", "record_gradients"]

ROWS = 256  # records per batch


def record_gradients(network: nn.Module, x: Array, y: Array) -> list[Array]:
    """Return the gradients of the cross entropy by record, one array (records, ...) per parameter."""
    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def loss(values: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        answer = torch.func.functional_call(network, values, (one.unsqueeze(0),))
        return nn.functional.cross_entropy(answer, label.unsqueeze(0))

    network.eval()
    inputs = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    with fix_randomness(0):
        found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, inputs, torch.from_numpy(y))
    return [found[name].numpy() for name in parameters]


def _gradient(network: nn.Module, x: Array, y: int) -> Array:
    """Return one record's gradient as one row.

    The record is alone in a tensor of its own: in a batch the last bits could depend on the other records, and so could
    the integers that they are rounded to, which the sensitivity does not allow for. For the same reason a network that
    draws random numbers draws the same ones for every record.
    """
    torch.default_generator.manual_seed(0)
    answer = network(torch.tensor(np.asarray(x, dtype=np.float32)).unsqueeze(0))
    loss = nn.functional.cross_entropy(answer, torch.tensor([int(y)]))
    found = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([each.reshape(-1) for each in found]).numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateGradients(NetworkRounds):
    """Gradient descent with bounded gradients per record and Gaussian noise on their sum.

    Parameters
    ----------
    network
        As for `AveragedParameters`; without dropout.
    records
        About how many records there are; public, and only a scale by which gradients are divided.
    steps
        The number of rounds; all records take part in each.
    clip
        The largest norm of one record's gradient.
    rate, momentum
        Learning rate and momentum of the descent.
    seed
        The public seed of the starting parameters.
    epsilon, delta, most_users
        As for `LearningRounds`.

    Guarantee: (epsilon, delta) for adding or removing one record (docs/guarantees.md#learning-in-rounds).

    >>> from tensorveil.learning import Network
    >>> network = Network(kind="mlp", sizes={"inputs": 4, "classes": 2})
    >>> recipe = PrivateGradients(
    ...     epsilon=1.0, delta=1e-5, most_users=100, network=network, records=90, steps=3, clip=1.0, rate=1.0
    ... )
    >>> len(recipe.rounds), round(sum(this.mu**2 for this in recipe.rounds) / recipe.mu**2, 6)
    (3, 1.0)
    """

    records: int
    steps: int
    rate: float
    momentum: float = 0.9

    steps_in_norm: ClassVar[int] = 1 << 20
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

    def start(self) -> State:
        """Return the starting parameters of the seed."""
        first = parameters_of(self.network.make(self.seed))
        return State(round=0, arrays={"parameters": first, "velocity": np.zeros_like(first)})

    def _rows(self, state: State, group: Samples) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        """Yield the records' gradients; a record whose gradient cannot be computed has none."""
        network = self.at_records(state, group)
        with fix_randomness(0):
            for at in range(0, len(group), ROWS):
                records = zip(group.x[at : at + ROWS], group.y[at : at + ROWS].tolist(), strict=True)
                rows = [try_row(self.size, partial(_gradient, network, x, y)) for x, y in records]
                yield np.stack(rows), np.zeros(len(rows), dtype=np.int64)

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Take one step along the noisy mean gradient."""
        velocity: Array = self.momentum * state["velocity"] + total * (self.step / self.records)
        return state.after(parameters=state["parameters"] - self.rate * velocity, velocity=velocity)
