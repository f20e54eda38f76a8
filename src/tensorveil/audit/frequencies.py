"""How often codes of outputs occur under each neighbour, and which of them differ by more than chance.

Noise on a grid takes thousands of values, most of which are seen a few times. Their raw frequency ratios are chance,
and would rank above the ratio of a true atom, so a code is ranked by a lower confidence bound of its ratio. These
bounds only decide which events are chosen; the events are confirmed by exact bounds, on other draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim, lower_rate, upper_rate

Array = NDArray[Any]

_COLUMNS = 64  # of many columns, those whose codes differ most
_SELDOM = 3  # a code that was seen less often is ignored
_SURPRISE = 4.0  # deviations by which a code must differ from its class
_CAUTION = 2.0  # deviations by which log ratios are moved towards 0
_LEFTOVER = 1e-3  # the weight of a raw log ratio beside its bound, which breaks ties
_FIRM = 0.05  # a log ratio above this is more than a tie-breaker
_EXCESS = 1.0  # deviations by which the chi-square of a column must exceed its expectation
_SINGLES = 2  # codes that become events of their own
_CANDIDATES = 32  # codes from which those are chosen, by the level that they promise
_DOUBT = 0.02  # rates are bounded at this error where codes are compared
_BLOCK = 1 << 20  # numbers that are coded at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Code:
    """An integer for each number of a column: ``function``, elementwise.

    Frequencies are compared within classes of codes that are equal but for their last ``class_bits``. ``raw`` codes see
    infinities and NaNs unchanged. ``word`` says what a code means, after the name of a column.
    """

    kind: str
    name: str
    function: Callable[[Array], Array]
    word: Callable[[int], str]
    class_bits: int = 0
    raw: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class _Column:
    """The codes of a column that are not rare, how often they were seen, and their cautious log ratios."""

    index: int
    known: Array
    counts: tuple[Array, Array]
    ratios: Array

    @property
    def strongest(self) -> float:
        """The largest log ratio, either way."""
        return float(np.abs(self.ratios).max())

    @property
    def excess(self) -> float:
        """By how many deviations the counts differ in all (chi-square)."""
        one, other = self.counts
        square = float((np.square(one - other) / (one + other)).sum())
        return (square - len(one)) / float(np.sqrt(2 * len(one)))


class CodeRatios:
    """Log ratios of how often codes occur under the neighbours, added up over the columns."""

    def __init__(self, code: Code, columns: list[_Column], single: list[tuple[int, int]]) -> None:
        self._code, self._columns, self._single = code, columns, single

    @property
    def width(self) -> int:
        """How many columns are looked at."""
        return len(self._columns)

    @classmethod
    def of(cls, first: Array, second: Array, code: Code, claim: Claim) -> CodeRatios:
        """Learn the ratios from two samples, columns as rows (d, n), and the codes that show most of a claim."""
        found = list(_count_codes(first, second, code))
        single = _choose_single(found, (first.shape[1], second.shape[1]), claim)
        # Half of the columns for a code that stands out, half for all codes together.
        strong = sorted(found, key=lambda column: -column.strongest)[: _COLUMNS // 2]
        chosen = [column for column in strong if column.strongest > _FIRM]
        others = sorted(set(found) - set(chosen), key=lambda column: (-column.excess, column.index))
        chosen += [column for column in others[: _COLUMNS - len(chosen)] if column.excess > _EXCESS]
        return cls(code, chosen, single)

    def keep_strongest(self) -> CodeRatios:
        """Return the ratios of the column that has the strongest code, alone."""
        return CodeRatios(self._code, self._columns[:1], [])

    def list_single_codes(self) -> Iterator[tuple[int, str, Callable[[Array], Array]]]:
        """Yield the codes that show most by themselves: column, what the code means, and 1 where it occurs, else 0."""
        for index, value in self._single:

            def occurs(outputs: Array, index: int = index, value: int = value) -> Array:
                found: Array = self._code.function(np.ascontiguousarray(outputs[:, index])) == value
                return found.astype(np.float64)

            yield index, self._code.word(value), occurs

    def explain(self, threshold: float, label: Callable[[int], str]) -> str:
        """Name some codes that alone reach a threshold."""
        found = []
        for column in self._columns:
            order = np.argsort(-column.ratios, kind="stable")[: int(np.count_nonzero(column.ratios >= threshold))]
            found += [f"{label(column.index)} {self._code.word(int(column.known[at]))}" for at in order[:4]]
            if len(found) > 3:
                break
        return "; ".join(found[:3]) + ("; ..." if len(found) > 3 else "")

    def __call__(self, outputs: Array) -> Array:
        """Return the sum of the log ratios of an output's codes; unknown codes count as 0."""
        total = np.zeros(len(outputs))
        for column in self._columns:
            codes = self._code.function(np.ascontiguousarray(outputs[:, column.index]))
            at = np.minimum(np.searchsorted(column.known, codes), len(column.known) - 1)
            total += np.where(column.known[at] == codes, column.ratios[at], 0.0)
        return total


