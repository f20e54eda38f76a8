"""Counts of whole users: components of the other modes, of whom nothing says which user has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.completion.estimator import as_tensor
from tensorveil.completion.job import Promise, Released
from tensorveil.completion.rounds_fit import RoundsCompletion
from tensorveil.errors import InputError
from tensorveil.mechanisms.planner import Plan
from tensorveil.models import CPModel
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Event, Gaussian, Unit
from tensorveil.rounds import RecordsRecipe, State, describe_parts
from tensorveil.rounds.runner import run_recipe
from tensorveil.solvers.loss import rmse
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.given import VALUE
from tensorveil.tensor.modes import find_axis


@dataclass(frozen=True, kw_only=True)
class Records:
    """The method of unit "slice" for counts; described as the mechanisms of other units are."""

    name: str = "records"
    title: str = "joint counts and shares of bounded records"
    unit: str = "slice"
    proofs: tuple[str, ...] = ("docs/guarantees.md#records", "docs/guarantees.md#post-processing")


RECORDS: Final = Records()
# Of people's own rows: rounds of expectation maximisation, and a number that is as good as none.
_ROUNDS, _LEAST = 60, 1e-12


@dataclass(frozen=True, kw_only=True)
class RecordsJob:
    """One run over all users' records; ``modes`` name the released rows where their labels are public."""

    recipe: RecordsRecipe
    source: NoiseSource
    threads: int | None
    modes: tuple[Mode, ...]
    value: str | None
    method: Records = RECORDS
    conditions: tuple[str, ...] = ()
    progress: Callable[[int, int], None] | None = None

    @property
    def plan(self) -> Plan:
        """What will run; nothing is compared."""
        return Plan(
            method=self.method.name, noise="gaussian", predictions=(), ranks=(self.recipe.rank,) * len(self.modes)
        )

    @property
    def event(self) -> Event:
        """What it costs."""
        return Gaussian(self.recipe.mu)

    def run(self, tensor: ObservedTensor) -> Released[CPModel]:
        """Sum the records with noise, and fit components to the sums.

        Guarantee: the recipe's budget, unit slice (docs/guarantees.md#records).
        """
        state = run_recipe(self.recipe, [tensor], self.source, threads=self.threads, progress=self.progress)
        return self.release(self.recipe, state)

    def release(self, recipe: RecordsRecipe, state: State) -> Released[CPModel]:
        """Return the model of the last state, and what is said of it."""
        model = replace(recipe.finish(state), modes=self.modes, value_name=self.value or VALUE)
        users, usual = recipe.describe_sizes(state)
        shown = int(np.count_nonzero(model.factors[recipe.protected]))
        others = ", ".join(repr(name) for name in recipe.modes if name != recipe.protect)
        holds = (f"factors of {others}", f"the average {recipe.protect}'s number for every component")
        notes = (
            f"{shown} of {recipe.rank} components stand out of the noise",
            f"about {_round(users)} of mode {recipe.protect} have entries, with a sum of about {_round(usual)} each",
        )
        return Released(model=model, parts=describe_parts(recipe), holds=holds, notes=notes)


def _check_fitting(model: CPModel, entries: ObservedTensor, at: int) -> None:
    """Refuse entries of other modes than the model's, or of indices that it does not have."""
    names, sizes = [mode.name for mode in model.modes], model.shape
    if [mode.name for mode in entries.modes] != names or any(
        m != at and entries.shape[m] > size for m, size in enumerate(sizes)
    ):
        raise InputError(f"entries must have the modes {', '.join(names)} of the fit, in its indices.")


def _round(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.10g}"


