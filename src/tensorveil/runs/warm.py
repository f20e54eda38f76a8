"""Compiling the usual kernels ahead, so that no later fit on this machine waits for them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorveil as tv

__all__ = ["KINDS", "Warmed", "warm_kernels"]

Told = Callable[[int, int], None]
_SHAPE: Final = (30, 20, 10)
_PROMISE: Final[Mapping[str, Any]] = {"epsilon": 20.0, "delta": 0.0, "bounds": (-5, 5), "sweeps": 3}
_USERS: Final[Mapping[str, Any]] = {"epsilon": 200.0, "delta": 1e-6, "bounds": (-5, 5), "unit": "slice:user"}


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """What was compiled, or found in the cache: seconds by kind of fit."""

    seconds: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {name: round(each, 3) for name, each in self.seconds.items()}


def _tensor(order: int = 3) -> tv.ObservedTensor:
    return tv.synthetic_cp(_SHAPE[:order], 2, random_state=0).train


def _fit_entries() -> None:
    made = _tensor()
    kept = tv.ObservedTensor(made.coords, made.values, made.shape, duplicates="keep")
    tv.PrivateCP(8, unit="entry", shape=made.shape, **_PROMISE).fit(kept)


def _fit_users() -> None:
    ratings = tv.synthetic_cp((400, 20), 2, random_state=0).train.with_modes(("user", "film"))
    tv.UserLevelCP(8, shape=ratings.shape, **_USERS).fit(ratings)


# Fits of made-up tensors, by what they stand for: kernels depend on kinds of numbers and on ranks, not on sizes.
KINDS: Final[Mapping[str, Callable[[], object]]] = {
    "CP by bayes": lambda: tv.CP(solver="bayes", sweeps=3).fit(_tensor()).predict([[0, 0, 0]]),
    "CP by als": lambda: tv.CP(solver="als", sweeps=3).fit(_tensor()),
    "CP by sgd": lambda: tv.CP(solver="sgd", sweeps=3).fit(_tensor()),
    "Tucker": lambda: tv.Tucker(sweeps=3).fit(_tensor()).predict([[0, 0, 0]]),
    "matrices": lambda: tv.LowRankMatrix(sweeps=3).fit(_tensor(2)),
    "private CP": lambda: tv.PrivateCP(8, unit="value", **_PROMISE).fit(_tensor()),
    "private CP by output": lambda: tv.PrivateCP(8, unit="value", method="output", **_PROMISE).fit(_tensor()),
    "private Tucker": lambda: tv.PrivateTucker(4, unit="value", **_PROMISE).fit(_tensor()),
    "private matrices": lambda: tv.PrivateLowRankMatrix("auto", unit="value", **_PROMISE).fit(_tensor(2)),
    "unit entry": _fit_entries,
    "whole users": _fit_users,
}


def warm_kernels(*, kinds: tuple[str, ...] = tuple(KINDS), progress: Told | None = None) -> Warmed:
    """Fit made-up data once in every usual way; what is compiled stays in the kernel cache.

    >>> sorted(warm_kernels(kinds=("CP by als",)).seconds)
    ['CP by als']
    """
    seconds: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tv.NoLedgerWarning)  # nobody's data
        for done, name in enumerate(kinds):
            if progress is not None:
                progress(done, len(kinds))
            start = time.perf_counter()
            KINDS[name]()
            seconds[name] = time.perf_counter() - start
    if progress is not None:
        progress(len(kinds), len(kinds))
    return Warmed(seconds=seconds)
