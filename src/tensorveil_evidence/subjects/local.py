"""The proven local mechanisms: what leaves an owner, on tensors at opposite ends of what was declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.local import LocalMechanism, RandomizedResponse, shuffle
from tensorveil.local.catalogue import all_mechanisms
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]

_BOUNDS = (-1.0, 1.0)


def local_subjects() -> Iterator[BlackBox]:
    """Yield every mechanism with its own examples, where noise is small and where it is large."""
    for epsilon in (1.0, 6.0):
        for kind in all_mechanisms().values():
            for name, mechanism in kind.examples(epsilon).items():
                yield _subject(f"local/{name}, epsilon {epsilon:g}", mechanism)
    yield _shuffled_crowd()


def _subject(name: str, mechanism: LocalMechanism) -> BlackBox:
    claim = Claim(epsilon=mechanism.epsilon, delta=mechanism.delta)

    def many(x: Array, rng: np.random.Generator, n: int) -> Array:
        return mechanism.perturb(np.broadcast_to(x, (n, *x.shape)), source=source(rng))

    return BlackBox(
        name=name,
        unit=str(mechanism.unit),
        claim=claim,
        proven=claim,
        about="reports",
        neighbours=lambda: list(mechanism.neighbours()),
        mechanism=many,
    )


def _shuffled_crowd() -> BlackBox:
    """Return a crowd of binary reports whose order is lost: what is left is how many are high."""
    users, delta = 400, 1e-5
    one = RandomizedResponse(shape=(1,), epsilon=0.5, unit="tensor", bounds=_BOUNDS, points=2)
    promised = shuffle(one.guarantee(), users, delta)
    claim = Claim(epsilon=promised.epsilon, delta=delta)

    def many(first: float, rng: np.random.Generator, n: int) -> Array:
        crowd = np.full((n, users), _BOUNDS[0])
        crowd[:, 0] = first
        reports = one.perturb(crowd.reshape(-1, 1), source=source(rng)).reshape(n, users)
        return np.asarray(np.count_nonzero(reports > 0, axis=1))

    return BlackBox(
        name="local/400 shuffled k-RR",
        unit="tensor",
        claim=claim,
        proven=claim,
        about="crowds of reports",
        neighbours=lambda: [_BOUNDS],
        mechanism=many,
        samples=20_000,
    )
