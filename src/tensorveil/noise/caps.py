"""Random vectors conditioned on a cap around a unit vector, rounded to a grid, exactly: the draws behind PrivUnit.

On the sphere the law is uniform; the flat one is the standard Gaussian. The caller's coin decides whether a vector lies
in the cap <v, u> >= gamma or outside. Results are those of real arithmetic: where doubles do not settle how a
coordinate rounds, more bits of the same uniforms are drawn and the vector is enclosed in intervals
(docs/explanation/noise.md#caps).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise.gaussian import GaussianPair
from tensorveil.noise.interval import Arithmetic, Interval, negate
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import BLOCK, Uniform, blocks, certain_floor, settle

TRIALS: Final = 12  # heights tried per vector with words drawn in advance; more are drawn as needed
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Caps:
    """The law: height gamma of the cap (exactly this float, at least 0), sphere or flat, step of the grid."""

    gamma: float
    flat: bool
    step: float

    def draw(self, directions: Floats, inside: NDArray[np.bool_], source: NoiseSource) -> Ints:
        """Draw one vector per row of ``directions`` (unit vectors up to rounding), as integers in steps."""
        out = np.empty(directions.shape, dtype=np.int64)
        for part in blocks(len(directions), max(1, BLOCK // directions.shape[1])):
            self._draw_block(directions[part], inside[part], source, out[part])
        return out

    def _draw_block(self, u: Floats, inside: NDArray[np.bool_], source: NoiseSource, out: Ints) -> None:
        from tensorveil.kernels import sphere_draws

        d = u.shape[1]
        pending = np.arange(len(u))
        while len(pending):
            words = source.uniform64(len(pending) * 2 * ((d + 1) // 2)).reshape(len(pending), -1)
            trials = source.uniform64(len(pending) * 2 * TRIALS).reshape(len(pending), TRIALS, 2)
            drawn = np.empty((len(pending), d), dtype=np.int64)
            verdicts = np.empty(len(pending), dtype=np.int8)
            rows, coins = np.ascontiguousarray(u[pending]), inside[pending]
            sphere_draws.caps(words, trials, rows, coins, self.gamma, self.flat, self.step, drawn, verdicts)
            for i in np.flatnonzero(verdicts == sphere_draws.DOUBTFUL).tolist():
                found = settle_cap(words[i].tolist(), trials[i].tolist(), rows[i], bool(coins[i]), self, source)
                verdicts[i] = sphere_draws.AGAIN if found is None else sphere_draws.SETTLED
                drawn[i] = 0 if found is None else found
            settled = verdicts == sphere_draws.SETTLED
            out[pending[settled]] = drawn[settled]
            pending = pending[~settled]


class Heights:
    """Heights above gamma by rejection, from given words first; every uniform is known to any precision."""

    def __init__(self, words: list[list[int]], dimension: int, law: Caps, source: NoiseSource) -> None:
        self._words, self._dimension, self._law, self._source = list(words), dimension, law, source
        self._trial = self._next()

    def _next(self) -> tuple[Uniform, Uniform]:
        first, second = self._words.pop(0) if self._words else self._source.uniform64(2).tolist()
        return Uniform(first >> 1, 63, self._source), Uniform(second, 64, self._source)

    def accept(self, numbers: Arithmetic) -> tuple[Interval, Interval] | None:
        """Enclose the accepted height and the radius that goes with it, or return None if more digits are needed."""
        gamma = numbers.number(Fraction(self._law.gamma))
        while True:
            uniform, coin = self._trial
            a, b = self._pair(numbers.ln(uniform.interval(numbers)), numbers)
            reach = numbers.multiply(coin.interval(numbers), a)
            if reach.hi <= gamma.lo:
                return a, b
            if not reach.lo >= gamma.hi:
                return None
            self._trial = self._next()

    def _pair(self, log: Interval, numbers: Arithmetic) -> tuple[Interval, Interval]:
        square = Fraction(self._law.gamma) ** 2
        if self._law.flat:
            inner = numbers.add(numbers.number(square), numbers.multiply(numbers.number(-2), log))
            return numbers.sqrt(inner), numbers.number(0)
        power = numbers.exp(numbers.multiply(numbers.number(Fraction(2, self._dimension - 1)), log))
        part = numbers.multiply(numbers.number(1 - square), power)
        return numbers.sqrt(numbers.subtract(numbers.number(1), part)), numbers.sqrt(part)


def settle_cap(
    words: list[int], trials: list[list[int]], row: Floats, inside: bool, law: Caps, source: NoiseSource
) -> list[int] | None:
    """Return the vector that begins with these words, drawing more bits as needed; None if it is rejected."""
    d = len(row)
    pairs = [GaussianPair(words[2 * k], words[2 * k + 1], source) for k in range((d + 1) // 2)]
    exact = [Fraction(float(x)) for x in row]
    heights = Heights(trials, d, law, source) if inside and law.gamma > 0 else None

    def attempt(numbers: Arithmetic) -> list[int] | None:
        g = [z for pair in pairs for z in pair.intervals(numbers)][:d]
        length = numbers.sqrt(numbers.number(sum(x * x for x in exact)))
        u = [numbers.divide(numbers.number(x), length) for x in exact]
        s = _dot(g, u, numbers)
        if heights is not None:
            pair = heights.accept(numbers)
            vector = None if pair is None else _raise_height(g, u, s, pair, law, numbers)
        else:
            vector = _side(g, s, inside, law, numbers)
        if not vector:
            return None if vector is None else []
        half, steps = numbers.number(Fraction(1, 2)), numbers.number(1 / Fraction(law.step))
        floors = [certain_floor(numbers.add(numbers.multiply(steps, y), half)) for y in vector]
        return None if any(z is None for z in floors) else [z for z in floors if z is not None]

    return settle(attempt) or None


def _dot(g: list[Interval], u: list[Interval], numbers: Arithmetic) -> Interval:
    return reduce(numbers.add, [numbers.multiply(x, y) for x, y in zip(g, u, strict=True)])


def _scale(g: list[Interval], size: Interval, numbers: Arithmetic) -> list[Interval] | None:
    """Enclose g / size, or return None if the size is not known to differ from 0."""
    return None if size.lo <= Decimal(0) else [numbers.divide(z, size) for z in g]


def _side(g: list[Interval], s: Interval, inside: bool, law: Caps, numbers: Arithmetic) -> list[Interval] | None:
    """Enclose g, or its direction, on the wanted side of the cap's edge; an empty list if it lies on the other."""
    one = numbers.number(1)
    size = one if law.flat else numbers.sqrt(_dot(g, g, numbers))
    edge = numbers.multiply(numbers.number(Fraction(law.gamma)), size)
    above, below = s.lo >= edge.hi, s.hi <= edge.lo
    if not (above or below):
        return None
    if law.gamma == 0:
        turned = g if above == inside else [negate(z) for z in g]
        return _scale(turned, size, numbers)
    return [] if above else _scale(g, size, numbers)


def _raise_height(
    g: list[Interval], u: list[Interval], s: Interval, pair: tuple[Interval, Interval], law: Caps, numbers: Arithmetic
) -> list[Interval] | None:
    """Enclose the vector with its height along u replaced."""
    a, b = pair
    rest = [numbers.subtract(z, numbers.multiply(s, x)) for z, x in zip(g, u, strict=True)]
    if not law.flat:
        # Squares of an interval that contains 0 may come out below 0; the square root clips them.
        scaled = _scale(rest, numbers.sqrt(_dot(rest, rest, numbers)), numbers)
        if scaled is None:
            return None
        rest = [numbers.multiply(b, z) for z in scaled]
    return [numbers.add(numbers.multiply(a, x), z) for x, z in zip(u, rest, strict=True)]
