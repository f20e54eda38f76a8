"""A record that a statistic cannot be computed for counts as nothing; that it is there shows in no error.

Whoever runs the rounds sees whether an answer comes. An answer that one record prevents tells that this record is
there, and an answer of zeros for a whole group would move the sum by everybody's contributions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tensorveil.learning import ClassMoments, Directions, Network, PrivateGradients, Samples
from tensorveil.local import Basis

WORDS = Network(kind="bilstm", sizes={"words": 9, "classes": 2, "embedding": 2, "hidden": 2})
OTHERS = np.random.default_rng(0).integers(1, 9, (12, 5)).astype(float)
CLASSES = np.arange(12) % 2


def descent(network: Any) -> Any:
    facts: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "most_users": 99, "records": 12, "steps": 1}
    return PrivateGradients(**facts, network=network, clip=1.0, rate=1.0)


def difference_made(recipe: Any, record: Any, label: int = 0) -> float:
    """What the record adds to the sum, over what the noise is made for."""
    state = recipe.start()
    base = recipe.contribute(state, Samples(x=OTHERS, y=CLASSES, classes=2))
    more = Samples(x=np.vstack([OTHERS, record]), y=np.append(CLASSES, label), classes=2)
    return float(np.linalg.norm((recipe.contribute(state, more) - base).astype(float)) / recipe.limit)


@pytest.mark.parametrize("word", [9.0, 1e9, -1.0, 1e300, np.nan, np.inf])
def test_a_word_beyond_the_vocabulary_is_answered_like_any_other(word: float) -> None:
    record = np.array([[1.0, 2.0, word, 3.0, 0.0]])
    assert 0 < difference_made(descent(WORDS), record) <= 1


@pytest.mark.parametrize("label", [-1, 2, 10**6])
def test_a_class_that_is_none_is_answered_like_any_other(label: int) -> None:
    assert difference_made(descent(WORDS), OTHERS[:1], label) <= 1
    told = Directions(basis=Basis.dct((5,), 3))
    moments = ClassMoments(epsilon=1.0, delta=1e-5, most_users=99, directions=told, classes=2)
    assert difference_made(moments, OTHERS[:1], label) <= 1


class Fragile(torch.nn.Module):
    """A network of one's own, which fails for some tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 100).any()):
            raise RuntimeError("this tensor is not for me")
        found: torch.Tensor = self.last(x)
        return found


class MakeFragile:
    def make(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        return Fragile()


def test_a_record_that_makes_the_network_fail_counts_as_nothing_and_the_others_count() -> None:
    assert difference_made(descent(MakeFragile()), np.full((1, 5), 101.0)) == 0
    assert difference_made(descent(MakeFragile()), np.full((1, 5), 1.0)) > 0


def test_a_client_without_its_only_record_answers_too() -> None:
    told = Directions(basis=Basis.dct((5,), 3))
    moments = ClassMoments(epsilon=1.0, delta=1e-5, most_users=99, directions=told, classes=2)
    for recipe in (descent(WORDS), moments):
        nobody = Samples(x=np.empty((0, 5)), y=np.empty(0, dtype=int), classes=2)
        assert not recipe.contribute(recipe.start(), nobody).any()


class Restless(torch.nn.Module):
    """A network of one's own that draws random numbers whenever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(torch.nn.functional.dropout(x, 0.5, training=True))
        return found


class MakeRestless:
    def make(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        return Restless()


def test_a_record_does_not_change_the_random_numbers_of_the_others() -> None:
    recipe = descent(MakeRestless())
    data = Samples(x=OTHERS, y=CLASSES, classes=2)
    whole = recipe.contribute(recipe.start(), data)
    rest = recipe.contribute(recipe.start(), data.take(slice(1, None)))
    alone = recipe.contribute(recipe.start(), data.take(slice(0, 1)))
    assert np.array_equal(whole - rest, alone)
