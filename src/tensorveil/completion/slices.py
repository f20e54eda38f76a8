"""Unit "slice": from an estimator's parameters to a recipe of rounds, run at one trusted place, and its guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from tensorveil.errors import InputError
from tensorveil.mechanisms.planner import Plan
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Budget, Composed, Guarantee, Unit
from tensorveil.rounds import Recipe, SharedModel, parts_of, run_recipe
from tensorveil.tensor import ObservedTensor

# "auto" spends on latent features where the budget, the number of users and the sizes of the modes let them be found.
SWEEPS = {"auto": None, "biases": 0, "factors": 7}
PROOFS = ("docs/guarantees.md#slice", "docs/guarantees.md#post-processing")
JOINT = (
    "joint differential privacy: what one person is shown is computed from the release and this person's own entries, "
    "and is for this person alone"
)


def slice_unit(unit: str | Unit, protect: str | None) -> Unit:
    """Read the unit; the protected mode may stand in it ("slice:user") or beside it (protect="user")."""
    if protect is None:
        return Unit.parse(unit)
    if isinstance(unit, str) and unit.strip().lower() == "slice":
        return Unit.slice(protect)
    found = Unit.parse(unit)
    if found.kind != "slice":
        raise InputError(f"protect names a mode for unit 'slice' only; the unit is {str(found)!r}. Leave it out.")
    if found.mode != protect:
        raise InputError(f"protect and unit name different modes, {protect!r} and {found.mode!r}. Give one of them.")
    return found


def make_recipe(
    tensor: ObservedTensor,
    *,
    unit: Unit,
    budget: Budget,
    bounds: tuple[float, float],
    shape: Sequence[int] | None,
    rank: int | tuple[int, ...],
    method: str,
    contributions: float | None,
    seed: int,
) -> Recipe:
    """Make the recipe of public facts; of the tensor only the names of its modes are read."""
    if shape is None:
        raise InputError(
            'shape must be declared for unit="slice": read off the data it would tell which indices occur. '
            "Try shape=(number of users, number of films, ...)."
        )
    if method not in SWEEPS:
        raise InputError(f"method must be one of {', '.join(SWEEPS)} for unit 'slice'; got {method!r}.")
    names = tuple(mode.name for mode in tensor.modes)
    assert unit.mode is not None
    return Recipe(
        shape=tuple(shape),
        modes=names,
        protect=unit.mode,
        bounds=bounds,
        epsilon=budget.epsilon,
        delta=budget.delta,
        kind="cp" if isinstance(rank, int) else "tucker",
        rank=rank,
        contributions=contributions,
        sweeps=SWEEPS[method],
        seed=seed,
    )


def slice_plan(recipe: Recipe) -> Plan:
    """Say what will be run."""
    latent = any(step.kind == "sweep" for step in recipe.steps)
    ranks = recipe.rank if isinstance(recipe.rank, tuple) else (recipe.rank,) * len(recipe.shape)
    return Plan(method="factors" if latent else "biases", noise="gaussian", predictions=(), ranks=ranks)


def fit_slices(
    recipe: Recipe, tensor: ObservedTensor, source: NoiseSource, unit: Unit, threads: int | None
) -> tuple[SharedModel, Guarantee]:
    """Run the recipe once.

    Guarantee: the recipe's budget, unit slice, joint (docs/guarantees.md#slice).
    """
    model = recipe.finish(run_recipe(recipe, [tensor], source, threads=threads))
    parts = parts_of(recipe)
    others = ", ".join(repr(recipe.modes[m]) for m in recipe.released)
    guarantee = Guarantee.prove(
        unit=unit,
        event=Composed(part.event for part in parts),
        epsilon=recipe.epsilon,
        delta=recipe.delta,
        composition=parts,
        released=[
            f"factors and biases of {others}",
            "offset",
            "mean and covariance of users' tastes",
            *(["core"] if recipe.kind == "tucker" else []),
        ],
        proof=", ".join(PROOFS),
        secure_noise=source.secure,
        bounds=recipe.bounds,
        mechanism="user-level completion in rounds of bounded contributions",
        conditions=(JOINT,),
    )
    return model, guarantee
