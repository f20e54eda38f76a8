"""The model that all users share: biases and factors of the released modes, and nothing of any user."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.indexing import checked_columns
from tensorveil.models.storage import StoredModel, read_model, write_model
from tensorveil.rounds.components import Components, cp_components, tucker_components
from tensorveil.rounds.contract import State
from tensorveil.rounds.grouping import People, check_group, group_people
from tensorveil.rounds.own_part import bases, latent_features, n_plain
from tensorveil.rounds.sums import pieces
from tensorveil.tensor import Mode, ObservedTensor

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

_KIND = "shared "


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SharedModel:
    """What a user-level fit releases; a person's own part is computed where the person's entries are.

    Predictions are offset + biases + user's bias + tastes . components. Offset, biases of the released modes and
    components are here; a user's bias and tastes follow from the user's entries (`personalise`), by ridge regression
    towards what is known of users as a population. New users are served like old ones: nobody is stored.

    Parameters
    ----------
    modes, shape
        The modes, in order; the size of the protected one is what was declared.
    protect
        Position of the protected mode.
    bounds
        Where values lie; predictions are clipped to them.
    offset, biases
        The constant part, and one vector per released mode.
    factors
        One matrix per released mode. CP: a column per component. Tucker: the mode's basis.
    core
        Tucker: (components, columns of every released mode); None for CP.
    n_traits
        How many of the components are traits of rows (their biases, how often they occur), rather than latent.
    spread, taste_mean, taste_covariance
        Variance of what tastes leave unexplained; mean and covariance of (bias, tastes) over users.
    """

    modes: tuple[Mode, ...]
    shape: tuple[int, ...]
    protect: int
    bounds: tuple[float, float]
    offset: float
    biases: tuple[Array, ...]
    factors: tuple[Array, ...]
    core: Array | None = field(default=None)
    n_traits: int
    spread: float
    taste_mean: Array
    taste_covariance: Array

    @classmethod
    def from_state(cls, recipe: Recipe, state: State) -> SharedModel:
        """Make the released model of the last state: a function of it and of public facts alone."""
        plain, n_traits = n_plain(state), n_plain(state) - 1
        components = _components(recipe, state, plain)
        latent = 0 if components is None else len(components.weights)
        turn = np.zeros((plain + latent, len(state["taste_mean"])))
        turn[:plain, :plain] = np.eye(plain)
        if components is not None:
            turn[plain:, plain:] = components.turn
        factors, core = _released(recipe, state, components)
        return cls(
            modes=tuple(Mode(name) for name in recipe.modes),
            shape=recipe.shape,
            protect=recipe.protected,
            bounds=recipe.bounds,
            offset=float(state["offset"][0]),
            biases=tuple(np.array(state["biases"][part]) for part in recipe.row_slices),
            factors=factors,
            core=core,
            n_traits=n_traits,
            spread=float(state["spread"][0]),
            taste_mean=turn @ state["taste_mean"],
            taste_covariance=turn @ state["taste_covariance"] @ turn.T,
        )

    @property
    def rank(self) -> int | tuple[int, ...]:
        """Number of latent components; for Tucker followed by the columns of every released mode's basis."""
        latent = len(self.taste_mean) - 1 - self.n_traits
        if self.core is None:
            return latent
        extra = 1 + self.n_traits // len(self.factors)
        return (latent, *(factor.shape[1] - extra for factor in self.factors))

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"SharedModel({sizes}, protects {self.modes[self.protect].name!r}, rank={self.rank})"

    def personalise(self, entries: ObservedTensor) -> CPModel | TuckerModel:
        """Compute everybody's own bias and tastes from their entries and return the whole model.

        It holds a row for every index of the protected mode of ``entries``, whose size may be any; who has no entries
        is taken for an average user. This is how a person is served, and how new people are folded in.

        The result belongs to the owners of the entries: it is not private, and must not be published.
        """
        check_group(entries, self.shape, self.protect)
        people = group_people(entries, self.protect, self.bounds)
        own = np.tile(self.taste_mean, (entries.shape[self.protect], 1))
        own[people.ids] = self._solve(people)
        return self._whole(own)

    def example(self) -> CPModel | TuckerModel:
        """Return the whole model of one made-up person, whose tastes are as strong as users' are on average.

        A function of the release alone, to look at: how strong components are, which signs cancel out.
        """
        own = np.sqrt(self.taste_mean**2 + np.diag(self.taste_covariance))
        own[0] = self.taste_mean[0]
        return self._whole(own[None, :])

    def predict_for(self, entries: ObservedTensor, coords: ObservedTensor | Any) -> Array:
        """Predict at (n, order) coordinates for the people they name, each from the person's own ``entries``.

        >>> import tensorveil as tv
        >>> from tensorveil.rounds import Recipe, run_recipe
        >>> ratings = tv.synthetic_cp((30, 20), 2, random_state=0).train.with_modes(("user", "film"))
        >>> public = {"shape": (30, 20), "modes": ("user", "film"), "protect": "user", "bounds": (0, 1)}
        >>> recipe = Recipe(**public, epsilon=1.0, delta=1e-5)
        >>> model = recipe.finish(run_recipe(recipe, [ratings], None))
        >>> model.predict_for(ratings, [[0, 3], [29, 7]]).shape
        (2,)
        """
        wanted = coords.coords if isinstance(coords, ObservedTensor) else coords
        users = entries.shape[self.protect]
        columns = checked_columns(wanted, (*self.shape[: self.protect], users, *self.shape[self.protect + 1 :]))
        named = np.zeros(users, dtype=bool)
        named[columns[self.protect]] = True
        mine = named[entries.columns[self.protect]]
        whole = (
            self.personalise(entries.take(mine)) if mine.any() else self._whole(np.tile(self.taste_mean, (users, 1)))
        )
        return whole.predict(columns.T)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, whole or not at all; read it with `SharedModel.load`."""
        write_model(
            path,
            StoredModel(
                kind=_KIND + ("cp" if self.core is None else "tucker"),
                offset=self.offset,
                bounds=self.bounds,
                modes=self.modes,
                factors=self.factors,
                biases=self.biases,
                core=self.core,
                extra={
                    "shape": np.array(self.shape),
                    "protect": np.array([self.protect]),
                    "n_traits": np.array([self.n_traits]),
                    "spread": np.array([self.spread]),
                    "taste_mean": self.taste_mean,
                    "taste_covariance": self.taste_covariance,
                },
            ),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SharedModel:
        """Read what `save` wrote. Nothing in the file is executed."""
        stored = read_model(path)
        extra = stored.extra
        try:
            if stored.kind not in (f"{_KIND}cp", f"{_KIND}tucker") or stored.bounds is None or stored.biases is None:
                raise KeyError(stored.kind)
            return cls(
                modes=stored.modes,
                shape=tuple(int(size) for size in extra["shape"]),
                protect=int(extra["protect"][0]),
                bounds=stored.bounds,
                offset=stored.offset,
                biases=stored.biases,
                factors=stored.factors,
                core=stored.core,
                n_traits=int(extra["n_traits"][0]),
                spread=float(extra["spread"][0]),
                taste_mean=extra["taste_mean"],
                taste_covariance=extra["taste_covariance"],
            )
        except (KeyError, IndexError):
            raise InputError(f"{os.fspath(path)} is no model that users share. Try tensorveil.load_model.") from None

    def _solve(self, people: People) -> Array:
        """Return bias and tastes of every user, piece by piece."""
        from tensorveil.kernels.users import ridge_users

        precision = self.spread * np.linalg.inv(self.taste_covariance)
        out, first = np.empty((people.n_users, len(self.taste_mean))), 0
        for piece in pieces(people):
            left = piece.values - self.offset
            for bias, column in zip(self.biases, piece.columns, strict=True):
                left -= bias[column]
            given = np.concatenate([np.ones((len(left), 1)), self._features(piece.columns)], axis=1)
            last = first + piece.n_users
            ridge_users(piece.pointers, given, left, precision, self.taste_mean, out[first:last])
            first = last
        return out

    def _features(self, columns: Array) -> Array:
        """Return what a user's tastes multiply at every entry."""
        if self.core is not None:
            features: Array = latent_features(self.factors, columns) @ self.core.reshape(len(self.core), -1).T
            return features
        out: Array = self.factors[0][columns[0]]
        for factor, column in zip(self.factors[1:], columns[1:], strict=True):
            out = out * factor[column]
        return out

    def _whole(self, own: Array) -> CPModel | TuckerModel:
        """Join the shared parts and rows of (bias, tastes) to a model that predicts."""
        biases, factors = [*self.biases], [*self.factors]
        biases.insert(self.protect, own[:, 0])
        factors.insert(self.protect, own[:, 1:])
        common: dict[str, Any] = {
            "factors": tuple(factors), "offset": self.offset, "biases": tuple(biases), "modes": self.modes,
            "bounds": self.bounds,
        }  # fmt: skip
        if self.core is None:
            return CPModel(**common)
        return TuckerModel(core=np.moveaxis(self.core, 0, self.protect), **common)


