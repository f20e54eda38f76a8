"""Train networks and predict with them, on one thread and from a seed, so that all parties compute the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from tensorveil.errors import InputError
from tensorveil.learning.samples import Samples

__all__ = ["Training", "parameters_of", "predict", "put_parameters", "train"]

Array = NDArray[Any]
ROWS = 512


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a network is trained: Adam on the cross entropy, as in Yuan et al. (section 5.1).

    Parameters
    ----------
    epochs, batch, rate
        Passes over the records, records per step, and the learning rate.
    """

    epochs: int = 5
    batch: int = 64
    rate: float = 0.001

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or not 0 < self.rate < 10:
            raise InputError(
                "epochs and batch must be at least 1, and rate must be above 0. Try epochs=5, batch=64, rate=0.001."
            )


def train(network: nn.Module, samples: Samples, how: Training, *, seed: int) -> nn.Module:
    """Train a network in place and return it; the same seed gives the same numbers on the same machine."""
    x, y = _floats(samples.x), torch.from_numpy(samples.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=how.rate)
    with fix_randomness(seed):
        order = torch.Generator().manual_seed(seed)
        network.train()
        for _ in range(how.epochs):
            places = torch.randperm(len(x), generator=order)
            for batch in torch.split(places, how.batch):
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    network.eval()
    return network


def predict(network: nn.Module, x: ArrayLike) -> NDArray[np.int64]:
    """Return the class of every tensor."""
    network.eval()
    with torch.no_grad(), fix_randomness(0):
        found = [network(part).argmax(dim=1) for part in torch.split(_floats(np.asarray(x)), ROWS)]
    return torch.cat(found).numpy().astype(np.int64)


def parameters_of(network: nn.Module) -> Array:
    """Return all parameters as one vector."""
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()]).numpy().astype(np.float64)


def put_parameters(network: nn.Module, numbers: Array) -> None:
    """Set all parameters from one vector."""
    flat, at = torch.from_numpy(np.asarray(numbers, dtype=np.float32)), 0
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(flat[at : at + p.numel()].reshape(p.shape))
            at += p.numel()


@contextmanager
def fix_randomness(seed: int) -> Iterator[None]:
    """Use one thread, and dropout from a seed, and restore the earlier settings afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def _floats(x: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
