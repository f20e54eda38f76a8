"""Scores: one number per output that tends to be larger under one neighbour. Each is learnt from a part of the draws.

A score need not be good; it must only be fixed before the draws that confirm what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.pairs import choose_pairs, choose_triples, find_directions, make_pair_columns

Array = NDArray[Any]

_COORDINATES = 4
_CELLS = 64
_LARGEST_QUADRATIC = 64
_COLUMNS_OF_PAIRS = 6
_FINENESS = 30  # smooth scores see outputs rounded to 2**-30 of their spread: low bits have scores of their own


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """A function of outputs (n, d) that returns n numbers, the kind of evidence that it is, and its name in words.

    Scores see outputs whose infinities and not-a-numbers were replaced, unless ``raw``. ``explain`` says what outputs
    reach a threshold. An ``indicator`` is 1 where what its name says is true, and 0 elsewhere.
    """

    kind: str
    name: str
    function: Callable[[Array], Array]
    raw: bool = False
    explain: Callable[[float], str] | None = None
    indicator: bool = False

    def __call__(self, outputs: Array) -> Array:
        """Return one finite number per output."""
        with np.errstate(all="ignore"):  # outputs may be any numbers, and so may their scores
            values = self.function(outputs if self.raw else replace_infinities(outputs))
        return replace_infinities(np.asarray(values, dtype=np.float64))


def replace_infinities(values: Array) -> Array:
    """Return numbers that sort and subtract: not-a-number as 0, infinities as the ends of the range."""
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return values
    return np.nan_to_num(values, nan=0.0, posinf=1e150, neginf=-1e150)


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """Shifts and scales outputs to unit scale, coordinate by coordinate."""

    middle: Array
    spread: Array
    step: Array

    @classmethod
    def of(cls, first: Array, second: Array) -> Frame:
        """Make the frame from both neighbours' outputs."""
        both = np.concatenate([first, second])
        low, middle, high = np.quantile(both, [0.25, 0.5, 0.75], axis=0)
        spread = high - low
        fallback = np.std(both, axis=0)
        spread = np.where(spread > 0, spread, fallback)
        spread = np.where(spread > 0, spread, 1.0)
        step = np.ldexp(1.0, np.frexp(spread)[1] - _FINENESS)
        return cls(middle=middle, spread=spread, step=step)

    def coarse(self, outputs: Array) -> Array:
        """Return outputs without their low bits."""
        rounded: Array = np.rint(outputs / self.step) * self.step
        return rounded

    def __call__(self, outputs: Array) -> Array:
        """Return outputs at unit scale, without their low bits."""
        scaled: Array = (self.coarse(outputs) - self.middle) / self.spread
        return scaled


def law_scores(first: Array, second: Array) -> Iterator[Score]:
    """Yield scores for smooth differences between the two laws: shifts, scales, tails, cells of a histogram."""
    frame = Frame.of(first, second)
    a, b = frame(first), frame(second)
    yield from _coordinates(a, b, frame)
    yield from _distances(a, b, frame)
    if a.shape[1] > 1:
        yield Score(kind="law", name="sum of the outputs", function=lambda y: frame(y).sum(axis=1))
        direction = _discriminant(a, b)
        yield Score(kind="law", name="linear discriminant", function=lambda y: frame(y) @ direction)
        cells = CellRatios.of((a @ direction)[:, None], (b @ direction)[:, None])
        yield Score(
            kind="law",
            name="likelihood ratio along the linear discriminant",
            function=lambda y: cells((frame(y) @ direction)[:, None]),
        )
    product = CellRatios.of(a, b)
    yield Score(kind="law", name="product of likelihood ratios", function=lambda y: product(frame(y)))
    if a.shape[1] > 1:
        few = product.strongest(1)
        yield Score(kind="law", name=f"likelihood ratio of output {few.columns[0]}", function=lambda y: few(frame(y)))
        yield from _joint_scores(a, b, frame)
    if a.shape[1] <= _LARGEST_QUADRATIC:
        quadratic = _quadratic(a, b)
        yield Score(kind="law", name="quadratic discriminant", function=lambda y: quadratic(frame(y)))


def _coordinates(a: Array, b: Array, frame: Frame) -> Iterator[Score]:
    """Yield the few coordinates in which the neighbours differ most, each on its own."""
    gap = np.abs(np.median(a, axis=0) - np.median(b, axis=0))
    for k in np.argsort(-gap, kind="stable")[:_COORDINATES].tolist():
        yield Score(kind="law", name=f"output {k}", function=lambda y, k=k: frame.coarse(y)[:, k])  # type: ignore[misc]


def _distances(a: Array, b: Array, frame: Frame) -> Iterator[Score]:
    """Yield how much closer an output is to one median than to the other, and how far it is from both."""
    one, other = np.median(a, axis=0), np.median(b, axis=0)
    # In the outputs' own units: scaled coordinates would not be weighted like the noise.
    here, there = one * frame.spread + frame.middle, other * frame.spread + frame.middle

    def nearer(y: Array, order: int) -> Array:
        y = frame.coarse(y)
        difference: Array = np.linalg.norm(y - there, order, axis=1) - np.linalg.norm(y - here, order, axis=1)
        return difference

    for order in (1, 2)[: a.shape[1]]:
        yield Score(
            kind="law",
            name=f"difference of the L{order} distances to the two medians",
            function=lambda y, order=order: nearer(y, order),  # type: ignore[misc]
        )
    centre = 0.5 * (one + other)
    yield Score(kind="law", name="distance from the middle", function=lambda y: np.abs(frame(y) - centre).sum(axis=1))