@dataclass(eq=False, repr=False)
class UserLevelCounts(RoundsCompletion[CPModel]):
    """Find components of counts while protecting all that one user did (user-level privacy): phenotypes of patients.

    Takes a tensor with ``unlisted="zero"``: patients x diagnoses x procedures, people x pages. Released are components
    of the other modes, which are never negative: which diagnoses and procedures go together. The protected mode has
    one row in `model_`, of size 1: how much of each component the average user has.

    Parameters
    ----------
    rank
        Number of components: public, chosen without looking at the data. Fewer are released where noise could have
        made them; their columns are zero.
    **settings
        The keyword arguments of `PrivateSettings` and `UserLevelSettings`. ``bounds`` are 0 and the highest count of
        one entry. With ``Unit.slice("patient", contributions=4)`` records of a length of up to four entries count in
        full; by default all records weigh alike.

    Attributes
    ----------
    model_
        The `CPModel`. `tensorveil.list_components` says what is in each component; `personalise` which of them a user
        has, and is then no release.
    guarantee_
        The `Guarantee`: print it for one plain sentence.
    plan_, notes_
        What was run, and what it found.
    release_id_
        Names the release in the ledger, from the moment it is charged.

    Guarantee: (epsilon, delta) differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md#records).

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(2, size=4000)
    >>> cells = np.stack([np.arange(4000), 3 * kind + rng.integers(3, size=4000), 2 * kind], axis=1)
    >>> shape, modes = (4000, 6, 4), ("patient", "code", "drug")
    >>> visits = tv.ObservedTensor(cells, np.ones(4000), shape, modes=modes, unlisted="zero")
    >>> promise = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:patient", "bounds": (0, 5), "shape": shape}
    >>> fitted = tv.UserLevelCounts(rank=2, noise_seed=0, **promise).fit(visits)
    >>> fitted.model_.shape
    (1, 6, 4)
    >>> sorted(int(index) for index in fitted.model_.factors[2].argmax(axis=0))
    [0, 2]
    """

    rank: int

    def personalise(self, entries: ObservedTensor) -> CPModel:
        """Return a model with a row for every user of ``entries``: how much of each component this user has.

        Rows follow from the users' own entries, without noise, and are for them alone: the result is no release. They
        are drawn towards the average user, by an exponential law with its mean.
        """
        model = self._fitted()
        at = find_axis(model.modes, Unit.parse(self.unit).mode or "")
        known = as_tensor(entries, None, {}, "personalise({})")
        _check_fitting(model, known, at)
        average = np.maximum(model.factors[at][0], _LEAST)
        design = np.maximum(model.design(known.columns * (np.arange(known.order) != at)[:, None], at), _LEAST)
        rows = np.tile(average, (known.shape[at], 1))
        for _ in range(_ROUNDS):  # expectation maximisation: an entry's share of each component, and their sums
            shares = design * rows[known.columns[at]]
            shares *= (np.maximum(known.values, 0.0) / shares.sum(axis=1))[:, None]
            sums = [np.bincount(known.columns[at], share, minlength=len(rows)) for share in shares.T]
            rows = np.maximum(np.stack(sums, axis=1) / (1.0 + 1.0 / average), _LEAST)
        factors = tuple(rows if m == at else factor for m, factor in enumerate(model.factors))
        modes = tuple(known.modes[at] if m == at else mode for m, mode in enumerate(model.modes))
        return replace(model, factors=factors, modes=modes)

    def rmse_for(self, entries: ObservedTensor | Any, tensor: ObservedTensor | Any) -> float:
        """Return the error on a tensor's entries when everybody is served from their own entries.

        It is computed from private data: a diagnostic and no part of a release. To choose by it voids the guarantee.
        """
        tensor = as_tensor(tensor, None, {}, "rmse_for(entries, {})")
        return rmse(self.personalise(entries).predict(tensor.coords), tensor.values)

    def _unit(self) -> Unit:
        unit = Unit.parse(self.unit)
        if unit.kind != "slice":
            raise InputError(
                f'unit must be "slice" here, with the name of the protected mode; got {str(unit)!r}. Try '
                'unit="slice:patient", or PrivateCP for unit "entry".'
            )
        return unit

    def _choose(self, promise: Promise, source: NoiseSource) -> RecordsJob:
        declared, unit = promise.declared, promise.unit
        if self.method not in ("auto", RECORDS.name):
            raise InputError(f'method must be "auto" or "{RECORDS.name}" for counts; got {self.method!r}.')
        if not declared.zeros:
            raise InputError(
                'cells without an entry must be zero for UserLevelCounts: tensor.with_unlisted("zero"). If they are '
                "unknown, try UserLevelCP."
            )
        assert unit.mode is not None
        names = tuple(mode.name for mode in declared.modes)
        recipe = RecordsRecipe(
            shape=declared.shape,
            modes=names,
            protect=unit.mode,
            bounds=promise.bounds,
            epsilon=promise.budget.epsilon,
            delta=promise.budget.delta,
            rank=rules.whole_number("rank", self.rank, 1, 8),
            contributions=unit.contributions,
            seed=self._seed(),
        )
        recipe.check_noise()  # before anything is charged
        return RecordsJob(
            recipe=recipe, source=source, threads=self.threads, modes=declared.modes, value=declared.value
        )
