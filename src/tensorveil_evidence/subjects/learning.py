"""What learning tells: reports of records, and rounds of bounded sums, through the functions that learners call.

Neighbours are as far apart as declared: records and users whose contributions are cut, and point in opposite ways where
one may be replaced. Whatever needs torch is made when it is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.learning import (
    ClassContrasts,
    ClassMeans,
    ClassMoments,
    Directions,
    LearningRounds,
    Samples,
    learn_in_rounds,
    report,
)
from tensorveil.local import Basis, Hybrid, PrivUnit
from tensorveil.privacy import gaussian_mu
from tensorveil.rounds import State
from tensorveil_evidence.subjects.rounds import noisy_sums
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]
Users = list[Samples]  # what each of them holds
Pairs = Callable[[], list[tuple[Any, Any]]]

_EPSILON, _DELTA = 6.0, 1e-5
_BUDGET: dict[str, Any] = {"epsilon": _EPSILON, "delta": _DELTA}
_DIRECTIONS = Directions(basis=Basis.dct((4,), 3))
_SIDE = 8  # of images
_FAR = 100.0  # from the others: gradients there must be cut


def learning_subjects() -> Iterator[BlackBox]:
    """Yield reports of types I and II, and every recipe of type III."""
    yield from _report_subjects()
    yield _subject("learning/class moments", "slice:record", _moment_pairs, _moments, about="noisy sums of a class")
    yield _round("learning/class means", "user", _class_means, _turned_means)
    yield from _contrast_subjects()
    for kind in ("max", "norm"):
        yield _round(f"learning/averaged parameters, {kind}", "user", partial(_make_averaging, kind, 1), _turned_users)
    yield _round("learning/private gradients", "record", partial(_gradients, 1), _one_record_more)
    yield _whole("learning/averaged parameters, whole run", "user", partial(_make_averaging, "norm", 2), _turned_users)
    yield _whole("learning/private gradients, whole run", "record", partial(_gradients, 2), _one_record_more)


def _subject(name: str, unit: str, neighbours: Pairs, mechanism: Callable[..., Array], **options: Any) -> BlackBox:
    claim = options.pop("claim", None) or Claim(mu=gaussian_mu(_EPSILON, _DELTA))
    return BlackBox(
        name=name, unit=unit, claim=claim, proven=claim, neighbours=neighbours, mechanism=mechanism, **options
    )


# --- reports ---------------------------------------------------------------------------------------------------------


def _report_subjects() -> Iterator[BlackBox]:
    """Yield reports of tensors as they are, of their directions, and of features that a public network finds."""
    ends = np.array([1.0, -2.0, 0.5, 3.0])
    whole = Hybrid(shape=(4,), epsilon=1.0, unit="tensor", bounds=(-3.0, 3.0))
    turned = PrivUnit(shape=(3,), epsilon=1.0, unit="tensor", radius=1.0)
    cube, line = [(np.full(4, -3.0), np.full(4, 3.0))], [(ends, -ends)]
    yield _report("tensors", 1.0, lambda: cube, lambda x, bits: report(x, whole, source=bits))
    yield _report("directions", 1.0, lambda: line, lambda x, bits: report(x, turned, encode=_DIRECTIONS, source=bits))
    yield _report("features", 6.0, _images, _feature_report)


def _report(what: str, epsilon: float, neighbours: Pairs, tell: Callable[..., Any]) -> BlackBox:
    def mechanism(x: Array, rng: np.random.Generator, n: int) -> Array:
        records = Samples(x=np.broadcast_to(x, (n, *x.shape)), y=np.zeros(n, dtype=np.int64), classes=2)
        return np.asarray(tell(records, source(rng)).samples.x)

    return _subject(
        f"learning/reports of {what}", "tensor", neighbours, mechanism, about="reports", claim=Claim(epsilon=epsilon)
    )


def _images() -> list[tuple[Any, Any]]:
    """Return a bright image and a dark one."""
    return [(np.ones((_SIDE, _SIDE)), -np.ones((_SIDE, _SIDE)))]


def _feature_report(records: Samples, bits: Any) -> Any:
    from tensorveil.learning import Extractor, Network

    network: Any = Network(kind="mobilenet", sizes={"channels": 1, "classes": 2, "width": 2, "tanh": True}).make(0)
    encode = Extractor(network=network)
    told = Hybrid(shape=(encode.size,), epsilon=6.0, unit="tensor", bounds=(-1.0, 1.0), coordinates=1)
    return report(records, told, encode=encode, source=bits)


# --- rounds ----------------------------------------------------------------------------------------------------------


def _round(
    name: str,
    protect: str,
    make: Callable[[], LearningRounds],
    neighbours: Pairs,
    *,
    after: State | None = None,
    claim: Claim | None = None,
) -> BlackBox:
    """Return the subject of one round: what all users contribute, with the noise of the round.

    It is the first one unless a state that earlier rounds have found is given; its claim is all of the budget, unless
    another is given.
    """

    def mechanism(users: Users, rng: np.random.Generator, n: int) -> Array:
        recipe = make()
        state = after or recipe.start()
        total = np.sum([recipe.contribute(state, each) for each in users], axis=0)
        return noisy_sums(recipe.rounds[state.round], total, rng, n)

    return _subject(name, f"slice:{protect}", neighbours, mechanism, about="noisy sums of a round", claim=claim)


def _whole(name: str, protect: str, make: Callable[[], LearningRounds], neighbours: Pairs) -> BlackBox:
    """Return the subject of all rounds, in which each begins with what the one before has found."""

    def mechanism(users: Users, rng: np.random.Generator) -> Array:
        found = learn_in_rounds(make(), users, source(rng), accept_delta=True).state
        return np.concatenate([array.ravel() for array in found.arrays.values()])

    options = {"about": "whole runs", "batched": False, "samples": 200, "many": 4_000}
    return _subject(name, f"slice:{protect}", neighbours, mechanism, **options)


def _moments(records: Array, rng: np.random.Generator, n: int) -> Array:
    """Learn from n classes with the same records in each: what is summed of a class is one draw."""
    recipe = ClassMoments(**_BUDGET, most_users=1 << 20, directions=_DIRECTIONS, classes=max(n, 2))
    group = Samples(x=np.tile(records, (n, 1)), y=np.repeat(np.arange(n), len(records)), classes=max(n, 2))
    return learn_in_rounds(recipe, [group], source(rng), accept_delta=True).state["sums"].reshape(max(n, 2), -1)[:n]


def _moment_pairs() -> list[tuple[Any, Any]]:
    records = np.array([[1.0, 2.0, -1.0, 0.5], [1.0, 1.0, 1.0, 1.0]])
    return [(records[:1], records)]


def _class_means() -> LearningRounds:
    return ClassMeans(**_BUDGET, most_users=2, directions=_DIRECTIONS, classes=2, users=2, clip=1.0)


def _class_contrasts() -> LearningRounds:
    return ClassContrasts(**_BUDGET, most_users=2, directions=_DIRECTIONS, classes=2, users=2)


def _contrast_subjects() -> Iterator[BlackBox]:
    """Yield both rounds of contrasts, each with what it spends, and whole runs."""
    recipe, name = _class_contrasts(), "learning/class contrasts"
    first, second = (Claim(mu=this.mu) for this in recipe.rounds)
    begun = recipe.start()
    found = recipe.advance(begun, 2 * recipe.contribute(begun, _turned_means()[0][0][0]))
    yield _round(name, "user", _class_contrasts, _turned_contrasts, claim=first)
    yield _round(f"{name}, offsets", "user", _class_contrasts, _turned_offsets, after=found, claim=second)
    yield _whole(f"{name}, whole run", "user", _class_contrasts, _turned_contrasts)


def _turned_contrasts() -> list[tuple[Any, Any]]:
    """Return two users, of whom one has its records mirrored, and so all that it tells."""
    first = _turned_means()[0][0][0]
    x = np.array([[9.0, 2.0, -1.0, 3.0], [7.0, -2.0, 4.0, 1.0]])
    second, turned = (Samples(x=sign * x, y=[0, 1], classes=2) for sign in (1.0, -1.0))
    return [([first, second], [first, turned])]


def _turned_offsets() -> list[tuple[Any, Any]]:
    """Return two users, of whom one has records of the one class alone, or of the other."""
    first = _turned_means()[0][0][0]
    x = np.array([[1.0, 2.0, -1.0, 0.5], [-1.0, -2.0, 1.0, -0.5]])
    second, turned = (Samples(x=x, y=[label] * 2, classes=2) for label in (0, 1))
    return [([first, second], [first, turned])]


def _turned_means() -> list[tuple[Any, Any]]:
    """Return two users, of whom one has records along a direction, or along its opposite."""
    first = Samples(x=np.array([[1.0, 2.0, -1.0, 0.5], [0.0, 1.0, 0.0, -1.0]]), y=[0, 1], classes=2)
    second, turned = (Samples(x=sign * np.ones((2, 4)), y=[0, 0], classes=2) for sign in (1.0, -1.0))
    return [([first, second], [first, turned])]


def _plan() -> Any:
    from tensorveil.learning import Network

    return Network(kind="mlp", sizes={"inputs": 2, "classes": 2})


def _make_averaging(kind: str, epochs: int) -> LearningRounds:
    """Return training that goes far beyond the bound, whatever the starting parameters."""
    from tensorveil.learning import AveragedParameters

    return AveragedParameters(
        **_BUDGET, most_users=2, network=_plan(), users=2, epochs=epochs, clip=0.01, clip_kind=kind, rate=5.0
    )


def _turned_users() -> list[tuple[Any, Any]]:
    """Return two users, of whom one has the classes of its records turned around: training goes the other way."""
    first = Samples(x=np.array([[1.0, 0.0], [0.0, 1.0]]), y=[0, 1], classes=2)
    second, turned = (Samples(x=np.ones((3, 2)), y=[label] * 3, classes=2) for label in (0, 1))
    return [([first, second], [first, turned])]


def _gradients(steps: int) -> LearningRounds:
    from tensorveil.learning import PrivateGradients

    return PrivateGradients(**_BUDGET, most_users=1 << 20, network=_plan(), records=3, steps=steps, clip=1.0, rate=0.1)


def _one_record_more() -> list[tuple[Any, Any]]:
    """Return two records, and a third one far away."""
    x, y = np.array([[1.0, 0.0], [0.0, 1.0], [_FAR, -_FAR]]), np.array([0, 1, 0])
    return [([Samples(x=x[:2], y=y[:2], classes=2)], [Samples(x=x, y=y, classes=2)])]
