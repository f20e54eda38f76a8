"""What Wei et al. say of ratings against synthetic tensors: a page made of the results of figures 2 and 4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.reference import CONSTANT, PUBLISHED, TITLES
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.summary import Point, mean_at, summarise
from tensorveil_evidence.studies.wording import answer

NEEDS = ("wei-figure-2", "wei-figure-4")
COMPARABLE = 1.25  # multiples of the constant's error that differ by no more than this factor are called comparable
KINDS = tuple(TITLES)
COMMON = (0.1, 1.0, 3.0, 10.0)  # epsilons of both figures


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One method of one model on both data: errors as multiples of the constant's, infinite where a run diverged."""

    title: str
    method: str
    synthetic: Mapping[float, float]
    ratings: Mapping[float, float]

    @property
    def name(self) -> str:
        """The curve's name."""
        return f"{self.title}, {self.method}"

    @property
    def known(self) -> list[float]:
        """Epsilons at which no run diverged on either."""
        return [e for e in COMMON if math.isfinite(self.synthetic[e]) and math.isfinite(self.ratings[e])]

    @property
    def alone(self) -> list[float]:
        """Epsilons at which runs diverged on one of the two alone."""
        return [e for e in COMMON if math.isfinite(self.synthetic[e]) != math.isfinite(self.ratings[e])]

    def factor(self, epsilon: float) -> float:
        """Return by which factor the larger is above the smaller."""
        one, two = self.synthetic[epsilon], self.ratings[epsilon]
        return max(one / two, two / one)

    def rows(self) -> list[list[str]]:
        """Both curves, as rows of the table."""
        return [
            [self.title, self.method, told, *(_write(shares[e]) for e in COMMON)]
            for told, shares in (("synthetic", self.synthetic), ("ML-100K", self.ratings))
        ]


def read_pairs(folder: Path) -> list[Pair]:
    """Read both figures' results."""
    synthetic, ratings = (summarise(read_results(find_study(name), folder).rows) for name in NEEDS)
    return [
        Pair(
            title=TITLES[kind],
            method=method,
            synthetic={e: _share(synthetic, kind, method, e) for e in COMMON},
            ratings={e: _share(ratings, f"{kind}, bi-scaled", method, e) for e in COMMON},
        )
        for kind in KINDS
        for method in PUBLISHED
    ]


def write_page(folder: Path) -> str:
    """Return the text of docs/studies/wei-across.md."""
    pairs = read_pairs(folder)
    head = ["model", "method", "data", *(f"{e:g}" for e in COMMON)]
    return wording.fill(
        f"""# Wei et al., ratings and synthetic tensors together

Wei, Li, Mao and Wang, Applying Differential Privacy to Tensor Completion, figures 2 and 4: what the paper says of one
against the other. Written by `tensorveil study {" ".join(NEEDS)} --redraw` from the results of both; do not edit.

Errors have different units in the two: [synthetic tensors](wei-figure-2.md) with values between 0 and 1, and ratings of
[MovieLens 100K](wei-figure-4.md), bi-scaled. So they are compared as multiples of the constant's error. Epsilons are
nominal, the unit is a value, delta is 0; the guarantees of gradient and output perturbation are refuted, and on ML-100K
that of input perturbation too, whose bounds are read off the data. Noise is drawn from recorded seeds: nothing here is
private.

## Numbers

Error as a multiple of the constant's, means over runs, by nominal epsilon; - where a run diverged.

{wording.table(head, [row for pair in pairs for row in pair.rows()])}

## The paper's statements, one by one

{answer("wei-comparable", tell_comparable(pairs))}
"""
    )


def tell_comparable(pairs: Sequence[Pair]) -> str:
    """Say at which epsilons both are comparable, where they are farthest apart, and whether the constant is beaten."""
    near, far, alone = [], [], []
    for pair in pairs:
        alike = [e for e in pair.known if pair.factor(e) <= COMPARABLE]
        near.append(f"{pair.name} {wording.at_epsilons(alike)}")
        if len(alike) < len(pair.known):
            worst = max(pair.known, key=pair.factor)
            far.append(f"{pair.name} {pair.synthetic[worst]:.2f} against {pair.ratings[worst]:.2f} at {worst:g}")
        if pair.alone:
            alone.append(f"{pair.name} at {wording.join_numbers(pair.alone)}")
    below = [sum(shares[e] < 1 for shares in data for e in COMMON) for data in (
        [pair.synthetic for pair in pairs], [pair.ratings for pair in pairs]
    )]  # fmt: skip
    return (
        f"within a factor of {COMPARABLE:g} of each other are {'; '.join(near)}. Farthest from it, synthetic against "
        f"ML-100K: {'; '.join(far) or 'none'}. On one of the two alone runs diverged: {'; '.join(alone) or 'none'}. Of "
        f"{len(pairs) * len(COMMON)} points, one for each model, method and epsilon, a published method is below the "
        f"constant at {below[0]} on synthetic tensors and at {below[1]} on ML-100K."
    )


def _share(points: Sequence[Point], panel: str, method: str, epsilon: float) -> float:
    return mean_at(points, panel, method, epsilon) / mean_at(points, panel, CONSTANT)


def _write(share: float) -> str:
    return f"{share:.2f}" if math.isfinite(share) else "-"
