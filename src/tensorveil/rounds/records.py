"""User-level fits of counts: every user's record is summed into joint tables of the other modes, and into components.

A record is all that one index of the protected mode has: how often which diagnosis came with which procedure. Its
table of two released modes, and how many entries it has as a power of two, make one vector that is bounded as a whole.
The sum of all vectors gets noise, and components that are never negative are fitted to it. What joint counts leave open
is which indices the same users have. If there are users enough, rounds of expectation maximisation follow: every user
shares out its own entries among the components, and the shares of all are summed, bounded and with noise, by index.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import CPModel
from tensorveil.privacy import Budget, Unit, gaussian_mu, split_gaussian
from tensorveil.privacy.gate import Declared, PrivateEntries, admit, check_origin
from tensorveil.rounds.contract import LIMIT, Round, State
from tensorveil.rounds.grouping import People, group_private
from tensorveil.rounds.patterns import JointTable, Patterns, find_patterns, refine_patterns, share_out
from tensorveil.rounds.sums import Parts, Rows, sum_bounded, sum_by_user
from tensorveil.tensor import Mode, ObservedTensor

__all__ = ["RecordsRecipe"]

Array = NDArray[Any]
FORMAT: Final = 1
TABLES, SIZES, WEIGHTS = "tables", "sizes", "weights"

# The number of cells of all tables together: each gets noise.
MOST_CELLS: Final = 1 << 22
# A user's place among sizes of records is a 1 in one of these octaves, the first of which ends at 2^-7. It weighs so
# much beside the tables.
_OCTAVES, _FIRST, _OWN_WEIGHT = 26, -7, 0.25
# Octaves are believed from the fullest one on, as long as they stand out so many standard deviations: one of noise far
# above would outweigh all others. Within an octave sizes are spread evenly over the logarithm.
_SEEN, _CENTRE = 3.0, 0.5 / math.log(2.0)
_MOST_STEPS = 2.0**40
_STATISTIC = "joint counts of two modes over bounded records, and how many records are of which size"
_REFINED = "entries of bounded records by index, shared out among components"
# With so many users times mu per cell of the tables, a part of the budget goes to the tables and the rest to so many
# rounds in which components are refined; a record's length there, in that of one entry.
_ENOUGH, _TABLES_SHARE, _REFINEMENTS, _MOST_REFINEMENTS, _LENGTH = 0.4, 0.3, 20, 50, 2.0


@dataclass(frozen=True, kw_only=True)
class RecordsRecipe:
    """All that is public about a user-level fit of counts; it keeps the contract of `tensorveil.rounds.Recipe`.

    Parameters
    ----------
    shape, modes, protect
        Declared sizes and names of the modes, and the protected one, whose size is an upper bound.
    bounds
        0 and the highest count of one entry; values beyond are clipped.
    epsilon, delta
        The budget; delta must be above 0, because the noise is Gaussian.
    rank
        Number of components that are looked for.
    contributions
        How many entries of one user count in full; longer records are scaled down. None for one: then all records
        weigh alike, and noise is least beside them.
    refinements
        How many rounds of refining follow the first; None for 20 where the declared number of users, the budget and
        the sizes of the modes promise more of them than of a first round that spends everything, and else none.
    seed
        Of public random starts.

    Guarantee: with noise of standard deviation limit / mu on every round's sum, everything that `advance` and `finish`
    return is (epsilon, delta) differentially private for adding or removing all entries of one index of ``protect``
    (docs/guarantees.md#records).

    >>> facts = {"shape": (900, 9, 7), "modes": ("patient", "diagnosis", "drug"), "protect": "patient"}
    >>> recipe = RecordsRecipe(**facts, bounds=(0, 9), epsilon=1.0, delta=1e-6, rank=3, refinements=0)
    >>> [(each.name, each.size) for each in recipe.rounds]
    [('records', 89)]
    """

    shape: tuple[int, ...]
    modes: tuple[str, ...]
    protect: str
    bounds: tuple[float, float]
    epsilon: float
    delta: float
    rank: int
    contributions: float | None = None
    refinements: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "modes", tuple(str(name) for name in self.modes))
        object.__setattr__(self, "bounds", tuple(float(bound) for bound in self.bounds))
        if len(self.shape) != len(self.modes) or len(self.shape) < 2 or min(self.shape) < 1:
            raise InputError("shape and modes must give a size of at least 1 and a name for each of two modes or more.")
        if len(set(self.modes)) != len(self.modes) or self.protect not in self.modes:
            raise InputError(f"protect must name one of the modes {', '.join(self.modes)}; got {self.protect!r}.")
        if len(self.bounds) != 2 or self.bounds[0] != 0 or not 0 < self.bounds[1] < 1e15:
            raise InputError("bounds must be 0 and the highest count of one entry. Try bounds=(0, 20).")
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or not 1 <= self.rank <= max(self.sizes):
            raise InputError(
                f"rank must be a whole number from 1 to the size of the longest released mode, {max(self.sizes)}; got "
                f"{self.rank!r}. Try rank=8."
            )
        if Budget(epsilon=self.epsilon, delta=self.delta).delta == 0:
            raise InputError("delta must be above 0 for unit 'slice', whose noise is Gaussian. Try delta=1e-6.")
        given = self.contributions
        if given is not None and not (math.isfinite(given) and given >= 1):
            raise InputError(f"contributions must be at least 1; got {given}. Try contributions=4.")
        asked = self.refinements
        if asked is not None and not (type(asked) is int and 0 <= asked <= _MOST_REFINEMENTS):
            raise InputError(f"refinements must be from 0 to {_MOST_REFINEMENTS}, or None; got {asked!r}.")
        if self._table_rows.total > MOST_CELLS:
            raise InputError(
                f"tables of two released modes must have at most {MOST_CELLS:,} cells together: each gets noise. "
                "Declare shorter modes, such as the most common codes, or groups of them."
            )

    def check_noise(self) -> None:
        """Refuse a budget whose noise would be wider than its grid."""
        if any(this.limit > this.mu * _MOST_STEPS for this in self.rounds):
            raise InputError(
                "epsilon and delta must leave noise that can be drawn: these are too small. Try epsilon=1, delta=1e-6."
            )

    @cached_property
    def mu(self) -> float:
        """What the whole fit may spend."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def protected(self) -> int:
        """Position of the protected mode."""
        return self.modes.index(self.protect)

    @property
    def most_users(self) -> int:
        """The largest possible number of users, as declared."""
        return self.shape[self.protected]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the released modes."""
        return tuple(size for mode, size in enumerate(self.shape) if mode != self.protected)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The tables: all pairs of released modes, or the only one with itself."""
        return tuple(combinations(range(len(self.sizes)), 2)) or ((0, 0),)

    @cached_property
    def _table_rows(self) -> Rows:
        sizes = self.sizes
        cells = tuple(sizes[a] * (sizes[a] + 1) // 2 if a == b else sizes[a] * sizes[b] for a, b in self.pairs)
        return Rows(modes=tuple(range(len(cells))), sizes=cells, scales=np.ones(sum(cells)))

    @cached_property
    def _index_rows(self) -> Rows:
        return Rows(modes=tuple(range(len(self.sizes))), sizes=self.sizes, scales=np.ones(sum(self.sizes)))

    @property
    def _full(self) -> float:
        return 1.0 if self.contributions is None else self.contributions

    @property
    def reach(self) -> float:
        """The norm to which a user's whole vector is cut in the first round."""
        return math.hypot(math.sqrt(self._full * len(self.pairs)), _OWN_WEIGHT)

    @property
    def refined_reach(self) -> float:
        """The norm to which it is cut in the others."""
        return _LENGTH * math.sqrt(self._full)

    @property
    def _refining(self) -> int:
        if self.refinements is not None:
            return self.refinements
        return _REFINEMENTS if self.most_users * self.mu >= _ENOUGH * self._table_rows.total else 0

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The first round, and those that refine what it has found, with what each spends."""
        more = self._refining
        shares = [_TABLES_SHARE, *[(1 - _TABLES_SHARE) / more] * more] if more else [1.0]
        mus = split_gaussian(self.mu, shares) if more else (self.mu,)
        sizes = [self._table_rows.total + _OCTAVES, *[self._index_rows.total * self.rank] * more]
        return tuple(
            Round(
                name=f"refinement {k}" if k else "records", size=size, limit=LIMIT, largest=LIMIT, mu=mu,
                statistic=_REFINED if k else _STATISTIC,
            )
            for k, (size, mu) in enumerate(zip(sizes, mus, strict=True))
        )  # fmt: skip

    def start(self) -> State:
        """Return the state before the round: nothing is known."""
        return State(round=0, arrays={})

    def people(self, group: ObservedTensor) -> People:
        """Group entries by user; the group must hold all entries of its users."""
        unit = Unit.slice(self.protect)
        check_origin(group, unit)
        if group.order != len(self.shape):
            raise InputError("group must have the modes that the recipe declares, as many and in their order.")
        modes = tuple(Mode(name) for name in self.modes)
        data = admit(group, Declared(unit=unit, bounds=self.bounds, shape=self.shape, modes=modes, zeros=True))
        assert isinstance(data, PrivateEntries)
        return group_private(data, self.protected)

    def check_state(self, state: State) -> None:
        """Refuse a state that no honest run can be in, whatever its noise."""
        if not all(np.isfinite(array).all() for array in state.arrays.values()):
            raise InputError("state must hold finite numbers.")
        if any(np.any(state[name] < 0) for name in state.arrays if name not in (TABLES, SIZES)):
            raise InputError("weights and factors of a state must not be negative.")

    def contribute(
        self, state: State, group: ObservedTensor | People, *, threads: int | None = None
    ) -> NDArray[np.int64]:
        """Return the exact integer sum of the bounded records of all users in the group."""
        self._check_round(state)
        people = group if isinstance(group, People) else self.people(group)
        if state.round == 0:
            return sum_bounded(people, self._table_rows, 1, _OCTAVES, self.reach, self._make_parts, threads)
        found = self._read(state)

        def parts(piece: People) -> Parts:
            shares = share_out(found, piece.columns, piece.values, piece.owners, piece.n_users)
            return Parts(entries=shares, own=np.empty((piece.n_users, 0)))

        return sum_bounded(people, self._index_rows, self.rank, 0, self.refined_reach, parts, threads)

    def _make_parts(self, piece: People) -> Parts:
        """Return every user's table, shortened to the room that is left beside the user's place among sizes."""
        if self.pairs == ((0, 0),):
            pointers, columns, products = _pair_up(piece)
            made = Parts(entries=products, own=_size_up(piece), pointers=pointers, columns=columns)
        else:
            rows = piece.columns.astype(np.int64)
            columns = np.stack([rows[a] * self.sizes[b] + rows[b] for a, b in self.pairs])
            made = Parts(entries=piece.values[:, None], own=_size_up(piece), pointers=piece.pointers, columns=columns)
        room = math.sqrt(self._full * len(self.pairs))
        return replace(made, entries=made.entries * _shorten(made, room)[:, None])

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Return the state that holds what the noisy sum says: post-processing."""
        self._check_round(state)
        this = self.rounds[state.round]
        if total.shape != (this.size,) or total.dtype.kind != "i":
            raise InputError(f"total must be {this.size} integers, the sum of this round; got another array.")
        if state.round == 0:
            numbers = total * (self.reach / LIMIT)
            seen = {TABLES: numbers[:-_OCTAVES], SIZES: numbers[-_OCTAVES:] / _OWN_WEIGHT}
            return state.after(**seen, **self._write(self._fit_tables(seen[TABLES])))
        sums = (total * (self.refined_reach / LIMIT)).reshape(-1, self.rank)
        by_mode = [sums[part] for part in self._index_rows.slices]
        return state.after(**self._write(refine_patterns(self._read(state), by_mode, self.refined_reach / this.mu)))

    def _fit_tables(self, numbers: Array) -> Patterns:
        noise, tables = (self.reach / self.rounds[0].mu) ** 2, []
        for (a, b), part in zip(self.pairs, self._table_rows.slices, strict=True):
            tables.append(JointTable.unpack(numbers[part], (a, b), (self.sizes[a], self.sizes[b]), noise))
        return find_patterns(tables, self.sizes, self.rank, self.seed)

    def _write(self, found: Patterns) -> dict[str, Array]:
        """Return patterns as arrays of a state; components that do not stand out have no weight."""
        more = self.rank - len(found.weights)
        factors = (np.pad(factor, ((0, 0), (0, more))) for factor in found.factors)
        return {WEIGHTS: np.pad(found.weights, (0, more))} | {f"factor_{m}": each for m, each in enumerate(factors)}

    def _read(self, state: State) -> Patterns:
        factors = tuple(state[f"factor_{m}"] for m in range(len(self.sizes)))
        return Patterns(weights=state[WEIGHTS], factors=factors)

    def finish(self, state: State) -> CPModel:
        """Return what may be released: components of the released modes, and the average record's share of each."""
        if state.round != len(self.rounds):
            raise InputError(f"state must be the one after {len(self.rounds)} rounds; got one after {state.round}.")
        found = self._read(state)
        usual = self.describe_sizes(state)[1]
        factors = [np.array(factor) for factor in found.factors]
        factors.insert(self.protected, (found.weights / max(float(found.weights.sum()), 1e-300) * usual)[None, :])
        order = np.argsort(-found.weights, kind="stable")
        modes = tuple(Mode(name) for name in self.modes)
        strongest_first = tuple(factor[:, order] for factor in factors)
        return CPModel(factors=strongest_first, modes=modes, bounds=self.bounds, loss="poisson")

    def describe_sizes(self, state: State) -> tuple[float, float]:
        """Return about how many users there are, and the sum of an average one's values."""
        counts, noise = state[SIZES], self.reach / self.rounds[0].mu / _OWN_WEIGHT
        clear, peak = counts > _SEEN * noise, int(np.argmax(counts))
        if not clear[peak]:
            return noise, 1.0
        hidden = np.flatnonzero(~clear)
        low = max((at for at in hidden.tolist() if at < peak), default=-1) + 1
        high = min((at for at in hidden.tolist() if at > peak), default=_OCTAVES)
        sizes = _CENTRE * np.exp2(np.arange(_OCTAVES) + _FIRST + 1.0)
        users = float(counts[low:high].sum())
        return users, float(counts[low:high] @ sizes[low:high]) / users

    def _check_round(self, state: State) -> None:
        if state.round >= len(self.rounds):
            raise InputError(f"all {len(self.rounds)} rounds have been run; this state has no next one. Call finish.")

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data for `json.dumps`."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"format": FORMAT, **{k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any] | str) -> RecordsRecipe:
        """Read what `to_json` wrote, as plain data or as text; anything missing or unknown is refused."""
        try:
            facts = json.loads(content) if isinstance(content, str) else dict(content)
            if set(facts) != {"format", *(each.name for each in fields(cls))} or facts.pop("format") != FORMAT:
                raise KeyError
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
            return cls(**given)
        except InputError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InputError(
                "the recipe must have the fields that RecordsRecipe.to_json writes, of their types. Use the same "
                "version of tensorveil everywhere."
            ) from None


def _size_up(piece: People) -> Array:
    """Return per user a 1 in the octave of the sum of the user's values; nothing for a sum of zero."""
    totals = sum_by_user(piece, piece.values)
    out = np.zeros((len(totals), _OCTAVES))
    some = np.flatnonzero(totals > 0)
    # frexp gives the exponent exactly, where a logarithm would be rounded.
    octave = np.frexp(totals[some])[1].astype(np.int64) - 1 - _FIRST
    out[some, np.clip(octave, 0, _OCTAVES - 1)] = _OWN_WEIGHT
    return out


def _pair_up(piece: People) -> tuple[Array, Array, Array]:
    """Return whose pairs of entries there are, their places in the packed triangle, and products of their values."""
    from tensorveil.kernels.users import count_pairs, fill_pairs

    keys, rows = np.zeros(len(piece.values), dtype=np.int64), piece.columns[0].astype(np.int64)
    found = np.empty(piece.n_users, dtype=np.int64)
    count_pairs(piece.pointers, keys, found)
    total = int(found.sum())
    places, products = np.empty((1, total), dtype=np.int64), np.empty((total, 1))
    fill_pairs(piece.pointers, keys, rows, piece.values, places, products)
    return np.append(0, np.cumsum(found)), places, products


def _shorten(made: Parts, room: float) -> Array:
    """Return a factor per entry, at most 1, that leaves every user's sums over cells a length of at most the room.

    Everything is added in the order of the user's own entries: what others have makes no difference, to the last bit.
    """
    assert made.pointers is not None
    assert made.columns is not None
    numbers, n_users = made.entries[:, 0], len(made.pointers) - 1
    owners = np.repeat(np.arange(n_users), np.diff(made.pointers))
    squares = np.zeros(n_users)
    for column in made.columns:
        stride = int(column.max(initial=0)) + 1
        cells, at = np.unique(owners * stride + column, return_inverse=True)
        sums = np.bincount(at, numbers, minlength=len(cells))
        squares += np.bincount(cells // stride, sums * sums, minlength=n_users)
    factors: Array = room / np.maximum(np.sqrt(squares), room)
    return factors[owners]