def is_shared(path: str | os.PathLike[str]) -> bool:
    """Tell whether a model file holds what users share, rather than a whole model."""
    return read_model(path).kind.startswith(_KIND)


def _components(recipe: Recipe, state: State, plain: int) -> Components | None:
    """Return the latent components of the rank that was asked for, if there are any."""
    if "basis_0" not in state.arrays:
        return None
    covariance = state["taste_covariance"][plain:, plain:]
    if isinstance(recipe.rank, int):
        return cp_components(covariance, recipe.basis_ranks, recipe.rank)
    return tucker_components(covariance, recipe.basis_ranks, recipe.rank[recipe.protected])


def _released(recipe: Recipe, state: State, components: Components | None) -> tuple[tuple[Array, ...], Array | None]:
    """Return the factors of the released modes, and the core of a Tucker model: traits first, then what is latent."""
    traits = [state["traits"][part] for part in recipe.row_slices]
    known = bases(recipe, state) if components is not None else tuple(np.empty((len(t), 0)) for t in traits)
    if recipe.kind == "cp":
        mixing = () if components is None else components.mixing or ()
        latent = [basis @ mixed for basis, mixed in zip(known, mixing, strict=True)] if mixing else list(known)
        return tuple(_trait_columns(traits, m, latent[m]) for m in range(len(traits))), None
    # A Tucker factor holds the basis, a column of ones and the mode's traits; traits meet the ones of other modes.
    factors = tuple(np.column_stack([basis, np.ones(len(t)), t]) for basis, t in zip(known, traits, strict=True))
    n_latent = 0 if components is None else len(components.weights)
    core = np.zeros((sum(t.shape[1] for t in traits) + n_latent, *(f.shape[1] for f in factors)))
    ones, at = [basis.shape[1] for basis in known], 0
    for m, trait in enumerate(traits):
        for k in range(trait.shape[1]):
            core[at, *(ones[i] + (1 + k if i == m else 0) for i in range(len(ones)))] = 1.0
            at += 1
    if components is not None:
        core[at:, *(slice(n) for n in ones)] = components.weights
    return factors, core


def _trait_columns(traits: list[Array], mode: int, latent: Array) -> Array:
    """Return a CP factor: a mode's own traits, ones for those of the other modes, then the latent columns."""
    columns = [trait if m == mode else np.ones((len(latent), trait.shape[1])) for m, trait in enumerate(traits)]
    return np.column_stack([*columns, latent])
