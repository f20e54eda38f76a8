"""Make agreements: the recipe whose noise adds up to what is promised; parties and groups of users for trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorveil.federated.agreement import Agreement
from tensorveil.federated.identity import make_identity, public_hex
from tensorveil.federated.trust import Trust, plan_epsilon
from tensorveil.rounds import Recipe
from tensorveil.tensor import ObservedTensor

__all__ = ["agree", "make_parties", "split_users"]


def agree(
    *,
    trust: Trust,
    epsilon: float,
    delta: float,
    server: str,
    clients: Sequence[str],
    shape: Sequence[int],
    bounds: tuple[float, float],
    accept_delta: bool = False,
    **recipe: Any,
) -> Agreement:
    """Make an agreement that promises (epsilon, delta) under a trust model.

    Parameters
    ----------
    trust
        Who is trusted with what.
    epsilon, delta
        The promise for everything that one user contributed.
    server, clients
        Public keys of the parties.
    shape, bounds
        Declared sizes of the modes, and where values can lie. Both are public, and stand in the agreement and the
        release: they must be written down from what everybody knows, never read off a tensor of private entries.
    accept_delta
        True insists on a delta above 0.01, or no smaller than one in the declared number of users.
    recipe
        The other parameters of `tensorveil.rounds.Recipe`: modes, protect, rank, ...

    Guarantee: docs/guarantees.md#federated.
    """
    planned = Recipe(
        epsilon=plan_epsilon(epsilon, delta, trust), delta=delta, shape=tuple(shape), bounds=bounds, **recipe
    )
    planned.check_noise()
    return Agreement.make(
        recipe=planned,
        trust=trust,
        epsilon=epsilon,
        server=server,
        clients=tuple(clients),
        accept_delta=accept_delta,
    )


def make_parties(folder: Path, clients: int) -> tuple[str, list[str]]:
    """Make home folders with identities for a server and its clients, and return their public keys."""
    keys = [public_hex(make_identity(folder / f"client-{k}")) for k in range(clients)]
    return public_hex(make_identity(folder / "server")), keys


def split_users(tensor: ObservedTensor, protected: int, parts: int) -> list[ObservedTensor]:
    """Split a tensor into groups of whole users by their index, whatever the data."""
    owner = tensor.columns[protected] % parts
    return [tensor.take(owner == part, may_be_empty=True) for part in range(parts)]
