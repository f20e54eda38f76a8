"""What Yuan et al. say of several data sets or types of data at once: a page made of the results of all their panels.

python -m tensorveil_evidence.studies.learning.across docs/studies > docs/studies/yuan-across.md
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.learning.compared import best_of, find_halfway
from tensorveil_evidence.studies.learning.names import AS_PRINTED, BASELINES, GRADIENTS
from tensorveil_evidence.studies.learning.scores import (
    CLEARLY,
    clean_of,
    find_clearly_above,
    guess_of,
    nominal_epsilons,
)
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.summary import Point, summarise
from tensorveil_evidence.studies.wording import answer

IMAGES = ("mnist", "cifar10", "svhn")
NUMBERS = {"I": 1, "II": 2, "III": 3}
DATA = {"I": IMAGES, "II": IMAGES, "III": (*IMAGES, "imdb", "darknet")}
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN", "imdb": "IMDB", "darknet": "flows (DarkNet)"}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The results of one type on one data set."""

    kind: str
    data: str
    points: Sequence[Point]

    @property
    def title(self) -> str:
        """The data set's name."""
        return TITLES[self.data]

    @property
    def epsilons(self) -> list[float]:
        """The nominal ones that were tried."""
        return nominal_epsilons(self.points)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The published methods that TLDP is compared with."""
        return (*BASELINES, *GRADIENTS) if self.kind == "III" else BASELINES

    def at_end(self, names: Sequence[str]) -> float:
        """Return the best score of some methods at the largest epsilon."""
        return best_of(self.points, names, self.epsilons[-1])

    def mean_lead(self) -> float:
        """Return by how much the better TLDP is above the best rival, as a mean over epsilons."""
        leads = [best_of(self.points, AS_PRINTED, e) - best_of(self.points, self.rivals, e) for e in self.epsilons]
        return sum(leads) / len(leads)


def read_panels(folder: Path) -> dict[str, list[Panel]]:
    """Read the finished results of all panels, by type."""
    found: dict[str, list[Panel]] = {}
    for kind, names in DATA.items():
        for data in names:
            results = read_results(find_study(f"yuan-figure-{NUMBERS[kind]}-{data}"), folder)
            found.setdefault(kind, []).append(Panel(kind=kind, data=data, points=summarise(results.rows)))
    return found


def write_page(folder: Path) -> str:
    """Return the text of docs/studies/yuan-across.md."""
    panels = read_panels(folder)
    return wording.fill(
        f"""# Yuan et al., all panels together

Yuan, Tang, Huang, Wu and Wang, Local Differential Privacy for Tensors in Distributed Computing Systems, figures 1 to 3:
what the paper says of several data sets at once, or of one type of data against another. Written by `python -m
tensorveil_evidence.studies.learning.across docs/studies` from the results of the panels' pages; do not edit.

Types I, II and III are perturbed records (figure 1), features (figure 2) and parameters (figure 3). Epsilons are
nominal: the order is one of privacy, as every panel's own page says with its numbers, and settings differ from the
paper's there. Noise is drawn from recorded seeds: nothing here is private.

## Numbers

Weighted F1, means over runs, at the largest nominal epsilon of each panel. A guess is an even one, or the most frequent
class where that scores more.

{_table(panels)}

## The paper's statements, one by one

