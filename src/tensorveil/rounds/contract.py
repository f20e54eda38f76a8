"""What a user-level fit is made of: rounds that are known beforehand, and a public state that travels between them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError

__all__ = ["LIMIT", "Round", "State", "Step"]

# The longest contribution of one user, in grid steps. Noise of standard deviation LIMIT / mu spreads over so many steps
# that rounding is nothing beside it; sums over a million users stay far below 2**62.
LIMIT = 1 << 24
_MAGIC = b"tensorveil-state-1\n"
_KINDS = {"f": "<f8", "i": "<i8"}


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a round is for: kind, name, share of mu squared, which released mode, how many tastes users have."""

    kind: str
    name: str
    share: float
    mode: int = 0
    tastes: int = 1


@dataclass(frozen=True, kw_only=True)
class Round:
    """One statistic that every user contributes to: public, and known before any data are read.

    Parameters
    ----------
    name
        What it is: "counts", "biases 1", "sweep 1, film".
    size
        How many integers the statistic has.
    limit
        Largest L2 norm, in grid steps, of one user's contribution, rounding included.
    largest
        Largest absolute value of any single integer of one user's contribution.
    mu
        What the round spends: noise of standard deviation limit / mu steps makes it mu-GDP.
    statistic
        What is summed, in words, for the guarantee.
    """

    name: str
    size: int
    limit: int
    largest: int
    mu: float
    statistic: str = ""

    def __post_init__(self) -> None:
        if self.size < 1 or self.limit < 1 or not 1 <= self.largest <= self.limit:
            raise InputError("size and limit must be at least 1, and largest from 1 to limit.")
        if not (math.isfinite(self.mu) and self.mu > 0):
            raise InputError(f"mu must be finite and above 0; got {self.mu}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """Everything that a round needs to know of the rounds before it: public, a function of noisy statistics alone.

    ``round`` counts the rounds that are done. Arrays are float64 or int64, and read-only.

    >>> state = State(round=1, arrays={"offset": np.array([3.5])})
    >>> State.from_bytes(state.to_bytes()).arrays["offset"].tolist()
    [3.5]
    """

    round: int
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)

    def __post_init__(self) -> None:
        if self.round < 0:
            raise InputError(f"round must be at least 0; got {self.round}.")
        kept = {}
        for name in sorted(self.arrays):
            array = np.asarray(self.arrays[name])
            if array.dtype.kind not in _KINDS:
                raise InputError(f"array {name!r} of a state must hold floats or integers; got {array.dtype}.")
            array = np.array(array, dtype=_KINDS[array.dtype.kind], order="C")
            array.flags.writeable = False
            kept[name] = array
        object.__setattr__(self, "arrays", MappingProxyType(kept))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def after(self, **arrays: NDArray[Any]) -> State:
        """Return the state of the next round: these arrays replaced or added."""
        return State(round=self.round + 1, arrays={**self.arrays, **arrays})

    def to_bytes(self) -> bytes:
        """Write the state, the same bytes for the same state: a line of JSON, then the arrays in order of name."""
        facts = [[name, a.dtype.str, list(a.shape)] for name, a in self.arrays.items()]
        header = json.dumps({"round": self.round, "arrays": facts}, separators=(",", ":"))
        return b"".join([_MAGIC, header.encode(), b"\n", *(a.tobytes() for a in self.arrays.values())])

    @classmethod
    def from_bytes(cls, content: bytes) -> State:
        """Read what `to_bytes` wrote. Nothing in it is executed, and nothing but a whole state is accepted."""
        refusal = InputError("this is no whole state of a user-level fit. Was it written by State.to_bytes?")
        if not content.startswith(_MAGIC) or (end := content.find(b"\n", len(_MAGIC))) < 0:
            raise refusal
        try:
            header = json.loads(content[len(_MAGIC) : end])
            at, arrays = end + 1, {}
            for name, kind, shape in header["arrays"]:
                count = math.prod(shape)
                if kind not in _KINDS.values() or count < 0 or at + 8 * count > len(content):
                    raise refusal
                arrays[str(name)] = np.frombuffer(content, dtype=kind, count=count, offset=at).reshape(shape)
                at += 8 * count
            state = cls(round=int(header["round"]), arrays=arrays)
        except (ValueError, TypeError, KeyError, UnicodeDecodeError):
            raise refusal from None
        if at != len(content):
            raise refusal
        return state
