"""Structural witnesses: values that come out too often, or that cannot come out at all, under one neighbour.

Continuous noise that sometimes leaves a number unchanged makes atoms; noise on a grid that starts at the data makes
outputs whose remainders reveal the data; floating-point noise makes low bits that depend on what it was added to
(Mironov 2012). Each is a code per output number whose frequencies are compared; as always, fresh draws must confirm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.scores import Frame, Score

Array = NDArray[Any]
Code = Callable[[Array], Array]

_COLUMNS = 64  # if there are more output numbers, those whose codes differ most are used
_SELDOM = 3  # a code that was seen less often is ignored
_SURPRISE = 4.0  # deviations by which a code must differ from its class
_COARSEST, _FINEST = 8, 48  # remainders are taken of steps from 2**-8 to 2**-48 of the outputs' spread


def structural_scores(first: Array, second: Array, kinds: Collection[str]) -> Iterator[Score]:
    """Yield scores for atoms, remainders ("support") and low bits, as far as requested."""
    for kind, name, code in _codes(first, second):
        if kind not in kinds:
            continue
        # Exponents belong to the law, so low bits are compared for each exponent separately.
        table = CodeRatios.of(first, second, code, _exponent if kind == "low bits" else None)
        if table.informative:
            yield Score(
                kind=kind, name=f"log ratio of the frequencies of {name}", function=table, explain=table.explain
            )


def finite_scores(first: Array, second: Array) -> Iterator[Score]:
    """Yield the count of output numbers that are not finite, if there are any."""
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        yield Score(
            kind="not finite",
            name="outputs that are infinite or not a number",
            raw=True,
            function=lambda y: np.count_nonzero(~np.isfinite(y), axis=1).astype(np.float64),
        )


def _codes(first: Array, second: Array) -> Iterator[tuple[str, str, Code]]:
    yield "atom", "single values", _bits
    yield "low bits", "lowest bits that are set", _trailing
    yield "low bits", "last four bits", _last_bits
    yield "support", "numbers of decimals", _decimals
    spread = float(np.median(Frame.of(first, second).spread))
    top = math.frexp(spread)[1]
    for exponent in range(top - _COARSEST, top - _FINEST, -4):
        yield "support", f"remainders modulo 2**{exponent}", _Remainder(exponent)


def _bits(values: Array) -> Array:
    # Minus zero prints as zero but has different bits.
    return np.ascontiguousarray(values + 0.0).view(np.int64)


def lowest_bit(values: Array) -> Array:
    """Return the exponent of the lowest bit that is set: the largest power of two that divides a number.

    >>> lowest_bit(np.array([1.0, 6.0, 0.75])).tolist()
    [0, 1, -2]
    """
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, 10_000, exponent.astype(np.int64) - 53 + lowest)


def _exponent(values: Array) -> Array:
    exponents: Array = np.frexp(values)[1].astype(np.int64)
    return exponents


def _trailing(values: Array) -> Array:
    """Return the exponent, and how far above the last place of its mantissa a number's lowest bit stands."""
    place: Array = np.minimum(lowest_bit(values) - _exponent(values) + 53, 63)
    return (_exponent(values) << 6) + place


def _last_bits(values: Array) -> Array:
    return (_exponent(values) << 4) | (_bits(values) & 15)


def _decimals(values: Array) -> Array:
    """Return the number of decimals needed to write a number, up to six; seven if more are needed."""
    found = np.full(values.shape, 7, dtype=np.int64)
    for decimals in range(6, -1, -1):
        found[np.round(values, decimals) == values] = decimals
    return found


class _Remainder:
    """The remainder modulo a power of two, in 64 cells and one for zero."""

    def __init__(self, exponent: int) -> None:
        self._exponent = exponent

    def __call__(self, values: Array) -> Array:
        scaled = np.ldexp(values, -self._exponent)
        part = scaled - np.floor(scaled)
        return np.where(part > 0, 1 + np.minimum((part * 64).astype(np.int64), 63), 0)


class CodeRatios:
    """Log ratios of the frequencies of codes under the neighbours, summed over the output numbers."""

    def __init__(self, code: Code, tables: list[tuple[int, Array, Array]]) -> None:
        self._code, self._tables = code, tables

    @property
    def informative(self) -> bool:
        """Tell whether any code is more frequent under one neighbour."""
        return bool(self._tables)

    @classmethod
    def of(cls, first: Array, second: Array, code: Code, within: Code | None = None) -> CodeRatios:
        """Learn the ratios of codes that were seen often enough; within each class of ``within``, if given."""
        found = []
        for column in range(first.shape[1]):
            numbers = [np.ascontiguousarray(sample[:, column]) for sample in (first, second)]
            codes = [code(values) for values in numbers]
            known, where = np.unique(np.concatenate(codes), return_inverse=True)
            counts = [
                np.bincount(part, minlength=len(known)) for part in (where[: len(codes[0])], where[len(codes[0]) :])
            ]
            often = counts[0] + counts[1] >= _SELDOM
            if not often.any():
                continue
            ratios = np.log((counts[0][often] + 0.5) / (counts[1][often] + 0.5))
            if within is not None:
                share = _shares_of_classes(numbers, within, where, len(known))[often]
                total = (counts[0] + counts[1])[often]
                surprise = np.abs(counts[0][often] - share * total) / np.sqrt(share * (1.0 - share) * total)
                # A code that is not surprising within its class says no more than the class, and counts as nothing.
                ratios = np.where(surprise > _SURPRISE, ratios - np.log(share / (1.0 - share)), 0.0)
            gain = float(np.abs(counts[0] - counts[1])[often].sum())
            found.append((gain, (column, known[often], ratios)))
        found.sort(key=lambda each: -each[0])
        return cls(code, [table for _, table in found[:_COLUMNS]])

    def explain(self, threshold: float) -> str:
        """Name some values that reach a threshold on their own."""
        if self._code is not _bits:
            return ""
        found = []
        for column, known, ratios in self._tables:
            for code in known[np.argsort(-ratios, kind="stable")][: int(np.count_nonzero(ratios >= threshold))]:
                found.append(f"output {column} is {code.view(np.float64):.6g}")
        return "; ".join(found[:3]) + ("; ..." if len(found) > 3 else "")

    def __call__(self, outputs: Array) -> Array:
        """Return the sum of the log ratios of an output's codes; unknown codes count as 0."""
        total = np.zeros(len(outputs))
        for column, known, ratios in self._tables:
            codes = self._code(np.ascontiguousarray(outputs[:, column]))
            at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            total += np.where(known[at] == codes, ratios[at], 0.0)
        return total


def _shares_of_classes(numbers: list[Array], within: Code, where: Array, codes: int) -> Array:
    """Return, for every code, the first neighbour's share of the numbers in the class that it belongs to."""
    known, which = np.unique(np.concatenate([within(values) for values in numbers]), return_inverse=True)
    cut = len(numbers[0])
    counts = [np.bincount(part, minlength=len(known)) for part in (which[:cut], which[cut:])]
    class_of = np.zeros(codes, dtype=np.int64)
    class_of[where] = which
    shares: Array = (counts[0] + 0.5) / (counts[0] + counts[1] + 1.0)
    return shares[class_of]