{_statements(panels)}
"""
    )


def _table(panels: dict[str, list[Panel]]) -> str:
    head = ["type", "data", "epsilon", "guess", "no noise", *AS_PRINTED, "best of the four", *GRADIENTS]
    rows = []
    for each in (panel for found in panels.values() for panel in found):
        row = [each.kind, f"[{each.title}](yuan-figure-{NUMBERS[each.kind]}-{each.data}.md)", f"{each.epsilons[-1]:g}"]
        row += [f"{guess_of(each.points):.3f}", f"{clean_of(each.points):.3f}"]
        row += [f"{each.at_end((name,)):.3f}" for name in AS_PRINTED]
        row.append(f"{each.at_end(BASELINES):.3f}")
        row += [f"{each.at_end((name,)):.3f}" if each.kind == "III" else "" for name in GRADIENTS]
        rows.append(row)
    return wording.table(head, rows)


def _statements(panels: dict[str, list[Panel]]) -> str:
    first, second, third = (panels[kind] for kind in NUMBERS)
    return "\n".join(
        (
            answer("yuan-1-level-cifar10", f"{_growth(first)}."),
            answer("yuan-2-decline", _decline(first, second)),
            answer("yuan-2-slower", _slower(first, second)),
            answer("yuan-3-svhn", _order_of_llagp(third)),
            answer("yuan-3-cifar10", _rest_of_cifar10(third)),
            answer("yuan-3-darknet-gap", _gaps(panels)),
            answer("yuan-3-best", _count(third)),
            answer("yuan-consistently", " ".join(f"Type {kind}: {_count(found)}" for kind, found in panels.items())),
        )
    )


def _half(panel: Panel, name: str) -> str:
    found = find_halfway(panel.points, name, panel.epsilons)
    return "none tried" if found is None else f"{found:g}"


def _growth(panels: Sequence[Panel]) -> str:
    words = [
        f"{each.title} {' and '.join(f'{_half(each, name)} ({name})' for name in AS_PRINTED)}, at the largest epsilon "
        f"{each.at_end(AS_PRINTED):.3f} of {clean_of(each.points):.3f} without noise"
        for each in panels
    ]
    return (
        "half of the way from a guess to the score without noise is reached from epsilon "
        f"{'; '.join(words)}"
    )  # fmt: skip


def _decline(first: Sequence[Panel], second: Sequence[Panel]) -> str:
    words = [
        f"{one.title} {one.at_end(AS_PRINTED):.3f} of {clean_of(one.points):.3f} without noise in type I, at epsilon "
        f"{one.epsilons[-1]:g}, and {two.at_end(AS_PRINTED):.3f} of {clean_of(two.points):.3f} in type II, at "
        f"{two.epsilons[-1]:g}"
        for one, two in zip(first, second, strict=True)
    ]
    lower = [
        one.title for one, two in zip(first, second, strict=True) if two.at_end(AS_PRINTED) < one.at_end(AS_PRINTED)
    ]
    told = " and ".join(lower) if lower else "none"
    return (
        f"the better TLDP at the largest epsilon tried is lower in type II on {told}: {'; '.join(words)}. Networks and "
        "numbers of records differ between the two types here, so that scores without noise differ, too."
    )


def _slower(first: Sequence[Panel], second: Sequence[Panel]) -> str:
    words = [
        f"{one.title} {_half(one, name)} in type I and {_half(two, name)} in type II ({name})"
        for one, two in zip(first, second, strict=True)
        for name in AS_PRINTED
    ]
    pairs = [
        (find_halfway(one.points, name, one.epsilons), find_halfway(two.points, name, two.epsilons))
        for one, two in zip(first, second, strict=True)
        for name in AS_PRINTED
    ]
    later = all(a is not None and (b is None or b > a) for a, b in pairs)
    verdict = (
        "So it takes a larger epsilon, as the paper says:" if later else "So it does not always take a larger one:"
    )
    return (
        "half of the way from a guess to the score without noise is reached from epsilon "
        f"{'; '.join(words)}. {verdict} Delta is 256 in both, and features have a range of 2."
    )


def _by_llagp(panels: Sequence[Panel]) -> list[Panel]:
    return sorted(panels, key=lambda each: -each.at_end(GRADIENTS[:1]))


def _order_of_llagp(panels: Sequence[Panel]) -> str:
    ordered = _by_llagp(panels)
    words = [
        f"{each.title} {each.at_end(GRADIENTS[:1]):.3f} ({each.at_end(GRADIENTS[:1]) - each.at_end(AS_PRINTED):+.3f} "
        f"to the better TLDP)"
        for each in ordered
    ]
    best = ordered[0].title
    leads = {each.title: each.at_end(GRADIENTS[:1]) - each.at_end(AS_PRINTED) for each in panels}
    ahead = max(leads, key=lambda title: leads[title])
    return (
        f"by its score at the largest epsilon LLAGP is best on {best}, and by what it has on the better TLDP on "
        f"{ahead}: {'; '.join(words)}."
    )


def _rest_of_cifar10(panels: Sequence[Panel]) -> str:
    worst = _by_llagp(panels)[-1]
    own = next(each for each in panels if each.data == "cifar10")
    others = (*BASELINES, GRADIENTS[1])
    return (
        f"by that score it is worst on {worst.title}, {worst.at_end(GRADIENTS[:1]):.3f}. On CIFAR-10 it has "
        f"{own.at_end(GRADIENTS[:1]):.3f}, the best of Laplace, Gaussian, MVG and IDN {own.at_end(BASELINES):.3f} and "
        f"DPHSGD {own.at_end(others[-1:]):.3f}."
    )


def _gaps(panels: dict[str, list[Panel]]) -> str:
    words = [
        f"type {kind}: {', '.join(f'{each.title} {each.mean_lead():+.3f}' for each in found)}"
        for kind, found in panels.items()
    ]
    largest = max(panels["III"], key=Panel.mean_lead).title
    return (
        f"the better TLDP less the best other method, as a mean over all epsilons, {'; '.join(words)}. So of type III "
        f"the gap is largest on {largest}."
    )


def _count(panels: Sequence[Panel]) -> str:
    """Count the epsilons at which the better TLDP is clearly above all others, and below one of them."""
    above = below = total = 0
    for each in panels:
        above += len(find_clearly_above(each.points, AS_PRINTED, each.rivals, each.epsilons))
        below += len(find_clearly_above(each.points, each.rivals, AS_PRINTED, each.epsilons))
        total += len(each.epsilons)
    return (
        f"the better TLDP is more than {CLEARLY:g} above all others at {above} of {total} epsilons, that far below one "
        f"of them at {below}."
    )


if __name__ == "__main__":
    sys.stdout.write(write_page(Path(sys.argv[1])))
