"""DTLDP: keep an entry's grid point, or add discrete Laplace noise to it, with an exact epsilon.

With N steps in the bounds, noise scale b in steps, a = e^(-1/b), q = (1 - a) / (1 + a) and chance p to keep, an entry's
epsilon is N/b + ln(1 + p / ((1 - p) q)) if answers may lie anywhere; clamped to the bounds, it is the larger of
N/b + ln(1 + p (1 + a) / (1 - p)) and (N - 1)/b + ln(1 + p / ((1 - p) q)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tensorveil.errors import InputError
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.entrywise import Entrywise
from tensorveil.local.laws import Answers, Array
from tensorveil.local.requirements import Requirements
from tensorveil.noise import discrete_laplace_variance
from tensorveil.noise.dyadic import WORDS, chance_below, exp_at_least, exp_at_most
from tensorveil.noise.responses import KeepOrLaplace, chances

GRIDS = (5, 17, 65, 257, 1025)  # numbers of points that `choose` compares: no closed form gives the best
LARGEST_TABLE = 1025  # points of a clamped grid: its decoding solves a system of this size


def dtldp_epsilon(last: int, scale: float, keep: float, *, clamp: bool) -> float:
    """Return an entry's exact epsilon, to double precision: N steps, noise scale in steps, chance to keep.

    >>> from tensorveil.local.dtldp import dtldp_epsilon
    >>> round(dtldp_epsilon(3, 1.5, 0.0, clamp=False), 12)
    2.0
    """
    a = math.exp(-1 / scale)
    odds = keep / (1 - keep)
    peak = math.log1p(odds * (1 + a) / (1 - a))
    if not clamp:
        return last / scale + peak
    return max(last / scale + math.log1p(odds * (1 + a)), (last - 1) / scale + peak)


def keep_odds(epsilon: Fraction, noise: Fraction, last: int, *, clamp: bool) -> Fraction:
    """Return odds p / (1 - p) that epsilon allows beside noise of scale last / noise, rounded down."""
    a = exp_at_least(-noise / last)
    q = (1 - a) / (1 + a)
    if not clamp:
        return max(Fraction(0), q * (exp_at_most(epsilon - noise) - 1))
    ends = (exp_at_most(epsilon - noise) - 1) / (1 + a)
    return max(Fraction(0), min(ends, q * (exp_at_most(epsilon - noise + noise / last) - 1)))


def best_noise(epsilon: float, last: int, *, clamp: bool) -> float:
    """Return the part of epsilon for the noise that leaves the least variance; all of it unless epsilon is large."""
    shares = np.linspace(0.002, 1, 500)
    for _ in range(3):
        best = float(shares[np.argmin(_variances(epsilon, epsilon * shares, last, clamp))])
        gap = float(np.max(np.diff(shares)))
        shares = np.clip(np.linspace(best - gap, best + gap, 41), 1e-6, 1)
    return epsilon * best


def _variances(epsilon: float, noise: Array, last: int, clamp: bool) -> Array:
    rate = noise / last
    a, q = np.exp(-rate), np.tanh(rate / 2)
    spare = np.expm1(epsilon - noise)
    odds = np.minimum(spare / (1 + a), q * np.expm1(epsilon - noise + rate)) if clamp else q * spare
    out: Array = 2 * a / np.expm1(-rate) ** 2 / (1 + np.maximum(odds, 0.0))
    return out


@dataclass(frozen=True)
class KeepLaw:
    """Noise scale in steps, chance over 2**64 to keep, and for clamped answers the last index."""

    last: int
    scale: Fraction
    chance: int
    clamp: bool

    def variance(self, places: Array) -> Array:
        """Return the variance of a decoded answer at centred grid points."""
        if not self.clamp:
            noisy = (WORDS - self.chance) / WORDS
            return np.full(np.shape(places), noisy * discrete_laplace_variance(self.scale))
        index = np.rint(np.asarray(places) + 0.5 * self.last).astype(np.int64)
        out: Array = self.table[1][np.clip(index, 0, self.last)]
        return out

    @cached_property
    def table(self) -> tuple[Array, Array]:
        """The unbiased decoding of clamped answers, and its variance, by index."""
        matrix = clamped_matrix(self.last, float(self.scale), self.chance / WORDS)
        places = np.arange(self.last + 1) - 0.5 * self.last
        decoded = np.linalg.solve(matrix, places)
        return decoded, matrix @ decoded**2 - places**2


def clamped_matrix(last: int, scale: float, keep: float) -> Array:
    """Return the chances of all clamped answers (columns) for all inputs (rows)."""
    a = math.exp(-1 / scale)
    index = np.arange(last + 1)
    noise = (1 - a) / (1 + a) * a ** np.abs(index[:, None] - index[None, :])
    noise[:, 0] = a**index / (1 + a)
    noise[:, -1] = a ** (last - index) / (1 + a)
    out: Array = (1 - keep) * noise + keep * np.eye(last + 1)
    return out


@dataclass(frozen=True, kw_only=True, eq=False)
class DTLDP(Entrywise):
    """Keep each entry's grid point with some chance, else add discrete Laplace noise to it.

    The sound form of TLDP (Yuan et al.): on a public grid the kept value is one of the answers that noise can give too,
    so that keeping it costs a computable epsilon. Keeping pays only for large epsilon; where it does not, the chance is
    0 and what is left is discrete Laplace noise. The other parameters are those of `Entrywise`.

    Parameters
    ----------
    points
        Grid points in the bounds: 257 by default; use 256 for bytes.
    weights
        Public weights in [0, 1]: an entry's epsilon is proportional to 1 - weight.
    noise_share
        The part of an entry's epsilon that the noise takes; by default the one of least variance.
    clamp
        Whether to answer only with points within the bounds; decoding stays unbiased.

    Guarantee: epsilon for the unit, exactly (docs/guarantees.md#dtldp).

    >>> from tensorveil.local import DTLDP
    >>> images = DTLDP(shape=(28, 28), epsilon=1.0, unit="local entry", bounds=(0, 255), points=256)
    >>> round(images.worst_mse / images.size / 255**2, 2)
    2.0
    """

    noise_share: float | None = None
    clamp: bool = False
    command: ClassVar[str] = "dtldp"
    label: ClassVar[str] = "DTLDP (kept or discrete Laplace, on a grid)"
    proof: ClassVar[str] = "docs/guarantees.md#dtldp"

    def __post_init__(self) -> None:
        if self.noise_share is not None and not 0 < float(self.noise_share) <= 1:
            raise InputError(f"noise_share must be above 0 and at most 1; got {self.noise_share}. Try noise_share=0.9.")
        if not isinstance(self.clamp, bool):
            raise InputError("clamp must be True or False.")
        super().__post_init__()
        if self.clamp and not 3 <= self.last + 1 <= LARGEST_TABLE:
            raise InputError(f"clamp needs points between 3 and {LARGEST_TABLE}. For two, try RandomizedResponse.")

    @classmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return the mechanism on several grids."""
        settings = cls._choice_settings(required)
        return [cls(**settings, points=points) for points in GRIDS]

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return one for whole tensors and one for single entries; some that keep, clamp, or weigh entries."""
        settings: dict[str, Any] = {"epsilon": epsilon, "unit": "tensor", "bounds": (-1.0, 1.0)}
        return {
            "DTLDP": cls(shape=(2,), points=4, **settings),
            "DTLDP, entry": cls(shape=(1,), points=256, **(settings | {"unit": "local entry"})),
            "DTLDP, keeping": cls(shape=(1,), points=4, noise_share=0.5, **settings),
            "DTLDP, clamped": cls(shape=(2,), points=5, clamp=True, noise_share=0.6, **settings),
            "DTLDP, public weights": cls(shape=(3,), points=16, weights=[0.0, 0.5, 1.0], **settings),
        }

    def neighbours(self) -> Iterator[tuple[Array, Array]]:
        """Yield opposite ends; and for clamped answers one end against the last point but one, which is worse."""
        yield from super().neighbours()
        if self.clamp:
            yield self._extreme_tensor(-1.0), self._extreme_tensor(1.0) - self.step

    def _law(self, epsilon: Fraction) -> KeepLaw:
        if self.noise_share is None:
            best = best_noise(float(epsilon), self.last, clamp=self.clamp)
            noise = min(epsilon, Fraction(best)) if best < float(epsilon) * (1 - 1e-9) else epsilon
        else:
            noise = epsilon * Fraction(float(self.noise_share))
        odds = keep_odds(epsilon, noise, self.last, clamp=self.clamp)
        chance = chance_below(lambda numbers: numbers.number(odds / (1 + odds)))
        return KeepLaw(self.last, self.last / noise, chance, self.clamp)

    @property
    def exact_epsilon(self) -> float:
        """The epsilon of the chances and scales in use, by the formulas, to double precision: at most epsilon."""
        laws, which = self._laws
        parts = [dtldp_epsilon(law.last, float(law.scale), law.chance / WORDS, clamp=law.clamp) for law in laws]
        by_entry = np.array([*parts, 0.0])[which]
        return float(np.sort(by_entry)[::-1][: self.most_differing].sum())

    def _answers(self, laws: tuple[KeepLaw, ...]) -> Answers:
        sampler = KeepOrLaplace(chances=chances([law.chance for law in laws]), scales=tuple(law.scale for law in laws))
        return ClampedAnswers(answers=sampler, last=self.last) if self.clamp else sampler

    def _decode_places(self, codes: Array, column: Array, laws: tuple[KeepLaw, ...]) -> Array:
        if self.clamp:
            tables = np.stack([law.table[0] for law in laws])
            clamped: Array = tables[column, codes]
            return clamped
        out: Array = codes - 0.5 * self.last
        return out

    def _suspects(self) -> Array:
        if not self.clamp:
            return super()._suspects()
        return np.linspace(-0.5 * self.last, 0.5 * self.last, 16 * self.last + 1)

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data."""
        return super().settings() | {"noise_share": self.noise_share, "clamp": self.clamp}


@dataclass(frozen=True, kw_only=True, eq=False)
class ClampedAnswers:
    """Answers moved to the nearest point of the grid: post-processing."""

    answers: Any
    last: int

    def draw(self, index: Array, column: Array, source: Any) -> Array:
        """Answer once per index."""
        out: Array = np.clip(self.answers.draw(index, column, source), 0, self.last)
        return out
