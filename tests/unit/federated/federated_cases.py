"""Small agreements with clients in temporary folders, and users split over them."""

from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.identity import make_identity, public_hex
from tensorveil.federated.secure import masking
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust, plan_epsilon
from tensorveil.rounds import Recipe
from tensorveil.tensor import ObservedTensor

SHAPE = (30, 6, 4)
RUN = "ab" * 16


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
    clients = clients_of(agreement, homes, split_users(data, n), **{"not_private": not noise, **options})
    return agreement, server, clients, InProcess(answers=[client.answer for client in clients]), data


class Asking:
    """A server in the hand: asks clients whatever a test wants."""

    def __init__(self, tmp_path: Path, kind: str = "secure", **more: Any) -> None:
        self.agreement, self.key, self.clients, _, _ = in_process(tmp_path, kind, **more)
        self.homes = [client.home for client in self.clients]

    def message(
        self, kind_: Any, round_: Any, receiver_: Any, arrays: Any = None, key: Any = None, **changes: Any
    ) -> Any:
        facts = {
            "kind": kind_,
            "agreement": self.agreement.digest,
            "run": RUN,
            "round": round_,
            "sender": wire.SERVER,
            "receiver": receiver_,
            "arrays": arrays or {},
        }
        return wire.encode(wire.Message(**{**facts, **changes}), key or self.key)

    def ask(self, client: Any, *question: Any, **changes: Any) -> Any:
        content = self.clients[client].answer(self.message(*question, **changes))
        return wire.decode(content, len(content))

    def greet(self, run: Any = RUN) -> Any:
        hello = self.message("hello", -1, wire.SERVER, wire.promise(self.agreement.trust.noise), run=run)
        self.hellos = [np.frombuffer(c.answer(hello), dtype=np.uint8) for c in self.clients]
        return {f"hello-{k}": hello for k, hello in enumerate(self.hellos)}

    def share(self) -> Any:
        hellos = self.greet()
        sealed = [self.ask(k, "share", -1, k, hellos).arrays["sealed"].tobytes() for k in range(len(self.clients))]
        length = masking.sealed_length(len(self.agreement.recipe.rounds))
        return [b"".join(s[k * length : (k + 1) * length] for s in sealed) for k in range(len(self.clients))]

    def state(self, state: Any = None) -> Any:
        state = self.agreement.recipe.start() if state is None else state
        return np.frombuffer(state.to_bytes(), dtype=np.uint8)

    def first(self, client: Any, inboxes: Any, state: Any = None) -> Any:
        self.deliver(client, inboxes[client])
        return self.ask(client, "sum", 0, client, {"state": self.state(state)})

    def deliver(self, client: Any, inbox: Any) -> Any:
        reply = self.ask(client, "inbox", -1, client, {"inbox": np.frombuffer(inbox, dtype=np.uint8)})
        return reply.arrays["unreadable"].tolist()
