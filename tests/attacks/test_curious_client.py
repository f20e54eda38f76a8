"""A client that sides with nobody takes its own part of the noise off the sums that everybody is sent."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated import client as clients
from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.guarantee import guarantee_of
from tensorveil.federated.identity import load_identity
from tensorveil.federated.server import run_server
from tensorveil.federated.setup import make_parties
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust, plan_epsilon
from tensorveil.learning import ClassMoments, Directions, Samples
from tensorveil.learning.statistics import STEP
from tensorveil.local import Basis
from tensorveil.noise import rounded_gaussian
from tensorveil.privacy import gaussian_mu

EPSILON, DELTA, CLASSES = 5.0, 1e-5, 2000


def agree(folder: Path, trust: Any) -> Any:
    """An agreement about many sums at once, each over the same records: every one shows the noise once more."""
    recipe = ClassMoments(
        epsilon=plan_epsilon(EPSILON, DELTA, trust),
        delta=DELTA,
        most_users=1 << 16,
        directions=Directions(basis=Basis.dct((2,), 1)),
        classes=CLASSES,
        products=False,
    )
    server, keys = make_parties(folder, trust.clients)
    return Agreement.make(recipe=recipe, trust=trust, epsilon=EPSILON, server=server, clients=tuple(keys))


def leave(client: Any, content: bytes) -> bytes:
    """Answer like a client that goes away before the first round."""
    if wire.decode(content, len(content)).round >= 0:
        raise RefusedError("the client is gone")
    return bytes(client.answer(content))


@pytest.mark.parametrize(
    ("n", "colluding", "missing"), [(2, 0, 0), (3, 0, 0), (3, 0, 1), (5, 0, 1), (6, 2, 1)], ids=str
)
def test_enough_noise_is_left_after_ones_own_is_taken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, colluding: int, missing: int
) -> None:
    trust = Trust(kind="secure", clients=n, colluding=colluding, drop_outs=missing)
    agreement = agree(tmp_path, trust)
    group = Samples(x=np.ones((CLASSES, 2)), y=np.arange(CLASSES), classes=CLASSES)
    parties = [Client(agreement=agreement, home=tmp_path / f"client-{k}", data=lambda: group) for k in range(n)]
    drawn = []

    def draw(*given: Any) -> Any:
        drawn.append(rounded_gaussian(*given))
        return drawn[-1]

    monkeypatch.setattr(clients, "rounded_gaussian", draw)
    answers = [partial(leave, party) if k < missing else party.answer for k, party in enumerate(parties)]
    outcome = run_server(agreement, load_identity(tmp_path / "server"), InProcess(answers=answers))
    seen = outcome.state["sums"] / STEP
    for own in drawn[-max(colluding, 1) :]:  # clients are asked in order, so the last ones' noise was drawn last
        seen = seen - own
    (this,) = agreement.recipe.rounds
    left = float(np.std(seen.reshape(CLASSES, -1), axis=0).mean())
    assert left > 0.95 * this.limit / gaussian_mu(EPSILON, DELTA)


@pytest.mark.parametrize(
    ("trust", "words"),
    [
        (Trust(kind="secure", clients=2), "against the server, and any one other client, but not both together"),
        (Trust(kind="secure", clients=4, colluding=2), "against the server together with up to 2 other clients"),
        (Trust(kind="local", clients=2), "against the server and all other clients together"),
        (Trust(kind="aggregator", clients=2), "against everyone except the server"),
    ],
    ids=lambda each: each.kind if isinstance(each, Trust) else "",
)
def test_the_sentence_says_against_whom(tmp_path: Path, trust: Any, words: str) -> None:
    sentence = guarantee_of(agree(tmp_path, trust), secure_noise=True).sentence()
    assert words in sentence
    assert "at one client only" in sentence
