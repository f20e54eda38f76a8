"""The recipe of a user-level fit: all that is public about it, and the one line of rounds that every runner follows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy import Budget, gaussian_mu, split_gaussian
from tensorveil.rounds import biases, counts, pairs, sweeps, tastes
from tensorveil.rounds.contract import LIMIT, Round, State, Step
from tensorveil.rounds.grouping import People, check_group, group_people
from tensorveil.rounds.latent import with_latent
from tensorveil.rounds.plan import basis_ranks, planned_contributions, planned_steps, planned_sweeps
from tensorveil.rounds.shared import SharedModel
from tensorveil.rounds.sums import Rows
from tensorveil.tensor import ObservedTensor

Array = NDArray[Any]

FORMAT = 1
_STAGES: dict[str, ModuleType] = {
    "counts": counts, "biases": biases, "tastes": tastes, "pairs": pairs, "sweep": sweeps,
}  # fmt: skip

_MOST_SWEEPS = 20


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that is public about a user-level fit; every method is a function of it, the state, and perhaps a group.

    Parameters
    ----------
    shape
        Sizes of the modes, declared. That of the protected mode is an upper bound and only names the users' indices.
    modes
        Names of the modes.
    protect
        Name of the mode whose slices are protected: "user".
    bounds
        Lowest and highest possible value, declared; values outside are clipped.
    epsilon, delta
        The budget of the whole fit; delta is above 0, since noise is Gaussian.
    kind, rank
        "cp" with a number of components (matrices too), or "tucker" with a rank per mode. Fewer are released where
        noise would drown them.
    contributions
        How many entries of one user count in full; None chooses from the budget.
    sweeps
        Sweeps for latent features; 0 for biases and traits alone; None chooses from the budget, the declared number of
        users and the sizes of the released modes.
    seed
        Of the public random start.

    Guarantee: with noise of standard deviation limit / mu on every round's sum, everything that `advance` and `finish`
    return is (epsilon, delta) differentially private for adding or removing all entries of one index of ``protect``
    (docs/guarantees.md#slice).

    >>> recipe = Recipe(shape=(9, 4), modes=("user", "film"), protect="user", bounds=(1, 5), epsilon=1.0, delta=1e-5)
    >>> [each.name for each in recipe.rounds]
    ['counts', 'biases 1', 'biases 2', 'tastes']
    """

    shape: tuple[int, ...]
    modes: tuple[str, ...]
    protect: str
    bounds: tuple[float, float]
    epsilon: float
    delta: float
    kind: str = "cp"
    rank: int | tuple[int, ...] = 8
    contributions: float | None = None
    sweeps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "modes", tuple(str(name) for name in self.modes))
        object.__setattr__(self, "bounds", _checked_bounds(self.bounds))
        _check_modes(self.shape, self.modes, self.protect)
        budget = Budget(epsilon=self.epsilon, delta=self.delta)
        if budget.delta == 0:
            raise InputError("delta must be above 0 for unit 'slice', whose noise is Gaussian. Try delta=1e-6.")
        _check_form(self.kind, self.rank, len(self.shape))
        if self.sweeps is not None and not (isinstance(self.sweeps, int) and 0 <= self.sweeps <= _MOST_SWEEPS):
            raise InputError(f"sweeps must be from 0 to {_MOST_SWEEPS}, or None; got {self.sweeps}. Try sweeps=None.")
        given = self.contributions
        if given is not None and not (math.isfinite(given) and given >= 1):
            raise InputError(f"contributions must be at least 1; got {given}. Try contributions=50.")

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The rounds to come, before they get their share of the budget."""
        sizes, wanted = self.rows.sizes, self.sweeps
        if wanted is None:
            wanted = planned_sweeps(self.shape[self.protected], sizes, self.mu)
        return planned_steps(sizes, tuple(self.modes[m] for m in self.released), self.basis_ranks, wanted)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, with what each spends."""
        spent = split_gaussian(self.mu, [step.share for step in self.steps])
        return tuple(
            Round(
                name=step.name,
                size=_STAGES[step.kind].size(self, step),
                limit=LIMIT,
                largest=LIMIT,
                mu=mu,
                statistic=_STAGES[step.kind].STATISTIC,
            )
            for step, mu in zip(self.steps, spent, strict=True)
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
        """How many users there are at most, as declared."""
        return self.shape[self.protected]

    @property
    def released(self) -> tuple[int, ...]:
        """Positions of the released modes."""
        return tuple(m for m in range(len(self.shape)) if m != self.protected)

    @property
    def middle(self) -> float:
        """Middle of the bounds."""
        return 0.5 * (self.bounds[0] + self.bounds[1])

    @property
    def half(self) -> float:
        """Half the width of the bounds."""
        return 0.5 * (self.bounds[1] - self.bounds[0])

    @cached_property
    def reach(self) -> float:
        """The longest vector of numbers of entries per row that a user contributes."""
        given = self.contributions
        return math.sqrt(planned_contributions(self.mu) if given is None else given)

    @cached_property
    def basis_ranks(self) -> tuple[int, ...]:
        """How many columns the basis of every released mode has."""
        ranks = [self.rank] * len(self.shape) if isinstance(self.rank, int) else list(self.rank)
        return basis_ranks(tuple(ranks[m] for m in self.released), self.rows.sizes)

    @cached_property
    def rows(self) -> Rows:
        """All rows of the released modes. Small modes have many entries in every row, and need less of the budget."""
        sizes = tuple(self.shape[m] for m in self.released)
        scales = np.repeat(np.sqrt(np.array(sizes) / max(sizes)), sizes)
        return Rows(modes=tuple(range(len(sizes))), sizes=sizes, scales=scales)

    @cached_property
    def row_slices(self) -> tuple[slice, ...]:
        """Where the rows of each released mode stand."""
        starts = self.rows.offsets.tolist()
        return tuple(slice(a, a + size) for a, size in zip(starts, self.rows.sizes, strict=True))

    def start(self) -> State:
        """Return the state before the first round: no data have been read."""
        total = self.rows.total
        return State(
            round=0,
            arrays={
                "offset": np.array([self.middle]),
                "spread": np.array([self.half**2 / 3]),
                "biases": np.zeros(total),
                "bias_sums": np.zeros(total),
                "bias_precisions": np.zeros(total),
                "counts": np.ones(total),
                "taste_mean": np.zeros(1),
                "taste_covariance": np.array([[self.half**2 / 3]]),
            },
        )

    def people(self, group: ObservedTensor) -> People:
        """Group entries by user once, for as many rounds as one likes; users are there as a whole."""
        check_group(group, self.shape, self.protected)
        return group_people(group, self.protected, self.bounds)

    def contribute(
        self, state: State, group: ObservedTensor | People, *, threads: int | None = None
    ) -> NDArray[np.int64]:
        """Return the exact integer sum of the contributions of all users in the group, who are there as a whole.

        Sums of groups that share no user add up to the sum of all of them, bit by bit.
        """
        step = self._step(state)
        people = group if isinstance(group, People) else self.people(group)
        contributed: Callable[..., Array] = _STAGES[step.kind].contribute
        return contributed(self, step, state, people, threads)

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Return the next state from the noisy sum: post-processing."""
        step = self._step(state)
        this = self.rounds[state.round]
        if total.shape != (this.size,) or total.dtype.kind != "i":
            raise InputError(f"total must be {this.size} integers, the sum of this round; got another array.")
        advanced: Callable[..., State] = _STAGES[step.kind].advance
        after = advanced(self, step, state, total, this.mu)
        later = self.steps[after.round : after.round + 1]
        begins = any(step.kind in ("pairs", "sweep") for step in later) and "basis_0" not in after.arrays
        return with_latent(self, after) if begins else after

    def finish(self, state: State) -> SharedModel:
        """Return what may be released: the model that all users share, without anything of any of them."""
        if state.round != len(self.rounds):
            raise InputError(f"state must be that after {len(self.rounds)} rounds; got one after {state.round}.")
        return SharedModel.from_state(self, state)

    def _step(self, state: State) -> Step:
        if state.round >= len(self.steps):
            raise InputError(f"state must be before round {len(self.steps)}; all rounds are done. Call finish.")
        return self.steps[state.round]

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as plain data for `json.dumps`."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"format": FORMAT, **{k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}}

    @classmethod
    def from_json(cls, content: dict[str, Any] | str) -> Recipe:
        """Read what `to_json` wrote, as plain data or as text; anything missing or unknown is refused."""
        try:
            facts = json.loads(content) if isinstance(content, str) else dict(content)
        except (ValueError, TypeError):
            raise InputError("the recipe is no JSON object. Was it written by Recipe.to_json?") from None
        if not isinstance(facts, dict) or set(facts) != {"format", *(each.name for each in fields(cls))}:
            raise InputError("the recipe must have the fields that Recipe.to_json writes, no more and no fewer.")
        if facts.pop("format") != FORMAT:
            raise InputError("the recipe was written in another format. Use the same tensorveil everywhere.")
        try:
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
            return cls(**given)
        except (TypeError, ValueError):
            raise InputError("the recipe holds a field of the wrong kind. Was it written by Recipe.to_json?") from None


def _checked_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    numbers = tuple(float(bound) for bound in bounds)
    if len(numbers) != 2 or not np.isfinite(numbers).all() or numbers[0] >= numbers[1]:
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    return numbers[0], numbers[1]


def _check_form(kind: str, rank: int | tuple[int, ...], order: int) -> None:
    if kind not in ("cp", "tucker"):
        raise InputError(f"kind must be 'cp' or 'tucker'; got {kind!r}.")
    ranks = rank if isinstance(rank, tuple) else (rank,)
    if (kind == "cp") == isinstance(rank, tuple) or (kind == "tucker" and len(ranks) != order):
        raise InputError("rank must be one number for kind 'cp', and one number per mode for kind 'tucker'.")
    if any(isinstance(r, bool) or not isinstance(r, int) or r < 1 for r in ranks):
        raise InputError(f"rank must be at least 1; got {rank}. Try rank=8.")


def _check_modes(shape: tuple[int, ...], modes: tuple[str, ...], protect: str) -> None:
    if len(shape) != len(modes) or len(shape) < 2 or min(shape) < 1:
        raise InputError("shape and modes must have one size of at least 1 and one name per mode, two at least.")
    if len(set(modes)) != len(modes) or protect not in modes:
        raise InputError(f"protect must name one of the modes {', '.join(modes)}; got {protect!r}.")
