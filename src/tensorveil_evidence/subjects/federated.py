"""Federated runs through the real engine, in one process: what those see against whom a trust model protects.

A run sums the moments of as many classes as draws are wanted, with the same records in each: whoever looks at a class
sees one draw of what one record more or less changes. Parties have keys and memories; messages are signed and masked.
Their noise is seeded, which they say in their greetings. What is seen is

- aggregator: the total, with the server's noise;
- local: what one client sends;
- secure: the total less what colluding clients put in, their own noise included, or what one client that is merely
  curious did; and with clients missing. One masked vector should tell nothing at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.identity import load_identity
from tensorveil.federated.secure import masking
from tensorveil.federated.server import Outcome, run_server
from tensorveil.federated.setup import make_parties
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust, charged_mu, part_deviation, plan_epsilon
from tensorveil.learning import ClassMoments, Directions, Samples
from tensorveil.learning.statistics import STEP
from tensorveil.local import Basis
from tensorveil.noise import NoiseSource, SeededSource, rounded_gaussian
from tensorveil.rounds import Round
from tensorveil_evidence.subjects.subject import BlackBox, noisy_statistic, source

Array = NDArray[Any]
Answer = Callable[[bytes], bytes]

_EPSILON, _DELTA = 4.0, 1e-5
_DIRECTIONS = Directions(basis=Basis.dct((2,), 1))
_TRUSTS = {
    "aggregator": Trust(kind="aggregator", clients=2),
    "local": Trust(kind="local", clients=3),
    "secure": Trust(kind="secure", clients=3),
    "secure, two clients": Trust(kind="secure", clients=2),
    "secure, one missing": Trust(kind="secure", clients=3, drop_outs=1),
    "secure, one colluding": Trust(kind="secure", clients=3, colluding=1),
    "secure, one colluding and one missing": Trust(kind="secure", clients=5, colluding=1, drop_outs=1),
}


def federated_subjects() -> Iterator[BlackBox]:
    """Yield every trust model, one masked vector, and noise in parts on a grid as coarse as is allowed."""
    for name, trust in _TRUSTS.items():
        claim = Claim(mu=charged_mu(_recipe(trust, 2).rounds[0], trust))
        yield BlackBox(
            name=f"federated/{name}",
            unit="slice:record",
            claim=claim,
            proven=claim,
            about="noisy sums of a class",
            neighbours=lambda: [(np.array([[1.0, 0.5]]), np.array([[1.0, 0.5], [1.0, 1.0]]))],
            mechanism=_view(trust),
            samples=20_000,
        )
    pair = np.array([0]), np.array([1 << 40])
    yield noisy_statistic("federated/secure, one masked vector", "statistic", Claim(epsilon=0.0), pair, _mask)
    yield _parts(Trust(kind="secure", clients=4, colluding=1))


def _recipe(trust: Trust, classes: int) -> ClassMoments:
    epsilon = plan_epsilon(_EPSILON, _DELTA, trust)
    return ClassMoments(
        epsilon=epsilon, delta=_DELTA, most_users=1 << 16, directions=_DIRECTIONS, classes=classes, products=False
    )


def _parts(trust: Trust) -> BlackBox:
    """Audit the sum of rounded Gaussians that are counted on, where each is 16 steps wide and rounding matters most."""
    this = Round(name="parts", size=1, limit=28, largest=28, mu=28 / 32)
    claim = Claim(mu=charged_mu(this, trust))

    def mechanism(total: Array, rng: np.random.Generator, n: int) -> Array:
        part, bits = part_deviation(this, trust), source(rng)
        return np.asarray(total + sum(rounded_gaussian(part, n, bits) for _ in range(trust.counted)))

    pair = np.array([0]), np.array([this.limit])
    return noisy_statistic("federated/parts of noise, coarse grid", "statistic", claim, pair, mechanism)


def _mask(number: Array, rng: np.random.Generator, n: int) -> Array:
    """Mask the same number n times as one of two clients; give both halves of every word, which fit a float."""
    seeds, run = [rng.bytes(32) for _ in range(2)], rng.bytes(16).hex()
    everyone = [masking.publish_keys(seed, run, 1).tobytes() for seed in seeds]
    words = masking.mask_vector(np.repeat(number, n), seeds[0], 0, everyone, run, 0)
    return np.column_stack([words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)])


def _view(trust: Trust) -> Callable[[Array, np.random.Generator, int], Array]:
    """Return the run as seen by those against whom it protects; the first client holds the records that differ."""

    def mechanism(records: Array, rng: np.random.Generator, n: int) -> Array:
        classes = max(n, 2)
        with TemporaryDirectory() as folder:
            parties = _parties(Path(folder), trust, records, classes, rng)
            seen = parties.first_sent if trust.kind == "local" else parties.coalition
            return seen(source(rng)).reshape(classes, -1)[:n]

    return mechanism


@dataclass(frozen=True, kw_only=True)
class _Parties:
    """A server and its clients: honest ones first, of whom the second may be missing, then those who look."""

    agreement: Agreement
    server: Ed25519PrivateKey
    clients: list[Client]
    keys: list[int]  # of the clients' noise

    def first_sent(self, bits: NoiseSource) -> Array:
        """Run, and return the sum that the first client has sent."""
        sent = []

        def listened(content: bytes) -> bytes:
            reply = self.clients[0].answer(content)
            sent.append(wire.decode(reply, self.agreement.longest_message))
            return reply

        self._run([listened, *(client.answer for client in self.clients[1:])], bits)
        return np.asarray(sent[-1].arrays["total"])

    def coalition(self, bits: NoiseSource) -> Array:
        """Run, and return the total less what the colluding clients, or one curious client, know to be theirs."""
        trust, recipe = self.agreement.trust, self.agreement.recipe
        answers = [
            _silent_in_rounds(client) if 1 <= k <= trust.drop_outs else client.answer
            for k, client in enumerate(self.clients)
        ]
        total = self._run(answers, bits).state["sums"] / STEP
        curious = max(trust.colluding, 1) if trust.kind == "secure" else 0
        for k in range(trust.clients - curious, trust.clients):
            this, noise = recipe.rounds[0], SeededSource(self.keys[k])
            own = self.clients[k].contribution(recipe.start())
            total = total - own - rounded_gaussian(part_deviation(this, trust), this.size, noise)
        return np.asarray(total)

    def _run(self, answers: list[Answer], bits: NoiseSource) -> Outcome:
        log = logging.getLogger("tensorveil.federated")
        before, log.disabled = log.disabled, True  # here it is expected that somebody is missing
        try:
            return run_server(self.agreement, self.server, InProcess(answers=answers), source=bits, not_private=True)
        finally:
            log.disabled = before


def _silent_in_rounds(client: Client) -> Answer:
    """Return a client that says who it is and shares its keys, and nothing afterwards."""

    def answer(content: bytes) -> bytes:
        if wire.decode(content, client.agreement.longest_message).round >= 0:
            raise RefusedError("the client is gone")
        return client.answer(content)

    return answer


def _parties(folder: Path, trust: Trust, records: Array, classes: int, rng: np.random.Generator) -> _Parties:
    """Make keys and an agreement; every class has the records at the first client, and one at each other."""
    server, public = make_parties(folder, trust.clients)
    agreement = Agreement.make(
        recipe=_recipe(trust, classes), trust=trust, epsilon=_EPSILON, server=server, clients=tuple(public)
    )
    first = Samples(x=np.tile(records, (classes, 1)), y=np.repeat(np.arange(classes), len(records)), classes=classes)
    others = Samples(x=np.ones((classes, 2)), y=np.arange(classes), classes=classes)
    keys = [int(key) for key in rng.integers(2**62, size=trust.clients)]
    clients = []
    for k, key in enumerate(keys):
        home, group = folder / f"client-{k}", first if k == 0 else others
        clients.append(
            Client(
                agreement=agreement, home=home, data=partial(_same, group), source=SeededSource(key), not_private=True
            )
        )  # fmt: skip
    return _Parties(agreement=agreement, server=load_identity(folder / "server"), clients=clients, keys=keys)


def _same(group: Samples) -> Samples:
    return group