def _joint_scores(a: Array, b: Array, frame: Frame) -> Iterator[Score]:
    """Yield what pairs and triples of outputs show that vary together in different ways, and directions of spread."""
    pairs = choose_pairs(a, b)
    if pairs:
        columns = make_pair_columns(pairs)
        cells = CellRatios.of(columns(a), columns(b)).strongest(_COLUMNS_OF_PAIRS)
        single = cells.strongest(1)
        yield Score(
            kind="law",
            name="product of likelihood ratios of products, differences and sums of pairs of outputs",
            function=lambda y: cells(columns(frame(y))),
        )
        i, j = pairs[single.columns[0] % len(pairs)]
        word = ("product", "difference", "sum")[single.columns[0] // len(pairs)]
        yield Score(
            kind="law",
            name=f"likelihood ratio of the {word} of outputs {i} and {j}",
            function=lambda y: single(columns(frame(y))),
        )
        members = sorted({k for pair in pairs for k in pair})
        quadratic = _quadratic(a[:, members], b[:, members])
        yield Score(
            kind="law",
            name="quadratic discriminant of the pairs of outputs that differ most",
            function=lambda y: quadratic(frame(y)[:, members]),
        )
    triples = choose_triples(a, b)
    if triples:
        at = np.array(triples)
        products = CellRatios.of(a[:, at].prod(axis=2), b[:, at].prod(axis=2)).strongest(1)
        i, j, k = triples[products.columns[0]]
        yield Score(
            kind="law",
            name=f"likelihood ratio of the product of outputs {i}, {j} and {k}",
            function=lambda y: products(frame(y)[:, at].prod(axis=2)),
        )
    directions = find_directions(a, b)
    along = CellRatios.of(a @ directions, b @ directions)
    yield Score(
        kind="law",
        name="likelihood ratio along the directions whose spread differs most",
        function=lambda y: along(frame(y) @ directions),
    )


def _discriminant(a: Array, b: Array) -> Array:
    """Return the direction of Fisher's linear discriminant; nearly singular directions keep their full weight."""
    gap = a.mean(axis=0) - b.mean(axis=0)
    inside = np.cov(np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)]), rowvar=False)
    values, vectors = np.linalg.eigh(np.atleast_2d(inside))
    floor = 1e-13 * max(float(values.max()), 1e-300)
    found: Array = vectors @ ((vectors.T @ gap) / np.maximum(values, floor))
    size = float(np.abs(found).max())
    return found / size if size > 0 else found


def _quadratic(a: Array, b: Array) -> Callable[[Array], Array]:
    """Return the log ratio of two normal laws with the neighbours' means and covariances."""
    parts = []
    for sample in (a, b):
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(sample, rowvar=False)))
        values = np.maximum(values, 1e-12)  # of unit scale; a constant has no spread at all
        parts.append((sample.mean(axis=0), vectors / np.sqrt(values), float(np.log(values).sum())))

    def ratio(y: Array) -> Array:
        (m0, w0, v0), (m1, w1, v1) = parts
        far = np.square((y - m1) @ w1).sum(axis=1) + v1
        near = np.square((y - m0) @ w0).sum(axis=1) + v0
        difference: Array = 0.5 * (far - near)
        return difference

    return ratio


class CellRatios:
    """Log likelihood ratios of the cells of a histogram per coordinate, added up as if they were independent."""

    def __init__(self, columns: list[int], edges: list[Array], ratios: list[Array], evidence: list[float]) -> None:
        self.columns, self._edges, self._ratios, self._evidence = columns, edges, ratios, evidence

    @classmethod
    def of(cls, a: Array, b: Array) -> CellRatios:
        """Learn from two samples; cells are quantiles of both, finer in the tails."""
        tails = np.array([1e-4, 1e-3, 5e-3])
        levels = np.concatenate([tails, np.linspace(0.01, 0.99, _CELLS), 1 - tails])
        edges, ratios, evidence = [], [], []
        for column in range(a.shape[1]):
            cuts = np.unique(np.quantile(np.concatenate([a[:, column], b[:, column]]), levels))
            one, other = (
                np.bincount(np.searchsorted(cuts, s[:, column], "right"), minlength=len(cuts) + 1) for s in (a, b)
            )
            edges.append(cuts)
            # Of many coordinates most differ by chance alone: what chance would explain is taken off (James and Stein).
            square = float((np.square(one - other) / np.maximum(one + other, 1)).sum())
            kept = max(1.0 - len(cuts) / max(square, 1e-300), 0.0)
            ratios.append(kept * np.log((one + 0.5) / (other + 0.5)))
            evidence.append((square - len(cuts)) / float(np.sqrt(2 * len(cuts))))
        return cls(list(range(a.shape[1])), edges, ratios, evidence)

    def strongest(self, count: int) -> CellRatios:
        """Return the ratios of the coordinates that differ most, alone."""
        order = np.argsort(-np.array(self._evidence), kind="stable")[:count].tolist()
        return CellRatios(
            [self.columns[k] for k in order],
            [self._edges[k] for k in order],
            [self._ratios[k] for k in order],
            [self._evidence[k] for k in order],
        )

    def __call__(self, outputs: Array) -> Array:
        """Return the sum of the log ratios of the cells that an output falls into."""
        total = np.zeros(len(outputs))
        for column, cuts, ratios in zip(self.columns, self._edges, self._ratios, strict=True):
            if ratios.any():
                total += ratios[np.searchsorted(cuts, outputs[:, column], "right")]
        return total
