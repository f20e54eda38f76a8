"""Unit "slice": from the parameters of an estimator to a recipe of rounds, run at one trusted place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tensorveil.completion.job import Promise, Released
from tensorveil.completion.side_table import Features
from tensorveil.mechanisms.planner import Plan
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Event, Gaussian
from tensorveil.rounds import Recipe, SharedModel, State, describe_parts, run_recipe
from tensorveil.rounds.features import add_features
from tensorveil.rounds.guess import describe_release
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.given import VALUE

JOINT = (
    "joint differential privacy: what one person is shown is computed from the release and this person's own entries, "
    "and is for this person alone"
)


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """A method of unit "slice": a recipe with a fixed number of sweeps for latent features.

    Parameters
    ----------
    name, title, unit, proofs
        As for the mechanisms of other units, see `tensorveil.mechanisms.method.Method`.
    sweeps
        Sweeps for latent features, 0 for biases and traits alone.
    """

    name: str
    sweeps: int
    title: str = "user-level completion in rounds of bounded contributions"
    unit: str = "slice"
    proofs: tuple[str, ...] = ("docs/guarantees.md#slice", "docs/guarantees.md#post-processing")


ROUNDS: Final[Mapping[str, Rounds]] = {
    method.name: method for method in (Rounds(name="biases", sweeps=0), Rounds(name="factors", sweeps=7))
}


@dataclass(frozen=True, kw_only=True)
class RoundsJob:
    """One run of a recipe over all users.

    ``modes`` name the released rows where their labels are public, ``value`` is what the values are called.
    ``progress`` is told after each round how many are done, and how many there are.
    """

    recipe: Recipe
    source: NoiseSource
    threads: int | None
    modes: tuple[Mode, ...]
    value: str | None = None
    tables: Mapping[int, Features] = field(default_factory=dict)
    conditions: tuple[str, ...] = (JOINT,)
    progress: Callable[[int, int], None] | None = None

    @property
    def method(self) -> Rounds:
        """The method that the recipe amounts to: "auto" decides on latent features by the budget."""
        latent = any(step.kind == "sweep" for step in self.recipe.steps)
        return ROUNDS["factors" if latent else "biases"]

    @property
    def plan(self) -> Plan:
        """What will run; nothing is compared."""
        rank = self.recipe.rank
        ranks = rank if isinstance(rank, tuple) else (rank,) * len(self.recipe.shape)
        return Plan(method=self.method.name, noise="gaussian", predictions=(), ranks=ranks)

    @property
    def event(self) -> Event:
        """What it costs."""
        return Gaussian(self.recipe.mu)

    def run(self, tensor: ObservedTensor) -> Released[SharedModel]:
        """Run every round once; the model holds what users share, and nobody's own part.

        Guarantee: the recipe's budget, unit slice, joint (docs/guarantees.md#slice).
        """
        state = run_recipe(self.recipe, [tensor], self.source, threads=self.threads, progress=self.progress)
        return self.release(self.recipe, state)

    def release(self, recipe: Recipe, state: State) -> Released[SharedModel]:
        """Return the model of the last state, and what is said of it."""
        model = replace(recipe.finish(state), modes=self.modes, value_name=self.value or VALUE)
        others = ", ".join(repr(recipe.modes[m]) for m in recipe.released)
        holds = (
            f"factors and biases of {others}",
            "offset",
            "mean and covariance of users' tastes",
            *(("core",) if recipe.kind == "tucker" else ()),
        )
        extended = add_features(model, {m: (t.centred, t.sources) for m, t in self.tables.items()})
        names = {m: recipe.modes[m] for m in self.tables}
        # From public facts and the release: somebody who asked for features is told whether there are some.
        notes = [describe_release(recipe, done=True)]
        for m, used in extended.used.items():
            columns = ", ".join(repr(self.tables[m].names[k]) for k in used) or "none"
            notes.append(f"Columns of the table of {names[m]!r} that the release shows to matter: {columns}.")
        return Released(
            model=extended.model, parts=describe_parts(recipe), holds=holds, notes=tuple(notes),
            public=tuple(f"the table of features of {name}" for name in names.values()),
        )  # fmt: skip


def make_recipe(promise: Promise, *, rank: int | tuple[int, ...], method: str, seed: int) -> Recipe:
    """Make the recipe from public facts.

    With method "auto" the recipe spends on latent features if the budget, the number of users and the sizes of the
    modes allow them to be found.
    """
    unit, budget, declared = promise.unit, promise.budget, promise.declared
    assert unit.mode is not None
    recipe = Recipe(
        shape=declared.shape,
        modes=tuple(mode.name for mode in declared.modes),
        protect=unit.mode,
        bounds=promise.bounds,
        epsilon=budget.epsilon,
        delta=budget.delta,
        kind="cp" if isinstance(rank, int) else "tucker",
        rank=rank,
        contributions=unit.contributions,
        sweeps=None if method == "auto" else ROUNDS[method].sweeps,
        seed=seed,
    )
    recipe.check_noise()  # before anything is charged
    return recipe
