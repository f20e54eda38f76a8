"""Mechanisms that answer for every entry on its own, or for a few entries picked at random.

An entry's value is rounded to a public grid (at random, so that its mean is the value), a law with the entry's epsilon
answers for the grid point, and the answer is decoded by public numbers. Laws are stated in centred places: 0 in the
middle of the bounds, one unit per step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.local.allocation import SMALLEST, entry_epsilons, shares_of_weights
from tensorveil.local.concave import concave_at
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.laws import Answers, Array, Law
from tensorveil.local.picking import pick_entries
from tensorveil.local.requirements import Requirements, check_bounds
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Unit

MISSING: Final = np.iinfo(np.int64).min  # the code of an entry that is not reported
LARGEST_GRID: Final = 1 << 24


@dataclass(frozen=True, kw_only=True, eq=False)
class Entrywise(LocalMechanism, abstract=True):
    """What the mechanisms that answer entry by entry have in common.

    Parameters
    ----------
    bounds
        Declared (low, high) of every entry.
    points
        Number of grid points in the bounds, both ends included.
    weights
        Public weights in [0, 1]; an entry's epsilon is proportional to 1 - weight.
    coordinates
        Unit tensor: report this many entries, picked at random, with epsilon / coordinates each; "best" takes the
        number of least worst error; None reports all entries.
    rounding
        Whether values between grid points are rounded at random, so that reports are unbiased, or to the nearest one.
    """

    bounds: tuple[float, float]
    points: int | None = None
    weights: ArrayLike | None = None
    coordinates: int | str | None = None
    rounding: bool = True
    perturbs: ClassVar[Literal["entries", "tensors"]] = "entries"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        if self.weights is not None:
            kept = np.array(self.weights, dtype=np.float64)
            kept.flags.writeable = False
            shares_of_weights(kept, self.shape)
            object.__setattr__(self, "weights", kept)
        self._check_choices()
        if self.points is not None:
            self._check_points(self.points)
        if self.coordinates == "best":
            object.__setattr__(self, "coordinates", self._best_coordinates())
        if self.points is None:
            object.__setattr__(self, "points", self._best_points())
        _ = self._epsilons  # refuses what cannot be shared

    def _check_choices(self) -> None:
        number = self.coordinates
        if number is not None and number != "best":
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= self.size:
                raise InputError(
                    f"coordinates must be between 1 and the {self.size} entries of a tensor; got {number!r}."
                )
            if Unit.parse(self.unit).kind != "tensor":
                raise InputError(
                    "coordinates is for unit 'tensor'; in unit 'local entry' one entry differs. Leave it out."
                )
        if self.weights is not None and self.coordinates is not None:
            raise InputError("weights and coordinates exclude each other: entries are picked with equal chances.")
        if not isinstance(self.rounding, bool):
            raise InputError("rounding must be True or False.")

    def _check_points(self, points: Any) -> None:
        if isinstance(points, bool) or not isinstance(points, int | np.integer) or not 2 <= points <= LARGEST_GRID:
            raise InputError(f"points must be between 2 and {LARGEST_GRID}; got {points!r}. Try points=256.")
        object.__setattr__(self, "points", int(points))

    # What a mechanism adds: its laws and how answers are drawn and decoded.

    @abstractmethod
    def _law(self, epsilon: Fraction) -> Law:
        """Return the law of an entry with this epsilon."""

    @abstractmethod
    def _answers(self, laws: tuple[Any, ...]) -> Answers:
        """Return the sampler of several laws; a column is a place in this list."""

    @abstractmethod
    def _decode_places(self, codes: Array, column: Array, laws: tuple[Any, ...]) -> Array:
        """Decode answers to centred places, unbiased."""

    def _best_points(self) -> int:
        """Choose the grid where none was given."""
        return 257

    # The grid and the budget.

    @property
    def last(self) -> int:
        """The index of the last grid point."""
        assert self.points is not None
        return self.points - 1

    @property
    def step(self) -> float:
        """The distance of neighbouring grid points."""
        return (self.bounds[1] - self.bounds[0]) / self.last

    @property
    def center(self) -> float:
        """The middle of the bounds."""
        return self.bounds[0] + 0.5 * (self.bounds[1] - self.bounds[0])

    @property
    def declared_bounds(self) -> tuple[float, float] | None:
        """The bounds."""
        return self.bounds

    @property
    def most_differing(self) -> int:
        """How many reported entries can differ between neighbours."""
        most = self.most_entries
        return most if self.coordinates is None else min(most, int(self.coordinates))

    @cached_property
    def _epsilons(self) -> tuple[Fraction, ...]:
        shares = None if self.weights is None else shares_of_weights(self.weights, self.shape)
        parts = entry_epsilons(self.epsilon, self.most_differing, shares)
        if max(parts) < SMALLEST:
            raise InputError("epsilon leaves each entry less than 1e-9. Raise it, or report fewer coordinates.")
        return parts

    @property
    def entry_epsilons(self) -> NDArray[np.float64]:
        """The epsilon of every entry, in the tensor's shape (of a reported one, where entries are picked)."""
        parts = np.array([float(part) for part in self._epsilons])
        return np.broadcast_to(parts if len(parts) == 1 else parts.reshape(self.shape), self.shape)

    @cached_property
    def _laws(self) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
        """The distinct laws, and which one every entry has; -1 where nothing is reported."""
        distinct = sorted({part for part in self._epsilons if part > 0})
        place = {part: i for i, part in enumerate(distinct)} | {Fraction(0): -1}
        which = np.array([place[part] for part in self._epsilons], dtype=np.int64)
        return tuple(self._law(part) for part in distinct), np.broadcast_to(which, (self.size,))

    # Perturbing.

    def _settle_rows(self, rows: Array) -> Array:
        """Return rows as they are: on its way to the grid every value is brought into the bounds, by the same rule."""
        return rows

    def _places(self, flat: Array, source: NoiseSource) -> NDArray[np.int64]:
        from tensorveil.kernels import local_draws

        low, high = self.bounds
        index = np.empty(len(flat), dtype=np.int64)
        # A word of one half rounds to the nearest point.
        words = source.uniform64(len(flat)) if self.rounding else np.full(len(flat), 1 << 63, dtype=np.uint64)
        local_draws.to_grid(flat, low, high, self.last, words, index)
        return index

    @cached_property
    def _sampler(self) -> Answers:
        return self._answers(self._laws[0])

    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        which, answers = self._laws[1], self._sampler
        codes = np.full(rows.shape, MISSING, dtype=np.int64)
        if self.coordinates is not None:
            picked = pick_entries(len(rows), self.size, int(self.coordinates), source)
            flat = np.take_along_axis(rows, picked, axis=1).reshape(-1)
            drawn = answers.draw(self._places(flat, source), np.zeros(len(flat), dtype=np.int64), source)
            np.put_along_axis(codes, picked, drawn.reshape(picked.shape), axis=1)
            return codes
        index = self._places(rows.reshape(-1), source)
        column = np.broadcast_to(which, rows.shape).reshape(-1)
        if np.all(which >= 0):
            return answers.draw(index, np.ascontiguousarray(column), source).reshape(rows.shape)
        reported = np.flatnonzero(column >= 0)
        codes.reshape(-1)[reported] = answers.draw(index[reported], column[reported], source)
        return codes

    def _decode_rows(self, codes: Array) -> Array:
        laws, which = self._laws
        flat = codes.reshape(-1)
        if self.coordinates is not None:
            out = np.full(codes.shape, self.center)
            reported = np.flatnonzero(flat != MISSING)
            places = self._decode_places(flat[reported], np.zeros(len(reported), dtype=np.int64), laws)
            out.reshape(-1)[reported] += places * (self.step * self.size / int(self.coordinates))
            return out
        column = np.ascontiguousarray(np.broadcast_to(which, codes.shape).reshape(-1))
        if np.all(which >= 0):
            places = self._decode_places(flat, column, laws)
            places *= self.step
            places += self.center
            return places.reshape(codes.shape)
        out = np.full(codes.shape, self.center)
        reported = np.flatnonzero(column >= 0)
        out.reshape(-1)[reported] += self._decode_places(flat[reported], column[reported], laws) * self.step
        return out

    # Errors.

    def _entry_errors(self, law: Law | None, places: Array) -> Array:
        """Return one entry's expected squared error, in squared steps, at centred places that may be off the grid."""
        if law is None:
            out: Array = places**2
            return out
        half = 0.5 * self.last
        below = np.clip(np.floor(places + half), 0, self.last - 1) - half
        part = places - below
        error: Array = (1 - part) * (law.variance(below) + part**2)
        error += part * (law.variance(below + 1) + (1 - part) ** 2)
        if self.coordinates is None:
            return error
        picked: Array = (places**2 + error) * (self.size / int(self.coordinates)) - places**2
        return picked

    def entry_mse_rows(self, rows: Array) -> Array:
        """Return the expected squared error of every entry of rows (n, size)."""
        laws, which = self._laws
        places = (super()._settle_rows(rows) - self.center) / self.step
        out = np.empty(rows.shape)
        for k in np.unique(which).tolist():
            law = laws[k] if k >= 0 else None
            out[:, which == k] = self._entry_errors(law, places[:, which == k])
        return out * self.step**2

    def _mse_rows(self, rows: Array) -> Array:
        out: Array = self.entry_mse_rows(rows).sum(axis=1)
        return out

    def worst_tensor(self) -> Array:
        """Return a tensor within the bounds whose report has the largest expected error."""
        laws, which = self._laws
        suspects = self._suspects()
        worst = [suspects[np.argmax(self._entry_errors(law, suspects))] for law in laws]
        places = np.array([*worst, -0.5 * self.last])[which]  # the last one for entries that are not reported
        return np.clip(self.center + places * self.step, *self.bounds).reshape(self.shape)

    @property
    def worst_mse(self) -> float:
        """The largest expected squared error of a report, over all tensors within the bounds."""
        laws, which = self._laws
        total = 0.0
        for k in np.unique(which).tolist():
            worst = float(self._entry_errors(laws[k] if k >= 0 else None, self._suspects()).max())
            total += int(np.count_nonzero(which == k)) * worst
        return total * self.step**2

    def worst_mse_in_ball(self, radius: float) -> float:
        """Return the largest expected squared error over tensors within this distance of the middle, up to integrality.

        The largest sum of d values psi(s_i) under sum s_i <= r^2 is at most d times the least concave function above
        psi, at r^2 / d; entries that sit at two places reach it.
        """
        if self.weights is not None:
            raise InputError("weights and a ball go together only through bounds. Leave weights out.")
        laws, _ = self._laws
        reach = min(radius / self.step, 0.5 * self.last)
        places = np.unique(np.concatenate([np.linspace(0, reach, 4001), self._suspects()]))
        places = places[(places >= 0) & (places <= reach)]
        errors = np.maximum.accumulate(self._entry_errors(laws[0], places))
        mean = min(reach**2, (radius / self.step) ** 2 / self.size)
        return self.size * concave_at(places**2, errors, mean) * self.step**2

    def _suspects(self) -> Array:
        """Return places among which the worst one is, for errors a + b t^2 at the grid points t."""
        half = 0.5 * self.last
        part = np.linspace(0, 1, 65)
        middle = np.floor(half) - half
        found = np.concatenate([middle + part, half - part])
        return found[(found >= -half) & (found <= half)]

    # Choosing.

    @classmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return the mechanism with as many reported entries as give the least worst error; a ball lies in a cube."""
        return [cls(**cls._choice_settings(required))]

    @classmethod
    def _choice_settings(cls, required: Requirements) -> dict[str, Any]:
        radius = required.radius
        return {
            "shape": required.shape,
            "epsilon": required.epsilon,
            "unit": required.unit,
            "bounds": required.bounds if radius is None else (-radius, radius),
            "coordinates": "best",
        }

    def worst_mse_for(self, required: Requirements) -> float:
        """Return the largest expected squared error over the tensors that `required` declares possible."""
        return self.worst_mse if required.radius is None else self.worst_mse_in_ball(required.radius)

    def _best_coordinates(self) -> int | None:
        """Return how many entries to report for the least worst error: by closed form, from public numbers."""
        if Unit.parse(self.unit).kind == "local entry":
            return None
        most = self.most_entries
        highest = min(self.size, max(1, int(2 * self.epsilon) + 1))
        settings = self.settings() | {"coordinates": None}
        best, least = None, type(self)(**settings).worst_mse if most / self.epsilon < 1e8 else float("inf")
        for count in range(1, highest + 1):
            error = type(self)(**(settings | {"coordinates": count})).worst_mse
            if error < least * (1 - 1e-9):  # not for rounding alone
                best, least = count, error
        return best

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data."""
        weights = None if self.weights is None else np.asarray(self.weights).tolist()
        return super().settings() | {
            "bounds": self.bounds,
            "points": self.points,
            "weights": weights,
            "coordinates": self.coordinates,
            "rounding": self.rounding,
        }

    def _statistic(self) -> str:
        if self.coordinates is None:
            return f"all {self.size} entries of one tensor, each on its own"
        return f"{self.coordinates} of the {self.size} entries of one tensor, picked at random"

    def _conditions(self) -> tuple[str, ...]:
        weights = () if self.weights is None else ("weights are public",)
        return (*super()._conditions(), *weights)

    def _notes(self) -> tuple[str, ...]:
        notes = [f"Public grid of {self.points} points in the bounds."]
        if self.weights is not None:
            notes.append("Weights are public: read off the data, they would void the guarantee.")
        return (*notes, *super()._notes())
