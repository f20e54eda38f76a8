"""Private completion trained once on canaries: every entry is a coin at one of the two bounds, in a row of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.completion import PrivateCP, PrivateLowRankMatrix, PrivateTucker
from tensorveil.completion.central import CentralCompletion
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.subjects.subject import OneRun

Array = NDArray[Any]

_COLUMNS = 4
_EPSILON, _DELTA = 2.0, 1e-5
_LOW, _HIGH = -1.0, 3.0


def training_subjects() -> Iterator[OneRun]:
    """Yield every method of `PrivateCP`, and one each of `PrivateTucker` and `PrivateLowRankMatrix`."""
    for name, method in METHODS.items():
        for delta in (0.0, _DELTA):
            yield _subject("PrivateCP", PrivateCP, name, method.unit, delta)
    yield _subject("PrivateTucker", PrivateTucker, "output", "value", _DELTA)
    yield _subject("PrivateLowRankMatrix", PrivateLowRankMatrix, "input", "value", 0.0)


def _subject(
    title: str, estimator: Callable[..., CentralCompletion[Any]], method: str, unit: str, delta: float
) -> OneRun:
    claim = Claim(epsilon=_EPSILON, delta=delta)
    options = {"epsilon": _EPSILON, "delta": delta, "unit": unit, "bounds": (_LOW, _HIGH), "method": method}

    def fitted(rows: int, rng: np.random.Generator) -> CentralCompletion[Any]:
        seeds = {"random_state": int(rng.integers(2**31)), "noise_seed": int(rng.integers(2**62))}
        # An audit has as many canaries as it can get, whatever delta they would deserve.
        seeds |= {"accept_delta": True}
        return estimator(1, **options, shape=(rows, _COLUMNS), sweeps=20, restarts=1, threads=1, **seeds)

    return OneRun(
        name=f"one run/{title} {method}" + (", delta" if delta else ""),
        unit=unit,
        claim=claim,
        proven=claim,
        about="one run with canaries",
        run=value_canaries(fitted) if unit == "value" else entry_canaries(fitted),
    )


def value_canaries(
    fitted: Callable[[int, np.random.Generator], CentralCompletion[Any]],
) -> Callable[[Array, np.random.Generator], Array]:
    """Return the run in which a coin sets a value to one bound or the other; its score is the prediction there."""

    def run(coins: Array, rng: np.random.Generator) -> Array:
        coords = _cells(len(coins))
        tensor = ObservedTensor(coords, np.where(coins == 1, _HIGH, _LOW), shape=(len(coins), _COLUMNS))
        return np.asarray(fitted(len(coins), rng).fit(tensor).predict(coords))

    return run


def entry_canaries(
    fitted: Callable[[int, np.random.Generator], CentralCompletion[Any]],
) -> Callable[[Array, np.random.Generator], Array]:
    """Return the run in which a coin decides whether an entry, at the upper bound, is there at all.

    Half of the rows have an entry at the lower bound besides, or there would be nothing to learn but the mean.
    """

    def run(coins: Array, rng: np.random.Generator) -> Array:
        coords = _cells(len(coins))
        others = coords[::2] + np.array([0, 1])
        cells = np.concatenate([coords[coins == 1], others])
        values = np.repeat([_HIGH, _LOW], [int(coins.sum()), len(others)])
        tensor = ObservedTensor(cells, values, shape=(len(coins), _COLUMNS))
        return np.asarray(fitted(len(coins), rng).fit(tensor).predict(coords))

    return run


def _cells(count: int) -> Array:
    rows = np.arange(count)
    return np.stack([rows, 2 * (rows % (_COLUMNS // 2))], axis=1)
