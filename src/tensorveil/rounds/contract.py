"""The parts of a user-level fit: rounds that are fixed in advance, and a public state passed from one to the next."""

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

__all__ = [
    "BASIS",
    "BIASES",
    "BIAS_PRECISIONS",
    "BIAS_SUMS",
    "COUNTS",
    "KEYS",
    "LIMIT",
    "OFFSET",
    "SPREAD",
    "TASTE_COVARIANCE",
    "TASTE_MEAN",
    "TRAITS",
    "USERS",
    "Round",
    "State",
    "Step",
    "basis_key",
    "family",
]

# The largest contribution of one user, in grid steps. Noise of standard deviation LIMIT / mu spans so many steps that
# rounding is negligible beside it, and sums over a million users stay far below 2**62.
LIMIT = 1 << 24

# The keys of a State. A "row" is an index of a released mode (a film, a day); rows of all released modes are numbered
# one after the other. "Tastes" are a user's own coefficients: first the bias, then one per trait, then one per latent
# feature. They are never part of a state; only their mean and covariance over users are.
OFFSET = "offset"  # the constant part of every prediction
SPREAD = "spread"  # the variance of what users' tastes leave unexplained
COUNTS = "counts"  # about how many entries every row has
USERS = "users"  # about how many users take part
BIASES = "biases"  # one number per row
BIAS_SUMS = "bias_sums"  # sums over rounds from which biases are estimated, weighted by their precision
BIAS_PRECISIONS = "bias_precisions"  # the precisions of these sums
TRAITS = "traits"  # what is known of every row besides its bias: a column per trait
TASTE_MEAN = "taste_mean"  # the mean of tastes over users
TASTE_COVARIANCE = "taste_covariance"  # their covariance over users
BASIS = "basis"  # a family of keys: the latent directions of one released mode; see `basis_key`
KEYS = frozenset(
    {
        OFFSET, SPREAD, COUNTS, USERS, BIASES, BIAS_SUMS, BIAS_PRECISIONS, TRAITS, TASTE_MEAN, TASTE_COVARIANCE, BASIS,
    }
)  # fmt: skip

_MAGIC = b"tensorveil-state-1\n"
_KINDS = {"f": "<f8", "i": "<i8"}


def basis_key(mode: int) -> str:
    """Return the key of the latent basis of a released mode, counted without the protected one.

    >>> basis_key(0)
    'basis_0'
    """
    return f"{BASIS}_{mode}"


def family(key: str) -> str:
    """Return the name under which a stage declares a key: `BASIS` for the basis of any mode, else the key itself.

    >>> family(basis_key(3)), family(OFFSET)
    ('basis', 'offset')
    """
    return BASIS if key.startswith(f"{BASIS}_") else key


@dataclass(frozen=True, kw_only=True)
class Step:
    """One planned round, before it gets its share of the budget.

    Parameters
    ----------
    kind
        Which stage runs it: a key of `tensorveil.rounds.plan.STAGES`.
    name
        What the round is called in the guarantee.
    share
        The share of mu squared that it spends.
    mode
        For rounds about one released mode: which one, counted without the protected mode.
    tastes
        For rounds about tastes: how many every user has.
    """

    kind: str
    name: str
    share: float
    mode: int = 0
    tastes: int = 1


@dataclass(frozen=True, kw_only=True)
class Round:
    """One statistic to which every user contributes: public, and fixed before any data are read.

    Parameters
    ----------
    name
        What the round is called: "counts", "biases 1", "sweep 1, film".
    size
        The number of integers in the statistic.
    limit
        The largest L2 norm of one user's contribution, in grid steps and after rounding.
    largest
        The largest absolute value of any single integer in one user's contribution.
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
    """All that a round needs to know of the rounds before it: public, computed from noisy statistics alone.

    Parameters
    ----------
    round
        How many rounds have been run.
    arrays
        float64 or int64 arrays by key, stored as read-only copies.

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

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def after(self, **arrays: NDArray[Any]) -> State:
        """Return the state after one more round, with these arrays replaced or added."""
        return State(round=self.round + 1, arrays={**self.arrays, **arrays})

    def to_bytes(self) -> bytes:
        """Return the state as bytes: a line of JSON, then the arrays sorted by key. Equal states give equal bytes."""
        facts = [[name, a.dtype.str, list(a.shape)] for name, a in self.arrays.items()]
        header = json.dumps({"round": self.round, "arrays": facts}, separators=(",", ":"))
        return b"".join([_MAGIC, header.encode(), b"\n", *(a.tobytes() for a in self.arrays.values())])

    @classmethod
    def from_bytes(cls, content: bytes) -> State:
        """Read what `to_bytes` wrote. Nothing in it is executed, and only a complete state is accepted."""
        refusal = InputError("this is not a complete state of a user-level fit. Was it written by State.to_bytes?")
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
            if type(header["round"]) is not int:
                raise refusal
            state = cls(round=header["round"], arrays=arrays)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise refusal from None
        if at != len(content):
            raise refusal
        return state
