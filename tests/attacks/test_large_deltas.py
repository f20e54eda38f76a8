"""A federation, or learning in rounds, promises a delta that somebody's data are expected to fall under."""

from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tensorveil.errors import InputError
from tensorveil.federated.guarantee import guarantee_of
from tensorveil.federated.identity import public_hex
from tensorveil.federated.setup import agree
from tensorveil.federated.trust import Trust
from tensorveil.learning import ClassMoments, Directions, Samples, learn_in_rounds
from tensorveil.local import Basis
from tensorveil.noise import SecureSource

USERS = 20_000


def promise(delta: float, **options: Any) -> str:
    keys = [public_hex(Ed25519PrivateKey.generate()) for _ in range(3)]
    agreement = agree(
        trust=Trust(kind="aggregator", clients=2), epsilon=1.0, delta=delta, server=keys[0], clients=keys[1:],
        shape=(USERS, 10), modes=("user", "film"), protect="user", bounds=(1, 5), **options,
    )  # fmt: skip
    return guarantee_of(agreement, secure_noise=True).sentence()


def learn(delta: float, **options: Any) -> str:
    told = Directions(basis=Basis.dct((2,), 2))
    recipe = ClassMoments(epsilon=1.0, delta=delta, most_users=USERS, directions=told, classes=2)
    found = learn_in_rounds(recipe, [Samples(x=np.eye(2), y=[0, 1], classes=2)], SecureSource(), **options)
    assert found.guarantee is not None
    return found.guarantee.sentence()


@pytest.mark.parametrize("make", [promise, learn])
@pytest.mark.parametrize("delta", [0.5, 1e-4, 1 / USERS])
def test_a_delta_of_one_in_all_is_refused_or_named(make: Any, delta: float) -> None:
    with pytest.raises(InputError, match="accept_delta"):
        make(delta)
    sentence = make(delta, accept_delta=True)
    assert "anything may be revealed" in sentence
    assert "almost the same" not in sentence


@pytest.mark.parametrize("make", [promise, learn])
def test_a_small_delta_is_as_good_as_none(make: Any) -> None:
    assert "almost the same" in make(1e-6)