def _count_codes(first: Array, second: Array, code: Code) -> Iterator[_Column]:
    """Yield the columns that have codes which were seen more than now and then."""
    step = max(_BLOCK // max(first.shape[1], 1), 1)
    for start in range(0, len(first), step):
        blocks = [np.sort(code.function(sample[start : start + step]), axis=1) for sample in (first, second)]
        for offset, (one, other) in enumerate(zip(*blocks, strict=True)):
            column = _count_column(start + offset, one, other, code.class_bits)
            if column is not None:
                yield column


def _count_column(index: int, one: Array, other: Array, class_bits: int) -> _Column | None:
    """Compare the frequencies of the codes of a column; codes come sorted."""
    both = np.sort(np.concatenate([one, other]))
    if not (both[_SELDOM - 1 :] == both[: len(both) - _SELDOM + 1]).any():
        return None
    starts = np.flatnonzero(np.concatenate([[True], both[1:] != both[:-1]]))
    total = np.diff(np.concatenate([starts, [len(both)]]))
    often = total >= _SELDOM
    known, total = both[starts[often]], total[often]
    here = np.searchsorted(one, known, "right") - np.searchsorted(one, known, "left")
    ratios = _bound_ratios(here, total - here, _find_class_odds(one, other, known, class_bits) if class_bits else None)
    return _Column(index=index, known=known, counts=(here, total - here), ratios=ratios)


def _bound_ratios(here: Array, there: Array, odds: Array | None) -> Array:
    """Return log ratios of counts, nearer to 0 by some deviations; relative to the odds of their classes, if given."""
    ratios = np.log((here + 0.5) / (there + 0.5))
    if odds is not None:
        share, total = odds / (1.0 + odds), here + there
        surprise = np.abs(here - share * total) / np.sqrt(share * (1.0 - share) * total)
        # What is no surprise within its class is a matter of the class, and counts for nothing.
        ratios = np.where(surprise > _SURPRISE, ratios - np.log(odds), 0.0)
    doubt = _CAUTION * np.sqrt(1.0 / (here + 0.5) + 1.0 / (there + 0.5))
    firm = np.sign(ratios) * np.maximum(np.abs(ratios) - doubt, 0.0)
    return np.asarray(firm + _LEFTOVER * ratios)


def _find_class_odds(one: Array, other: Array, known: Array, class_bits: int) -> Array:
    """Return, for every code, the ratio of how often its class was seen."""
    classes = known >> class_bits
    seen = []
    for codes in (one, other):
        shifted = codes >> class_bits
        seen.append(np.searchsorted(shifted, classes, "right") - np.searchsorted(shifted, classes, "left"))
    return np.asarray((seen[0] + 0.5) / (seen[1] + 0.5))


def _find_largest(values: Array, count: int) -> list[int]:
    if count == 1:
        return [int(values.argmax())]
    return [int(at) for at in (np.argpartition(-values, count)[:count] if len(values) > count else range(len(values)))]


def _choose_single(columns: list[_Column], sizes: tuple[int, int], claim: Claim) -> list[tuple[int, int]]:
    """Return the codes, with their columns, that show most of a claim by themselves."""
    if not columns:
        return []
    each = max(2 * _CANDIDATES // len(columns), 1)
    picked: list[tuple[int, int, int, int, float, float]] = []
    for column in columns:
        here, there = column.counts
        evidence = np.abs(here - there) / np.sqrt(here + there)
        strength = np.abs(column.ratios)
        for at in {*_find_largest(strength, each), *_find_largest(evidence, each)}:
            counts = int(here[at]), int(there[at])
            picked.append((column.index, int(column.known[at]), *counts, float(strength[at]), float(evidence[at])))
    kept = {item for place in (4, 5) for item in sorted(picked, key=itemgetter(place), reverse=True)[:_CANDIDATES]}
    shortlist = sorted(kept)
    seen = [np.array([item[place] for item in shortlist]) for place in (2, 3)]
    promise = np.zeros(len(shortlist))
    for likely, unlikely in ((0, 1), (1, 0)):
        at_least = lower_rate(seen[likely], sizes[likely], _DOUBT)
        at_most = upper_rate(seen[unlikely], sizes[unlikely], _DOUBT)
        promise = np.maximum(promise, claim.least(at_least, at_most))
    order = np.argsort(-promise, kind="stable")[:_SINGLES]
    return [shortlist[at][:2] for at in order.tolist() if shortlist[at][4] > _FIRM]
