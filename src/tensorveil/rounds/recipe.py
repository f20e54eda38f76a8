"""The recipe of a user-level fit: all that is public about it, and the sequence of rounds that every runner follows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy import Budget, Unit, gaussian_mu, split_gaussian
from tensorveil.privacy.gate import Declared, PrivateEntries, admit, check_origin
from tensorveil.rounds.assembly import assemble_model
from tensorveil.rounds.contract import (
    BIAS_PRECISIONS,
    BIAS_SUMS,
    BIASES,
    COUNTS,
    LIMIT,
    OFFSET,
    SPREAD,
    TASTE_COVARIANCE,
    TASTE_MEAN,
    Round,
    State,
    Step,
)
from tensorveil.rounds.grouping import People, group_private
from tensorveil.rounds.plan import STAGES, plan_basis_ranks, plan_contributions, plan_steps, plan_sweeps
from tensorveil.rounds.shared import SharedModel
from tensorveil.rounds.soundness import check_state
from tensorveil.rounds.stage import Setup
from tensorveil.rounds.sums import Rows
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.checks import is_text

FORMAT = 1

_MOST_SWEEPS = 20
_MOST_STEPS = 2.0**40  # of noise, as far as its samplers go
_NARROWEST, _WIDEST = 1e-50, 1e50  # between the bounds: squares of values, and their squares, must be numbers


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that is public about a user-level fit. Its methods depend on it, the state and a group of users alone.

    Parameters
    ----------
    shape
        Declared sizes of the modes. That of the protected mode is an upper bound, and only numbers the users.
    modes
        Names of the modes.
    protect
        Name of the mode whose slices are protected, such as "user".
    bounds
        Declared lowest and highest possible value; values outside are clipped.
    epsilon, delta
        The budget of the whole fit; delta must be above 0, because the noise is Gaussian.
    kind, rank
        "cp" with a number of components (for matrices too), or "tucker" with a rank per mode. Fewer components are
        released where noise would drown them.
    contributions
        How many entries of one user count in full; None chooses from the budget.
    sweeps
        The number of sweeps for latent features; 0 for biases and traits alone; None chooses from the budget, the
        declared number of users and the sizes of the released modes.
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
        object.__setattr__(self, "bounds", _read_bounds(self.bounds))
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

    def check_noise(self) -> None:
        """Refuse a budget whose noise would be wider than its grid, or narrower than floats can tell."""
        if not 1e-12 <= self.epsilon <= 1e9 or any(this.limit > this.mu * _MOST_STEPS for this in self.rounds):
            raise InputError(
                "epsilon and delta must leave noise that can be drawn: these are too small, or too large, for the "
                "rounds that are planned. Try epsilon=1 and delta=1e-6."
            )

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The planned rounds, before they get their share of the budget."""
        sizes, wanted = self.sizes, self.sweeps
        if wanted is None:
            wanted = plan_sweeps(self.shape[self.protected], sizes, self.mu)
        return plan_steps(sizes, tuple(self.modes[m] for m in self.released), self.basis_ranks, wanted)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, with what each spends."""
        spent = split_gaussian(self.mu, [step.share for step in self.steps])
        return tuple(
            Round(
                name=step.name,
                size=STAGES[step.kind].size(self.setup, step),
                limit=LIMIT,
                largest=LIMIT,
                mu=mu,
                statistic=STAGES[step.kind].statistic,
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
        """The largest possible number of users, as declared."""
        return self.shape[self.protected]

    @property
    def released(self) -> tuple[int, ...]:
        """Positions of the released modes."""
        return tuple(m for m in range(len(self.shape)) if m != self.protected)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the released modes."""
        return tuple(self.shape[m] for m in self.released)

    @cached_property
    def reach(self) -> float:
        """The largest norm that a user's vector of entry counts per row may have."""
        given = self.contributions
        return math.sqrt(plan_contributions(self.mu) if given is None else given)

    @cached_property
    def basis_ranks(self) -> tuple[int, ...]:
        """The number of columns of every released mode's latent basis."""
        ranks = [self.rank] * len(self.shape) if isinstance(self.rank, int) else list(self.rank)
        return plan_basis_ranks(tuple(ranks[m] for m in self.released), self.sizes)

    @cached_property
    def rows(self) -> Rows:
        """All rows of the released modes. Small modes have many entries in every row, and need less of the budget."""
        sizes = self.sizes
        scales = np.repeat(np.sqrt(np.array(sizes) / max(sizes)), sizes)
        return Rows(modes=tuple(range(len(sizes))), sizes=sizes, scales=scales)

    @cached_property
    def setup(self) -> Setup:
        """What stages and the final model may know of the fit."""
        return Setup(
            shape=self.shape,
            modes=self.modes,
            protected=self.protected,
            bounds=self.bounds,
            rank=self.rank,
            rows=self.rows,
            basis_ranks=self.basis_ranks,
            reach=self.reach,
            seed=self.seed,
        )

    def start(self) -> State:
        """Return the state before the first round, when no data have been read."""
        total, half = self.rows.total, self.setup.half
        return State(
            round=0,
            arrays={
                OFFSET: np.array([self.setup.middle]),
                SPREAD: np.array([half**2 / 3]),
                BIASES: np.zeros(total),
                BIAS_SUMS: np.zeros(total),
                BIAS_PRECISIONS: np.zeros(total),
                COUNTS: np.ones(total),
                TASTE_MEAN: np.zeros(1),
                TASTE_COVARIANCE: np.array([[half**2 / 3]]),
            },
        )

    def people(self, group: ObservedTensor) -> People:
        """Group entries by user, once for any number of rounds; the group must hold all entries of its users."""
        unit = Unit.slice(self.protect)
        check_origin(group, unit)
        if group.order != len(self.shape):
            raise InputError("group must have the modes that the recipe declares, as many and in their order.")
        modes = tuple(Mode(name) for name in self.modes)
        data = admit(group, Declared(unit=unit, bounds=self.bounds, shape=self.shape, modes=modes))
        assert isinstance(data, PrivateEntries)
        return group_private(data, self.protected)

    def check_state(self, state: State) -> None:
        """Refuse a state that no honest run can be in, whatever its noise."""
        check_state(self.setup, state)

    def contribute(
        self, state: State, group: ObservedTensor | People, *, threads: int | None = None
    ) -> NDArray[np.int64]:
        """Return the exact integer sum of the contributions of all users in the group.

        The group must hold all entries of its users. Sums of groups that share no user add up to the sum of all of
        them, bit by bit.
        """
        step = self._step(state)
        people = group if isinstance(group, People) else self.people(group)
        return STAGES[step.kind].contribute(self.setup, step, state, people, threads)

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Return the next state from the noisy sum: post-processing."""
        step = self._step(state)
        this = self.rounds[state.round]
        if total.shape != (this.size,) or total.dtype.kind != "i":
            raise InputError(f"total must be {this.size} integers, the sum of this round; got another array.")
        after = state.after(**STAGES[step.kind].advance(self.setup, step, state, total, this.mu))
        if after.round == len(self.steps):
            return after
        # What the next round needs from the start belongs to the state that its contributors see.
        missing = STAGES[self.steps[after.round].kind].prepare(self.setup, after)
        return State(round=after.round, arrays={**after.arrays, **missing}) if missing else after

    def finish(self, state: State) -> SharedModel:
        """Return what may be released: the model that all users share, with nothing about any one of them."""
        if state.round != len(self.rounds):
            raise InputError(f"state must be the one after {len(self.rounds)} rounds; got one after {state.round}.")
        return assemble_model(self.setup, state)

    def _step(self, state: State) -> Step:
        if state.round >= len(self.steps):
            raise InputError(f"all {len(self.steps)} rounds have been run; this state has no next one. Call finish.")
        return self.steps[state.round]

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data for `json.dumps`."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"format": FORMAT, **{k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}}

    @classmethod
    def from_json(cls, content: dict[str, Any] | str) -> Recipe:
        """Read what `to_json` wrote, as plain data or as text; anything missing or unknown is refused."""
        try:
            facts = json.loads(content) if isinstance(content, str) else dict(content)
        except (ValueError, TypeError):
            raise InputError("the recipe is not a JSON object. Was it written by Recipe.to_json?") from None
        if not isinstance(facts, dict) or set(facts) != {"format", *(each.name for each in fields(cls))}:
            raise InputError("the recipe must have the fields that Recipe.to_json writes, no more and no fewer.")
        if facts.pop("format") != FORMAT:
            raise InputError("the recipe has another format. Use the same version of tensorveil everywhere.")
        try:
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
            return cls(**given)
        except (TypeError, ValueError):
            raise InputError("a field of the recipe has the wrong type. Was it written by Recipe.to_json?") from None


def _read_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    try:
        numbers = () if is_text(bounds) else tuple(float(bound) for bound in bounds)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != 2 or not np.isfinite(numbers).all() or numbers[0] >= numbers[1]:
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    if not _NARROWEST <= numbers[1] - numbers[0] <= _WIDEST:
        raise InputError(f"bounds must be {_NARROWEST:g} to {_WIDEST:g} apart. Measure values in another unit.")
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
        raise InputError("shape and modes must give a size of at least 1 and a name for each of at least two modes.")
    if len(set(modes)) != len(modes) or protect not in modes:
        raise InputError(f"protect must name one of the modes {', '.join(modes)}; got {protect!r}.")
