"""What a step may spend, and the noisy statistics it buys: sums of contributions that are bounded as integers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.mechanisms.deferred import Beside, CountSums, Deferred, ProductSums, RowSums, each, here, there
from tensorveil.noise import (
    Grid,
    NoiseSource,
    Noisy,
    bounded_values_mechanism,
    gaussian_mechanism,
    laplace_mechanism,
    norm_mechanism,
    sqrt_up,
)
from tensorveil.noise.adding import PlusNoise
from tensorveil.noise.grid import FINENESS
from tensorveil.noise.source import KeySource
from tensorveil.noise.windows import (
    SMALLEST_WINDOWED,
    InWindow,
    Window,
    flag_noise,
    window_noise,
    windowed_values_mechanism,
)
from tensorveil.privacy import Event, Gaussian, Part, Pure, split_gaussian, split_pure
from tensorveil.privacy.exact import exactly

Array = NDArray[Any]

_LARGEST_NORM_DIMENSION = 1024
# The longest contribution has at most 2**28 steps, so that sums of 2**33 of them fit into 64 bits.
_FINEST = 28
# Products of pairs are of values in so many steps: their noise is larger than what rounding adds by far.
_PRODUCT_STEPS = 255


@dataclass(frozen=True, kw_only=True)
class Spend:
    """A part of the budget: a pure epsilon (Laplace and norm-shaped noise) or a mu (Gaussian noise).

    It is spent once: on one statistic, or by being cut into parts. So whatever a mechanism buys composes to no more
    than what it was given, even if it forgets to list a part.
    """

    source: NoiseSource
    epsilon: float | None = None
    mu: float | None = None
    _used: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def _spend_on(self, what: str) -> None:
        """Note what this is spent on; refuse to spend it again, which would cost more than was promised."""
        if self._used:
            raise RuntimeError(f"this part of the budget was spent on {self._used[0]} already. Split it before.")
        self._used.append(what)

    @property
    def event(self) -> Event:
        """What the accounting sees when this is spent."""
        return Pure(self.epsilon) if self.epsilon is not None else Gaussian(self._parameter)

    @property
    def _parameter(self) -> float:
        parameter = self.epsilon if self.epsilon is not None else self.mu
        assert parameter is not None
        return parameter

    @property
    def _exact(self) -> Fraction:
        """The parameter as the accounting reads it: the decimal number that is printed, not its nearest double."""
        return exactly(self._parameter)

    @property
    def noise(self) -> float:
        """The variance of the noise on one number of sensitivity 1."""
        return (2.0 if self.epsilon is not None else 1.0) / self._parameter**2

    def noise_of_values(self, square: float) -> float:
        """The variance of the noise on one of many values within a width of 1, all perturbed; see `values`."""
        return self.noise if self.epsilon is None else window_noise(self.epsilon, square)

    @property
    def noise_of_flags(self) -> float:
        """The variance of the noise on one of many values that are 0 or 1, all perturbed; see `values`."""
        return self.noise if self.epsilon is None else flag_noise(self.epsilon)

    def split(self, *shares: float) -> tuple[Spend, ...]:
        """Cut into parts that compose to no more than the whole."""
        self._spend_on("its parts")
        if self.epsilon is not None:
            return tuple(Spend(source=self.source, epsilon=e) for e in split_pure(self.epsilon, shares))
        return tuple(Spend(source=self.source, mu=m) for m in split_gaussian(self._parameter, shares))

    def part(self, name: str, statistic: str) -> Part:
        """Describe what this was spent on."""
        return Part(name=name, statistic=statistic, event=self.event)

    def values(
        self, values: Array | Deferred, bounds: tuple[float, float], square: float = 1.0, *, flags: bool = False
    ) -> tuple[Noisy, Window | None]:
        """Perturb every value within bounds: by answers in windows, or by noise that is added and has no window.

        ``square`` is about the mean square of the values around the middle, as a share of that at the bounds; public or
        already private. With ``flags`` a pure epsilon buys answers at either bound: values are rounded to these.

        Guarantee: this spend, for neighbours that differ in one value (docs/guarantees.md#input).
        """
        self._spend_on("values")
        if isinstance(values, Deferred):
            return self._answer_elsewhere(values, bounds, square, flags=flags)
        if self.epsilon is None:
            return bounded_values_mechanism(values, bounds, self.source, mu=self._exact), None
        if self.epsilon < SMALLEST_WINDOWED:
            return bounded_values_mechanism(values, bounds, self.source, epsilon=self._exact), None
        return windowed_values_mechanism(values, bounds, self.source, epsilon=self._exact, square=square, flags=flags)

    def _answer_elsewhere(
        self, values: Deferred, bounds: tuple[float, float], square: float, *, flags: bool
    ) -> tuple[Noisy, Window | None]:
        """Perturb values where they are, by the same laws, with bits that follow from a key and the cell's number.

        The key is made here, goes to the tasks of this purchase, and is forgotten with it.
        """
        assert isinstance(self.source, KeySource)
        law: PlusNoise | InWindow
        if self.epsilon is None:
            law = PlusNoise.choose(bounds, mu=self._exact)
        elif self.epsilon < SMALLEST_WINDOWED:
            law = PlusNoise.choose(bounds, epsilon=self._exact)
        else:
            law = InWindow.choose(bounds, epsilon=self._exact, square=square, flags=flags)
        key = self.source.make_key(law.count_words(values.parts.n_entries))
        answers = values.parts.answer(law, values.expression, key)
        noisy = law.read(answers, secure=self.source.secure)
        return noisy, law.window if isinstance(law, InWindow) else None

    def sums(self, values: Array | Deferred, low: float, high: float, groups: Array | Beside, n_groups: int) -> Noisy:
        """Sum numbers between low and high by groups; what lies outside, or is no number, does not get its way.

        Guarantee: this spend, for neighbours that differ in one number; groups are public (docs/guarantees.md#sums).
        """
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        rows = each(partial(_make_rows, middle), values)
        noisy = self._sum(rows, None, there(groups), n_groups, longest=half, moves=2)
        total = noisy.values[:, 0] + middle * np.bincount(here(groups), minlength=n_groups)
        return replace(noisy, values=total)

    def linear(
        self, weights: Array | Beside, values: Array | Deferred, limit: float, groups: Array | Beside, n_groups: int
    ) -> Noisy:
        """Sum weights (n, d) times values by groups; weights must be public or already private.

        Guarantee: this spend, for neighbours that differ in one value between -limit and limit, which moves one row of
        the result; groups are public (docs/guarantees.md#linear).
        """
        lengths = np.einsum("np,np->n", here(weights), here(weights))
        longest = max(math.sqrt(float(np.max(lengths, initial=0.0))) * limit, 1e-12 * limit)
        return self._sum(there(weights), values, there(groups), n_groups, longest=longest, moves=2)

    def bounded_rows(self, rows: Array | Deferred, groups: Array | Deferred, n_groups: int, *, longest: float) -> Noisy:
        """Sum rows by groups; rows that are longer than ``longest`` are shortened. Both may be `Deferred`.

        Guarantee: this spend, for neighbours that add or remove one row (docs/guarantees.md#entry).
        """
        return self._sum(rows, None, groups, n_groups, longest=longest, moves=1)

    def counts(self, groups: Array | Deferred, n_groups: int) -> Noisy:
        """Count how many numbers fall into each group; the groups themselves are private.

        Guarantee: this spend, for neighbours that differ in one number, which moves two counts by one each
        (docs/guarantees.md#counts).
        """
        self._spend_on("counts")
        grid = Grid(math.ldexp(1.0, -self._fineness(2)))
        steps = int(grid.steps(1))
        if isinstance(groups, Deferred):
            counts = groups.parts.total(CountSums(groups=groups.expression, n_groups=n_groups))
        else:
            counts = np.bincount(groups, minlength=n_groups)[:n_groups].astype(np.int64)
        ints = counts * steps
        if self.epsilon is None:
            return gaussian_mechanism(ints, grid, sqrt_up(2) * steps, self._exact, self.source)
        return laplace_mechanism(ints, grid, 2 * steps, self._exact, self.source)

    def pair_products(self, values: Array | Deferred, limit: float, groups: Array | Beside, counts: Array) -> Noisy:
        """Sum the products of all pairs of values of a group, over its count less one; values lie within the limit.

        The result, over the number of entries in groups of two and more, is the variance of the groups' true means:
        what values of one group do not share is left out. Groups and counts are public.

        Guarantee: this spend, for neighbours that differ in one value (docs/guarantees.md#pair-products).
        """
        from tensorveil.kernels.bounding import add_pair_products, combine_pair_products

        self._spend_on("products of pairs")
        per_unit, most = _PRODUCT_STEPS / limit, _PRODUCT_STEPS + 2
        if isinstance(values, Deferred):
            sums, squares, _ = _gather_products(values, there(groups), len(counts), per_unit, most)
            total = combine_pair_products(sums, squares, counts, most)
        else:
            total = add_pair_products(np.asarray(values, dtype=np.float64), here(groups), counts, per_unit, most)
        sensitivity = Fraction(4 * most * most + 1)
        noisy = self._add(np.array([[total]], dtype=np.int64), Grid(1.0), sensitivity)
        return replace(noisy, values=noisy.values[:, 0] / per_unit**2, variance=noisy.variance / per_unit**4)

    def entry_products(self, values: Array | Deferred, limit: float, groups: Array | Deferred, n_groups: int) -> Noisy:
        """Sum the products of all pairs of values of a group, over its count less one; counts are private too.

        The result is about the variance of the groups' true means times the number of entries.

        Guarantee: this spend, for neighbours that add or remove one value, which belongs to one group
        (docs/guarantees.md#entry-products).
        """
        from tensorveil.kernels.bounding import add_entry_products, combine_entry_products

        self._spend_on("products of entries")
        per_unit, most = _PRODUCT_STEPS / limit, _PRODUCT_STEPS + 2
        if isinstance(values, Deferred):
            sums, squares, counts = _gather_products(values, groups, n_groups, per_unit, most)
            total = combine_entry_products(sums, squares, counts, most)
        else:
            assert not isinstance(groups, Deferred)
            total = add_entry_products(np.asarray(values, dtype=np.float64), groups, n_groups, per_unit, most)
        noisy = self._add(np.array([[total]], dtype=np.int64), Grid(1.0), Fraction(3 * most * most + 1))
        return replace(noisy, values=noisy.values[:, 0] / per_unit**2, variance=noisy.variance / per_unit**4)

    def _sum(
        self,
        rows: Array | Deferred,
        times: Array | Deferred | None,
        groups: Array | Deferred,
        n_groups: int,
        *,
        longest: float,
        moves: int,
    ) -> Noisy:
        """Sum rows, times numbers if there are any, each bounded to a length; a neighbour moves one by so many lengths.

        Lengths are measured in ``longest``, so that the grid is the same for bounds of any size. The kernel that sums
        checks the length of every row in integers, so the sensitivity is ``moves * limit`` whatever the rows hold.
        Entries that are elsewhere are summed there, part by part, to the same integers; noise comes after the total.
        """
        self._spend_on("a sum")
        width = rows.measure_width() if isinstance(rows, Deferred) else rows.shape[1]
        grid, limit = self._grid_of_rows(width, moves)
        sums = _add_rows(rows, times, groups, (n_groups, width), 1.0 / grid.step, limit, longest)
        noisy = self._add(sums, grid, Fraction(moves * limit))
        return replace(noisy, values=noisy.values * longest, variance=noisy.variance * longest**2)

    def _grid_of_rows(self, dimension: int, moves: int) -> tuple[Grid, int]:
        """Return the grid that rows are summed on, and how long one may be, in steps."""
        grid = Grid(math.ldexp(1.0, -self._fineness(moves)))
        return grid, math.ceil(grid.steps(1) + sqrt_up(dimension) / 2) + 2

    def _fineness(self, moves: int) -> int:
        """Return the number of halvings that put about 2**20 steps into the noise, as far as integers allow."""
        exponent = math.frexp(self._parameter / moves)[1] + FINENESS
        return min(max(exponent, 0), _FINEST)

    def _add(self, ints: Array, grid: Grid, sensitivity: Fraction) -> Noisy:
        """Add noise to statistics of which one row moves, by at most the sensitivity, in steps."""
        if self.epsilon is None:
            return gaussian_mechanism(ints, grid, sensitivity, self._exact, self.source)
        if 1 < ints.shape[1] <= _LARGEST_NORM_DIMENSION:
            return norm_mechanism(ints, grid, sensitivity, self._exact, self.source)
        return laplace_mechanism(ints, grid, sensitivity * sqrt_up(ints.shape[1]), self._exact, self.source)


def _make_rows(middle: float, values: Array) -> Array:
    """Return rows of one number: the distance from a middle."""
    rows: Array = (values - middle).reshape(-1, 1)
    return rows


def _add_rows(
    rows: Array | Deferred,
    times: Array | Deferred | None,
    groups: Array | Deferred,
    shape: tuple[int, int],
    per_unit: float,
    limit: int,
    longest: float,
) -> Array:
    """Return sums of bounded rows by group, here or part by part where the entries are."""
    from tensorveil.kernels.bounding import add_bounded_rows

    if isinstance(rows, Deferred):
        assert isinstance(groups, Deferred)
        by = times.expression if isinstance(times, Deferred) else None
        asked = RowSums(
            rows=rows.expression, groups=groups.expression, n_groups=shape[0], width=shape[1], per_unit=per_unit,
            limit=limit, longest=longest, times=by,
        )  # fmt: skip
        return rows.parts.total(asked).reshape(shape)
    assert not isinstance(times, Deferred)
    sums = np.zeros(shape, dtype=np.int64)
    numbers = (np.ones(len(rows)) if times is None else times) / longest
    add_bounded_rows(np.ascontiguousarray(rows, dtype=np.float64), numbers, np.asarray(groups), per_unit, limit, sums)
    return sums


def _gather_products(
    values: Deferred, groups: Array | Deferred, n_groups: int, per_unit: float, limit: int
) -> tuple[Array, Array, Array]:
    """Return sums, sums of squares and counts of numbers that are elsewhere, by group."""
    assert isinstance(groups, Deferred)
    asked = ProductSums(
        numbers=values.expression, groups=groups.expression, n_groups=n_groups, per_unit=per_unit, limit=limit
    )
    sums, squares, counts = values.parts.total(asked).reshape(3, n_groups)
    return sums, squares, counts
