"""The model that all users share: biases and factors of the released modes, and nothing about any one user."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.indexing import find_places
from tensorveil.models.recommending import settle_question
from tensorveil.models.storage import StoredModel, read_model, write_model
from tensorveil.rounds.grouping import People, check_group, group_people
from tensorveil.rounds.own_part import multiply_bases
from tensorveil.rounds.sums import cut_people
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.checks import MAX_ORDER, MIN_ORDER
from tensorveil.tensor.given import VALUE
from tensorveil.tensor.modes import find_axis

Array = NDArray[Any]

_KIND = "shared "


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SharedModel:
    """What a user-level fit releases; a person's own part is computed where that person's entries are.

    Predictions are offset + biases + user's bias + tastes . components. The offset, the biases of the released modes
    and the components are here. A user's bias and tastes follow from the user's entries (`personalise`), by ridge
    regression towards the population of users. New users are served like old ones: no user is stored.

    Parameters
    ----------
    modes, shape
        The modes, in order; the size of the protected one is the declared one.
    protect
        Position of the protected mode.
    bounds
        Lowest and highest possible value; predictions are clipped to them.
    offset, biases
        The constant part, and one vector per released mode.
    factors
        One matrix per released mode. CP: a column per component. Tucker: the mode's basis.
    core
        Tucker: (components, columns of every released mode); None for CP.
    n_traits
        How many of the components are traits of rows (biases, frequencies, public features) rather than latent.
    spread, taste_mean, taste_covariance
        Variance of what tastes leave unexplained; mean and covariance of (bias, tastes) over users.
    value_name
        What the values are called in the data.
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
    value_name: str = VALUE

    @property
    def rank(self) -> int | tuple[int, ...]:
        """Number of latent components; for Tucker followed by the columns of every released mode's basis."""
        latent = len(self.taste_mean) - 1 - self.n_traits
        return latent if self.core is None else (latent, *self.basis_columns)

    @property
    def basis_columns(self) -> tuple[int, ...]:
        """How many columns of a Tucker factor are the mode's basis; a column of ones and the mode's traits follow.

        The first component is a trait of the first mode and meets the other modes' ones.
        """
        assert self.core is not None
        first, *others = np.unravel_index(int(np.argmax(np.abs(self.core[0]))), self.core.shape[1:])
        return (int(first) - 1, *map(int, others))

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"SharedModel({sizes}, protects {self.modes[self.protect].name!r}, rank={self.rank})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from tensorveil.markup import notebook_card

        facts = [
            ("shape", " x ".join(f"{mode.name}: {size:,}" for mode, size in zip(self.modes, self.shape, strict=True))),
            ("protects", f"all entries of one {self.modes[self.protect].name}; it holds none of their own parts"),
            ("rank", self.rank),
            ("predicts", self.value_name),
            ("bounds", f"{self.bounds[0]:g} to {self.bounds[1]:g}"),
        ]
        return notebook_card("SharedModel", facts)

    def personalise(self, entries: Any, value: str | None = None) -> CPModel | TuckerModel:
        """Compute everybody's own bias and tastes from their entries and return the whole model.

        Entries are a tensor, a frame, or a mapping of columns, with labels where the model has them; those of labels
        that it does not have are left out, with a `LeftOutWarning`. Moments stand for the bins of the release that they
        are in. Without a column of the protected mode all entries are one person's.

        The model has a row for every index of the protected mode of ``entries``, which may have any size and labels of
        its own; users without entries are treated as average ones. This is how a person is served, and how new people
        are folded in. ``value`` names the column of values, if it is neither called "value" nor the last.

        The result belongs to the owners of the entries: it is not private, and must not be published.
        """
        return self._serve(self.read_entries(entries, value))

    def _serve(self, known: ObservedTensor) -> CPModel | TuckerModel:
        check_group(known, self.shape, self.protect)
        people = group_people(known, self.protect, self.bounds)
        own = np.tile(self.taste_mean, (known.shape[self.protect], 1))
        own[people.ids] = self._solve(people)
        return self._join(own, known.modes[self.protect])

    def read_entries(self, entries: Any, value: str | None = None) -> ObservedTensor:
        """Return people's own entries as a tensor in this model's indices; see `personalise`."""
        from tensorveil.rounds.own_entries import read_own

        return read_own(entries, self, value).tensor

    def recommend(
        self,
        mode: str | int | None = None,
        n: int | None = None,
        *,
        entries: Any,
        users: Any = None,
        along: str | int | None = None,
        at: Mapping[Any, Any] | None = None,
        value: str | None = None,
    ) -> Any:
        """Return an Arrow table of the n best candidates for the people whose ``entries`` these are.

        As the ``recommend`` of a whole model, for the protected mode, which need not be named: a number alone is ``n``,
        by default 10. What people have entries of is left
        out. Recommendations are for the owners of the entries alone.
        """
        if n is None:
            mode, n = (None, int(mode)) if isinstance(mode, int | np.integer) else (mode, 10)
        if mode is not None and find_axis(self.modes, mode) != self.protect:
            raise InputError(
                f"mode must be the protected one, {self.modes[self.protect].name!r}: this release serves people from "
                "their own entries."
            )
        from tensorveil.rounds.own_entries import read_own

        own = read_own(entries, self, value)
        whole = self._serve(own.tensor)
        owner, target, _ = settle_question(whole.modes, whole.shape, self.protect, along, at or {})
        seen = own.seen(target)
        if users is None:  # people without entries would all be shown the same
            someone = np.unique(own.owners)
            users = own.modes[owner].decode(someone).tolist()
        return whole.recommend(owner, n, users=users, along=along, at=at, seen=seen)

    def example(self) -> CPModel | TuckerModel:
        """Return the whole model of one made-up person, whose tastes are as strong as those of an average user.

        It depends on the release alone, and is there to be looked at: how strong components are, which signs cancel.
        """
        own = np.sqrt(self.taste_mean**2 + np.diag(self.taste_covariance))
        own[0] = self.taste_mean[0]
        return self._join(own[None, :])

    def predict_for(self, entries: ObservedTensor | Any, coords: ObservedTensor | Any) -> Array:
        """Predict at (n, order) coordinates, or at a frame of labels, for the people they name.

        Each of them is served from the person's own ``entries``: a tensor, a frame or a mapping of columns.

        >>> import tensorveil as tv
        >>> from tensorveil.rounds import Recipe, run_recipe
        >>> ratings = tv.synthetic_cp((30, 20), 2, random_state=0).train.with_modes(("user", "film"))
        >>> public = {"shape": (30, 20), "modes": ("user", "film"), "protect": "user", "bounds": (-1, 2)}
        >>> recipe = Recipe(**public, epsilon=1.0, delta=1e-5)
        >>> model = recipe.finish(run_recipe(recipe, [ratings], None))
        >>> model.predict_for(ratings, [[0, 3], [29, 7]]).shape
        (2,)
        """
        entries = self.read_entries(entries)
        users = entries.shape[self.protect]
        modes = tuple(entries.modes[m] if m == self.protect else mode for m, mode in enumerate(self.modes))
        shape = tuple(users if m == self.protect else size for m, size in enumerate(self.shape))
        columns = find_places(coords, modes, shape)
        named = np.zeros(users, dtype=bool)
        named[columns[self.protect]] = True
        mine = named[entries.columns[self.protect]]
        whole = self.personalise(entries.take(mine)) if mine.any() else self._join(np.tile(self.taste_mean, (users, 1)))
        return whole.predict(columns.T)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, completely or not at all; read it with `SharedModel.load`."""
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
                value_name=self.value_name,
            ),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SharedModel:
        """Read what `save` wrote. Nothing in the file is executed."""
        stored = read_model(path)
        extra = stored.extra
        damaged = f"{os.fspath(path)} holds parts that do not fit together: it is damaged. Get it again."
        try:
            if stored.kind not in (f"{_KIND}cp", f"{_KIND}tucker") or stored.bounds is None or stored.biases is None:
                raise KeyError(stored.kind)
            model = cls(
                modes=stored.modes,
                shape=tuple(_read_counts(extra["shape"])),
                protect=_read_counts(extra["protect"])[0],
                bounds=stored.bounds,
                offset=stored.offset,
                biases=stored.biases,
                factors=stored.factors,
                core=stored.core,
                n_traits=_read_counts(extra["n_traits"])[0],
                spread=float(extra["spread"][0]),
                taste_mean=extra["taste_mean"],
                taste_covariance=extra["taste_covariance"],
                value_name=stored.value_name,
            )
        except (KeyError, IndexError):
            raise InputError(
                f"{os.fspath(path)} does not hold a model that users share. Try tensorveil.load_model."
            ) from None
        except (TypeError, ValueError):
            raise InputError(damaged) from None
        if not _fits_together(model):
            raise InputError(damaged)
        return model

    def _solve(self, people: People) -> Array:
        """Return the bias and tastes of every user, piece by piece."""
        from tensorveil.kernels.ridge import lay_out_prior
        from tensorveil.kernels.tastes import ridge_users

        prior = lay_out_prior(self.spread * np.linalg.inv(self.taste_covariance), self.taste_mean)
        out, first = np.empty((people.n_users, len(self.taste_mean))), 0
        for piece in cut_people(people):
            left = piece.values - self.offset
            for bias, column in zip(self.biases, piece.columns, strict=True):
                left -= bias[column]
            given = np.concatenate([np.ones((len(left), 1)), self._features(piece.columns)], axis=1)
            last = first + piece.n_users
            ridge_users(piece.pointers, given, left, prior, out[first:last])
            first = last
        return out

    def _features(self, columns: Array) -> Array:
        """Return what a user's tastes multiply at every entry: entry by entry, see the note in kernels/users.py."""
        if self.core is not None:
            from tensorveil.kernels.users import mix_columns

            mixing = np.ascontiguousarray(self.core.reshape(len(self.core), -1).T)
            features = np.empty((columns.shape[1], mixing.shape[1]))
            mix_columns(multiply_bases(self.factors, columns), mixing, features)
            return features
        out: Array = self.factors[0][columns[0]]
        for factor, column in zip(self.factors[1:], columns[1:], strict=True):
            out = out * factor[column]
        return out

    def _join(self, own: Array, people: Mode | None = None) -> CPModel | TuckerModel:
        """Join the shared parts and rows of (bias, tastes) of people, who may have labels, into one that predicts."""
        modes = list(self.modes)
        modes[self.protect] = Mode.from_trusted(modes[self.protect].name, None if people is None else people.labels)
        biases, factors = [*self.biases], [*self.factors]
        biases.insert(self.protect, own[:, 0])
        factors.insert(self.protect, own[:, 1:])
        common: dict[str, Any] = {
            "factors": tuple(factors), "offset": self.offset, "biases": tuple(biases), "modes": tuple(modes),
            "bounds": self.bounds, "value_name": self.value_name,
        }  # fmt: skip
        if self.core is None:
            return CPModel(**common)
        return TuckerModel(core=np.moveaxis(self.core, 0, self.protect), **common)


