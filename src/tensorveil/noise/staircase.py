"""Staircase noise on the integers (Geng and Viswanath, The optimal mechanism in differential privacy, 2016).

Magnitudes m = last * block + place: the block is geometric with ratio b = exp(-epsilon); the place is uniform on the
tread 0 .. tread - 1 with chance c, else uniform on tread .. last - 1. The sign is fair, and minus zero is rejected, so
P(m) is the same for m and -m. docs/explanation/noise.md#staircase has the proof that any c between tread / last and
tread / (tread + b (last - tread)) is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise.basic import uniform_below
from tensorveil.noise.dyadic import WORDS, chance_below, exp_at_least
from tensorveil.noise.interval import Arithmetic
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import Uniform, certain_floor, settle

Ints = NDArray[np.int64]
LARGEST_WORD = WORDS - 1


@dataclass(frozen=True, kw_only=True)
class Stairs:
    """The noise for one epsilon: sensitivity ``last`` in steps, first tread ``tread``, its chance over 2**64."""

    last: int
    epsilon: Fraction
    tread: int
    chance: int

    @property
    def variance(self) -> float:
        """The variance of the noise, in squared steps."""
        b = math.exp(-float(self.epsilon))
        share = self.chance / WORDS if self.tread < self.last else 1.0
        return float(stairs_variance(self.last, b, np.array([float(self.tread)]), np.array([share]))[0])


def stairs_variance(
    last: int, b: float, treads: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return variances for several first treads: E m**2, over the probability that minus zero was not drawn."""
    rest = np.maximum(last - treads, 1.0)
    mean_low, mean_high = (treads - 1) / 2, treads + (rest - 1) / 2
    square_low = (treads - 1) * (2 * treads - 1) / 6
    square_high = treads**2 + treads * (rest - 1) + (rest - 1) * (2 * rest - 1) / 6
    high = 1 - shares
    place = shares * mean_low + high * mean_high
    square = shares * square_low + high * square_high
    gap = -math.expm1(math.log(b)) if b > 0 else 1.0  # 1 - b
    blocks, blocks_square = b / gap, b * (1 + b) / gap**2
    second = last**2 * blocks_square + 2 * last * blocks * place + square
    zero = gap * shares / treads
    out: NDArray[np.float64] = second / (1 - zero / 2)
    return out


def best_stairs(epsilon: Fraction, last: int) -> Stairs:
    """Return the noise of least variance for an integer statistic that moves by at most ``last``."""
    b = math.exp(-float(epsilon))
    treads = np.arange(1.0, last + 1)
    tread = int(treads[np.argmin(stairs_variance(last, b, treads, treads / (treads + b * (last - treads))))])
    ratio = exp_at_least(-epsilon)  # at least b, so that the chance is not above tread / (tread + b (last - tread))
    exact = Fraction(tread) / (tread + ratio * (last - tread))
    chance = chance_below(lambda numbers: numbers.number(exact))
    # Rounding must not push the chance below tread / last, where the second tread would be the higher one.
    return Stairs(last=last, epsilon=epsilon, tread=tread, chance=max(chance, -(-tread * WORDS // last) % WORDS))


@dataclass(frozen=True, kw_only=True, eq=False)
class StaircaseSampler:
    """Answer the index plus staircase noise; one `Stairs` per column, all for the same number of steps."""

    stairs: tuple[Stairs, ...]

    @cached_property
    def _columns(self) -> tuple[Ints, NDArray[np.uint64], NDArray[np.uint64], NDArray[np.float64]]:
        """Treads, quotients for uniform places on either tread, chances and scales, by column."""
        last, limit = self.stairs[0].last, np.uint64(LARGEST_WORD)
        treads = np.array([each.tread for each in self.stairs], dtype=np.int64)
        rests = np.maximum(last - treads, 1).astype(np.uint64)
        quotients = np.stack([limit // treads.astype(np.uint64), limit // rests], axis=1)
        # A tread as wide as the block has no rest: then every word but the largest is below the chance.
        numerators = [each.chance if each.tread < last else LARGEST_WORD for each in self.stairs]
        scales = np.array([1 / float(each.epsilon) for each in self.stairs])
        return treads, quotients, np.array(numerators, dtype=np.uint64), scales

    def draw(self, index: Ints, column: Ints, source: NoiseSource) -> Ints:
        """Answer once per index."""
        from tensorveil.kernels import local_draws

        last = self.stairs[0].last
        treads, quotients, shares, scales = self._columns
        out = np.empty(len(index), dtype=np.int64)
        pending = np.arange(len(index))
        while len(pending):
            words = source.uniform64(3 * len(pending)).reshape(-1, 3)
            drawn, verdicts = np.empty(len(pending), dtype=np.int64), np.empty(len(pending), dtype=np.int8)
            places, columns = index[pending], column[pending]
            left = local_draws.staircase(
                places, columns, words, last, scales, shares, treads, quotients, verdicts, drawn
            )
            if left:
                for i in np.flatnonzero(verdicts == local_draws.DOUBTFUL).tolist():
                    noise = settle_stairs(words[i].tolist(), self.stairs[columns[i]], source)
                    verdicts[i] = local_draws.AGAIN if noise is None else local_draws.SETTLED
                    drawn[i] = places[i] + (noise or 0)
            settled = verdicts == local_draws.SETTLED
            out[pending[settled]] = drawn[settled]
            pending = pending[~settled]
        return out


def settle_stairs(words: list[int], stairs: Stairs, source: NoiseSource) -> int | None:
    """Return the noise that begins with these words, drawing more bits as needed; None for minus zero."""
    uniform = Uniform(words[0] >> 1, 63, source)

    def attempt(numbers: Arithmetic) -> int | None:
        log = numbers.ln(uniform.interval(numbers))
        return certain_floor(numbers.multiply(numbers.number(-1 / stairs.epsilon), log))

    block = settle(attempt)
    first = stairs.tread == stairs.last or words[1] < stairs.chance
    bound = stairs.tread if first else stairs.last - stairs.tread
    place = words[2] // (LARGEST_WORD // bound)
    if place >= bound:
        place = int(uniform_below(bound, 1, source)[0])
    size = stairs.last * block + place + (0 if first else stairs.tread)
    if words[0] & 1:
        return -size if size else None
    return size
