"""Structural witnesses: values that come out too often, or that cannot come out at all, under one neighbour.

Continuous noise that sometimes leaves a number unchanged makes atoms; noise on a grid that starts at the data makes
outputs whose remainders reveal the data; floating-point noise makes low bits that depend on what it was added to
(Mironov 2012). Each is a code per output number, or per number derived from several, whose frequencies are compared; as
always, fresh draws must confirm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.audit.frequencies import Code, CodeRatios
from tensorveil.audit.patterns import DISTANCES, OUTPUTS, REPEATS, SIDES, SUM, View, make_views
from tensorveil.audit.scores import Frame, Score, replace_infinities

Array = NDArray[Any]

_COARSEST, _FINEST = 8, 48  # remainders are taken of steps from 2**-8 to 2**-48 of the outputs' spread
_CELLS = (6, 10, 14, 18)  # narrow cells are 2**-6 to 2**-18 of the spread wide
_EXACT = 20  # distances of outputs are compared to 2**-20 of their spread: their last bits are rounding errors
_MODULI = (16, 12, 10, 7)  # each of 2 to 8 divides one of these
_ROUGHLY = 256  # draws that tell a spread well enough
_FINEST_GRID = 40  # numbers on a grid of steps below 2**-40 of their spread are taken for floating-point numbers


def structural_scores(first: Array, second: Array, kinds: Collection[str], claim: Claim) -> Iterator[Score]:
    """Yield scores for narrow cells, atoms, remainders ("support") and low bits, as far as requested."""
    for view in make_views(first, second):
        raw = [np.ascontiguousarray(view(sample).T) for sample in (first, second)]
        clean = [replace_infinities(columns) for columns in raw]
        for code in _list_codes(view, clean[0], clean[1]):
            if code.kind in kinds:
                one, other = raw if code.raw else clean
                yield from _make_scores(view, code, CodeRatios.of(one, other, code, claim))


def _make_scores(view: View, code: Code, table: CodeRatios) -> Iterator[Score]:
    """Yield the sum of log ratios, that of the strongest column alone, and the strongest codes by themselves."""
    name = f"log ratio of the frequencies of {code.name}" + ("" if view.name == OUTPUTS else f" of {view.name}")
    for ratios in (table, table.keep_strongest())[: table.width]:
        yield Score(
            kind=code.kind,
            name=name,
            function=partial(_apply, ratios, view, code.raw),
            raw=True,
            explain=partial(ratios.explain, label=view.label),
        )
    for index, word, occurs in table.list_single_codes():
        function = partial(_apply, occurs, view, code.raw)
        yield Score(kind=code.kind, name=f"{view.label(index)} {word}", function=function, raw=True, indicator=True)


def _apply(function: Callable[[Array], Array], view: View, raw: bool, outputs: Array) -> Array:
    columns = view(outputs)
    return function(columns if raw else replace_infinities(columns))


def finite_scores(first: Array, second: Array) -> Iterator[Score]:
    """Yield the count of output numbers that are not finite, if there are any."""
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        yield Score(
            kind="not finite",
            name="outputs that are infinite or not a number",
            raw=True,
            function=lambda y: np.count_nonzero(~np.isfinite(y), axis=1).astype(np.float64),
        )


def _list_codes(view: View, first: Array, second: Array) -> Iterator[Code]:
    """Yield what a view's columns are looked at for."""
    if view.name in (SIDES, REPEATS):
        kind = "law" if view.name == SIDES else "atom"
        yield Code(kind=kind, name="values", function=lambda values: values, word=lambda code: f"is {code}")
        return
    few = [columns[:, :_ROUGHLY].T for columns in (first, second)]
    top = math.frexp(float(np.median(Frame.of(few[0], few[1]).spread)))[1]
    if view.name == DISTANCES:
        yield _make_rounding("atom", top - _EXACT)
        return
    yield Code(kind="atom", name="single values", function=_bits, word=_value, raw=True)
    grid = min(_find_grid(columns) for columns in (first, second))
    if top - _FINEST_GRID <= grid < top:
        for modulus in _MODULI:
            yield _make_residue(grid, modulus)
    if view.name == SUM:
        return
    yield _make_code("low bits", "lowest bits that are set", _trailing, class_bits=6)
    yield _make_code("low bits", "last four bits", _last_bits, class_bits=4)
    yield _make_code("support", "numbers of decimals", _decimals)
    for exponent in range(top - _COARSEST, top - _FINEST, -4):
        if grid < exponent:  # else nothing is left
            yield _make_code("support", f"remainders modulo 2**{exponent}", _Remainder(exponent))
    for fineness in _CELLS:
        if grid < top - fineness:  # else cells are single values
            yield _make_rounding("law", top - fineness)


def _find_grid(columns: Array) -> int:
    """Return the exponent of the largest power of two that divides all numbers."""
    few = int(lowest_bit(columns[:, :_ROUGHLY]).min())
    scaled = np.ldexp(columns, -few)
    return few if (scaled == np.rint(scaled)).all() else int(lowest_bit(columns).min())


def _make_code(kind: str, name: str, function: Callable[[Array], Array], class_bits: int = 0) -> Code:
    return Code(
        kind=kind,
        name=name,
        function=function,
        word=lambda code: f"has code {code} of the {name}",
        class_bits=class_bits,
    )


def _make_rounding(kind: str, exponent: int) -> Code:
    """Return the code of numbers rounded to a power of two."""
    return Code(
        kind=kind,
        name=f"values rounded to 2**{exponent}",
        function=lambda values: np.rint(np.clip(np.ldexp(values, -exponent), -(2.0**62), 2.0**62)).astype(np.int64),
        word=lambda code: f"is {math.ldexp(code, exponent):.9g}, rounded to 2**{exponent}",
    )


def _make_residue(grid: int, modulus: int) -> Code:
    """Return the code of remainders modulo a whole number of steps of a grid."""
    return Code(
        kind="support",
        name=f"remainders modulo {modulus} steps of 2**{grid}",
        function=lambda values: np.mod(np.rint(np.ldexp(values, -grid)), modulus).astype(np.int64),
        word=lambda code: f"is {code} modulo {modulus}, in steps of 2**{grid}",
    )


def _bits(values: Array) -> Array:
    """Return all bits of a number: minus zero and the different NaNs are values of their own."""
    return np.ascontiguousarray(values).view(np.int64)


def _value(code: int) -> str:
    return f"is {np.int64(code).view(np.float64):.6g}"


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
