"""Small agreements with clients in temporary folders, and users split over them."""

from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.identity import make_identity, public_hex
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust, plan_epsilon
from tensorveil.rounds import Recipe
from tensorveil.tensor import ObservedTensor

SHAPE = (30, 6, 4)


def ratings(seed: int = 0, n: int = 300, shape: Any = SHAPE) -> Any:
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(0, size, n) for size in shape])
    return ObservedTensor.from_columns(columns, rng.integers(1, 6, n).astype(float), shape=shape, duplicates="first")


def split_users(tensor: Any, parts: Any) -> Any:
    """Cut a tensor into groups of whole users."""
    owner = tensor.columns[0] % parts
    return [
        ObservedTensor.from_columns(tensor.columns[:, owner == k], tensor.values[owner == k], shape=tensor.shape)
        for k in range(parts)
    ]


def agreed(
    tmp_path: Path, trust: Any, epsilon: float = 5.0, delta: float = 1e-5, sweeps: int = 0, shape: Any = SHAPE
) -> Any:
    """Make identities and an agreement; give it with the server's key and the clients' homes."""
    server = make_identity(tmp_path / "server")
    homes = [tmp_path / f"client-{k}" for k in range(trust.clients)]
    keys = [make_identity(home) for home in homes]
    recipe = Recipe(
        shape=shape,
        modes=("user", "film", "day"),
        protect="user",
        bounds=(1, 5),
        epsilon=plan_epsilon(epsilon, delta, trust),
        delta=delta,
        sweeps=sweeps,
    )
    agreement = Agreement.make(
        recipe=recipe,
        trust=trust,
        epsilon=epsilon,
        server=public_hex(server),
        clients=tuple(public_hex(key) for key in keys),
    )
    return agreement, server, homes


def clients_of(agreement: Any, homes: Any, groups: Any, **options: Any) -> Any:
    def client(home: Path, group: Any) -> Client:
        return Client(agreement=agreement, home=home, data=lambda: group, **options)

    return [client(home, group) for home, group in zip(homes, groups, strict=True)]


def in_process(
    tmp_path: Path,
    kind: str = "secure",
    n: int = 3,
    noise: bool = True,
    epsilon: float = 5.0,
    colluding: int = 0,
    drop_outs: int = 0,
    sweeps: int = 0,
    **options: Any,
) -> Any:
    """Everything for a run in one process: agreement, server key, clients, transport, data."""
    trust = Trust(kind=kind, clients=n, noise=noise, colluding=colluding, drop_outs=drop_outs)
    agreement, server, homes = agreed(tmp_path, trust, epsilon, sweeps=sweeps)
    data = ratings()
    clients = clients_of(agreement, homes, split_users(data, n), **options)
    return agreement, server, clients, InProcess(answers=[client.answer for client in clients]), data