def _read_counts(array: Array) -> list[int]:
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError("counts must be whole numbers")
    return [int(count) for count in array]


def _fits_together(model: SharedModel) -> bool:
    """Tell whether all parts of a model have the shapes, kinds and ranges that they must have."""
    order, own = len(model.shape), model.taste_mean
    floats = (*model.factors, *model.biases, own, model.taste_covariance, *([] if model.core is None else [model.core]))
    if not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in floats):
        return False
    if not (MIN_ORDER <= order <= MAX_ORDER and 0 <= model.protect < order and len(model.modes) == order):
        return False
    sizes = [size for axis, size in enumerate(model.shape) if axis != model.protect]
    if min(model.shape) < 1 or len(model.factors) != order - 1 or len(model.biases) != order - 1:
        return False
    labels = zip(model.modes, model.shape, strict=True)
    if any(mode.labels is not None and len(mode.labels) != size for mode, size in labels):
        return False
    if any(factor.ndim != 2 or len(factor) != size for factor, size in zip(model.factors, sizes, strict=True)):
        return False
    if any(bias.shape != (size,) for bias, size in zip(model.biases, sizes, strict=True)):
        return False
    if own.ndim != 1 or not len(own) or model.taste_covariance.shape != (len(own), len(own)):
        return False
    columns = [factor.shape[1] for factor in model.factors]
    parts = len(own) - 1
    fitting = columns == [parts] * len(columns) if model.core is None else model.core.shape == (parts, *columns)
    usable = math.isfinite(model.offset) and math.isfinite(model.spread) and model.spread > 0
    return fitting and usable and 0 <= model.n_traits <= parts


def is_shared(path: str | os.PathLike[str]) -> bool:
    """Tell whether a model file holds a model that users share, rather than a whole one."""
    return read_model(path).kind.startswith(_KIND)
