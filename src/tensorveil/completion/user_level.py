"""Private estimators for whole users: all that one user did is protected, and nothing of any user is released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tensorveil.completion.job import Promise
from tensorveil.completion.methods import check_method
from tensorveil.completion.private_matrix import plan_ranks
from tensorveil.completion.records import RECORDS
from tensorveil.completion.rounds_fit import RoundsCompletion
from tensorveil.completion.settings import cp_ranks, tucker_ranks
from tensorveil.completion.side_table import read_public_tables
from tensorveil.completion.slices import RoundsJob, make_recipe
from tensorveil.errors import InputError, LowerRankWarning, warn
from tensorveil.models import CPModel, TuckerModel
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Unit
from tensorveil.rounds import SharedModel
from tensorveil.rounds.guess import describe_release, has_latent
from tensorveil.rounds.own_entries import read_values
from tensorveil.solvers.loss import rmse
from tensorveil.solvers.task import Array
from tensorveil.tensor import ObservedTensor


class UserLevelCompletion(RoundsCompletion[SharedModel]):
    """What the estimators for whole users have in common: a released `SharedModel`, from which people are served."""

    def _recipe_rank(self, shape: Sequence[int]) -> int | tuple[int, ...]:
        """Return one number for CP, one per mode for Tucker."""
        raise NotImplementedError

    def _unit(self) -> Unit:
        unit = Unit.parse(self.unit)
        if unit.kind != "slice":
            raise InputError(
                f'unit must be "slice" here, with the name of the protected mode; got {str(unit)!r}. Try '
                'unit="slice:user", or PrivateCP, PrivateTucker or PrivateLowRankMatrix for units "value" and "entry".'
            )
        return unit

    def _choose(self, promise: Promise, source: NoiseSource) -> RoundsJob:
        check_method(self.method, promise.unit.kind)
        if self.method == RECORDS.name or promise.declared.zeros:
            raise InputError(
                f'method="{RECORDS.name}" and unlisted="zero" are for counts. Try UserLevelCounts, or say that other '
                'cells are unknown: tensor.with_unlisted("unknown").'
            )
        rank = self._recipe_rank(promise.declared.shape)
        recipe = make_recipe(promise, rank=rank, method=self.method, seed=self._seed())
        if recipe.sweeps is None and not has_latent(recipe):  # by public facts, and before anything is charged
            warn(describe_release(recipe), LowerRankWarning)
        declared = promise.declared
        tables = read_public_tables(self.side, declared.modes, declared.shape, recipe.protected)
        return RoundsJob(
            recipe=recipe, source=source, threads=self.threads, modes=declared.modes, value=declared.value,
            tables=tables,
        )  # fmt: skip

    def personalise(self, entries: Any, value: str | None = None) -> CPModel | TuckerModel:
        """Compute people's own parts from their entries; see `SharedModel.personalise`. The result is not private."""
        return self._fitted().personalise(entries, value)

    def recommend(self, mode: str | int | None = None, n: int | None = None, *, entries: Any, **options: Any) -> Any:
        """Return a table of the n best candidates for people; see `SharedModel.recommend`. It is for them alone."""
        return self._fitted().recommend(mode, n, entries=entries, **options)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "predict":
            raise AttributeError(
                f"{type(self).__name__} has no predict: nobody's own part is released, so people are served from their "
                "own entries, by predict_for(entries, frame) or personalise(entries).predict(frame)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def predict_for(self, entries: ObservedTensor | Any, coords: ObservedTensor | Any) -> Array:
        """Predict for people from their own entries; see `SharedModel.predict_for`."""
        return self._fitted().predict_for(entries, coords)

    def rmse_for(self, entries: ObservedTensor | Any, tensor: ObservedTensor | Any) -> float:
        """Return the error on a tensor, or a frame with values, when everybody is served from their own entries.

        It is computed from private data: a diagnostic and no part of a release. To choose by it voids the guarantee.
        """
        cells, values = read_values(tensor, self._fitted())
        return rmse(self.predict_for(entries, cells), values)


@dataclass(eq=False, repr=False)
class UserLevelCP(UserLevelCompletion):
    """Complete a tensor by a CP model while protecting all that one user did (user-level privacy).

    What `model_` holds may be published with `guarantee_`. It is the part that all users share: nothing in it belongs
    to any one of them. A person's own part is computed from the person's entries, by `predict_for` or `personalise`,
    and is for this person alone (joint differential privacy).

    Parameters
    ----------
    rank
        Number of components: public, chosen without looking at the data. Fewer are released where noise would drown
        them.
    **settings
        The keyword arguments of `PrivateSettings` and `UserLevelSettings`.

    Attributes
    ----------
    model_
        The `SharedModel`.
    guarantee_
        The `Guarantee`: print it for one plain sentence.
    plan_
        What was run.
    release_id_
        Names the release in the ledger, from the moment it is charged.

    Guarantee: (epsilon, delta) joint differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md#slice).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20), 2, random_state=0).train.with_modes(("user", "film"))
    >>> promise = {"epsilon": 5.0, "delta": 1e-6, "unit": "slice:user", "bounds": (-0.5, 1.5), "shape": (30, 20)}
    >>> fitted = tv.UserLevelCP(rank=2, **promise).fit(ratings)
    >>> fitted.guarantee_.status, fitted.predict_for(ratings, [[0, 3], [29, 7]]).shape
    ('proven', (2,))
    """

    rank: int

    def _recipe_rank(self, shape: Sequence[int]) -> int:
        return cp_ranks(self.rank, shape)[0]


@dataclass(eq=False, repr=False)
class UserLevelTucker(UserLevelCompletion):
    """Complete a tensor by a Tucker model while protecting all that one user did (user-level privacy).

    Parameters
    ----------
    rank
        One number for all modes, or one per mode: public, chosen without looking at the data.
    **settings
        The keyword arguments of `PrivateSettings` and `UserLevelSettings`.

    The attributes are those of `UserLevelCP`; the core is released and perturbed like the factors.

    Guarantee: (epsilon, delta) joint differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md#slice).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20, 5), 2, random_state=0).train.with_modes(("user", "film", "day"))
    >>> promise = {"epsilon": 5.0, "delta": 1e-6, "unit": "slice:user", "bounds": (-0.5, 1.5), "shape": (30, 20, 5)}
    >>> tv.UserLevelTucker(rank=2, **promise).fit(ratings).model_.shape
    (30, 20, 5)
    """

    rank: int | Sequence[int]

    def _recipe_rank(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tucker_ranks(self.rank, shape)


@dataclass(eq=False, repr=False)
class UserLevelMatrix(UserLevelCompletion):
    """Complete a matrix while protecting all that one user did (user-level privacy).

    Parameters
    ----------
    rank
        Number of components, at most the smaller side: public, chosen without looking at the data. Or "auto", for an
        ordinary one.
    **settings
        The keyword arguments of `PrivateSettings` and `UserLevelSettings`.

    The attributes are those of `UserLevelCP`.

    Guarantee: (epsilon, delta) joint differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md#slice).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20), 2, random_state=0).train.with_modes(("user", "film"))
    >>> promise = {"epsilon": 5.0, "delta": 1e-6, "unit": "slice:user", "bounds": (-0.5, 1.5), "shape": (30, 20)}
    >>> tv.UserLevelMatrix(rank="auto", **promise).fit(ratings).plan_.ranks
    (8, 8)
    """

    rank: int | str

    def _recipe_rank(self, shape: Sequence[int]) -> int:
        return plan_ranks(self.rank, shape)[0]
