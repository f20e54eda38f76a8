"""What Yuan et al. say of several data sets or types of data at once: a page made of all their panels' results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
NEEDS = tuple(f"yuan-figure-{NUMBERS[kind]}-{data}" for kind, names in DATA.items() for data in names)
ENTRIES = {"mnist": 28 * 28, "cifar10": 3 * 32 * 32, "svhn": 3 * 32 * 32}
LEVEL_CIFAR10 = 0.70  # what the paper says of type I there
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN", "imdb": "IMDB", "darknet": "flows (DarkNet)"}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The results of one type on one data set."""

    kind: str
    data: str
    points: Sequence[Point]
    rivals: tuple[str, ...]

    @property
    def title(self) -> str:
        """The data set's name."""
        return TITLES[self.data]

    @property
    def epsilons(self) -> list[float]:
        """The nominal ones that were tried."""
        return nominal_epsilons(self.points)

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
            rivals = (*BASELINES, *GRADIENTS) if kind == "III" else BASELINES
            panel = Panel(kind=kind, data=data, points=summarise(results.rows), rivals=rivals)
            found.setdefault(kind, []).append(panel)
    return found


def write_page(folder: Path) -> str:
    """Return the text of docs/studies/yuan-across.md."""
    panels = read_panels(folder)
    return wording.fill(
        f"""# Yuan et al., all panels together

Yuan, Tang, Huang, Wu and Wang, Local Differential Privacy for Tensors in Distributed Computing Systems, figures 1 to 3:
what the paper says of several data sets at once, or of one type of data against another. Written by `tensorveil
study all --redraw` from the results of the panels' pages; do not edit.

Types I, II and III are perturbed records (figure 1), features (figure 2) and parameters (figure 3). Epsilons are
nominal: what they are worth, and how far the order of methods is one of privacy, every panel's own page says with its
numbers; so it does where its settings differ from the paper's. Noise is drawn from recorded seeds:
nothing here is private.

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
            answer("yuan-1-level-cifar10", _growth(first)),
            answer("yuan-1-evident", _evident(first)),
            answer("yuan-2-decline", _decline(first, second)),
            answer("yuan-2-slower", _slower(first, second)),
            answer("yuan-3-consistent", _consistent(panels)),
            answer("yuan-3-svhn", _order_of_llagp(third)),
            answer("yuan-3-cifar10", _rest_of_cifar10(third)),
            answer("yuan-3-darknet-gap", _gaps(panels)),
            answer("yuan-3-best", _count(third)),
            answer("yuan-3-unparalleled", _unparalleled(third)),
            answer("yuan-larger-i", _larger(first)),
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
    own = next(each for each in panels if each.data == "cifar10")
    faster = [each.title for each in panels if each is not own and _earlier(each, own)]
    end = own.at_end(AS_PRINTED)
    level = "about that" if abs(end - LEVEL_CIFAR10) <= CLEARLY else "not that level"
    return (
        "half of the way from a guess to the score without noise is reached from epsilon "
        f"{'; '.join(words)}. By that {own.title} is slower than {' and '.join(faster) or 'none of the others'}. At "
        f"the end it has {end:.3f}: {level}."
    )


def _earlier(one: Panel, other: Panel) -> bool:
    """Tell whether a panel's TLDP reaches half of its way earlier than another's, by one noise and never later."""
    pairs = [tuple(find_halfway(p.points, name, p.epsilons) or math.inf for p in (one, other)) for name in AS_PRINTED]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _evident(panels: Sequence[Panel]) -> str:
    """Say from where on each data set's curves have half of their way, which is last, and how far all lead."""
    ends = ", ".join(f"{each.title} {each.at_end(AS_PRINTED):.3f}" for each in panels)
    halves = ", ".join(f"{each.title} {' and '.join(_half(each, name) for name in AS_PRINTED)}" for each in panels)
    leads = ", ".join(f"{each.title} {each.mean_lead():+.3f}" for each in panels)
    slowest = [each.title for each in panels if all(other is each or _earlier(other, each) for other in panels)]
    last = f" {slowest[0]} is the slowest." if slowest else " None is slower than both of the others."
    return (
        f"the lead on the best of the four, as a mean over epsilons, is {leads}; half of the way "
        f"({' and '.join(AS_PRINTED)}) is reached from epsilon {halves}; and the better TLDP ends at {ends}.{last}"
    )


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
        f"{_at_common(first, second)} The better TLDP at the largest epsilon tried, which differs between the two, is "
        f"lower in type II on {told}: {'; '.join(words)}. Networks and "
        "numbers of records differ between the two types here, so that scores without noise differ, too."
    )


def _at_common(first: Sequence[Panel], second: Sequence[Panel]) -> str:
    """Compare the two types at the nominal epsilons that both have."""
    words, falls, count = [], 0, 0
    for one, two in zip(first, second, strict=True):
        for e in (e for e in one.epsilons if e in two.epsilons):
            before, after = (best_of(each.points, AS_PRINTED, e) for each in (one, two))
            words.append(f"{one.title} {before:.3f} to {after:.3f} at {e:g}")
            falls, count = falls + (after < before - CLEARLY), count + 1
    verdict = "as the paper says" if falls == count else "not all as the paper says"
    return (
        f"at the epsilon that both types have, the better TLDP falls by more than {CLEARLY:g} on {falls} of {count} "
        f"data sets, {verdict}: {'; '.join(words)}."
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


def _consistent(panels: dict[str, list[Panel]]) -> str:
    """Count, on the images alone, where the better TLDP is clearly above all others of its type."""
    words = [f"type {k}: {_count([p for p in found if p.data in IMAGES])}" for k, found in panels.items()]
    third = [each for each in panels["III"] if each.data in IMAGES]
    plain = [replace(each, rivals=BASELINES) for each in third]
    return f"{' '.join(words)} Of type III against the plain four alone: {_count(plain)}"


def _unparalleled(panels: Sequence[Panel]) -> str:
    """Count the epsilons at which a TLDP has the highest score of all published methods."""
    words = []
    for each in panels:
        top = [e for e in each.epsilons if best_of(each.points, AS_PRINTED, e) > best_of(each.points, each.rivals, e)]
        words.append(f"{each.title} {len(top)} of {len(each.epsilons)}")
    told = ", ".join(words)
    return f"the number of epsilons at which a TLDP has the highest score of all, by however little, is {told}."


def _larger(panels: Sequence[Panel]) -> str:
    """Compare the four plain mechanisms on images of different size, of type I, where they are what noise falls on."""
    tops = {each.title: max(best_of(each.points, BASELINES, e) for e in each.epsilons) for each in panels}
    words = [
        f"{each.title}, {ENTRIES[each.data]} entries, {tops[each.title]:.3f} (a guess {guess_of(each.points):.3f})"
        for each in panels
    ]
    small = min(panels, key=lambda each: ENTRIES[each.data])
    poorer = [t for t, top in tops.items() if t != small.title and top < tops[small.title]]
    verdict = "as the paper says on" if poorer else "no poorer with more entries on any,"
    return (
        f"a colour image of 32 x 32 has 3 x 1024 = {ENTRIES['svhn']} entries, which all get noise. The best of the "
        f"four in type I, over all epsilons: {'; '.join(words)}: {verdict} {' and '.join(poorer)}".rstrip(" ,")
        + ". At the level of a guess nothing can be told of I."
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
    beyond = [each.title for each in panels if each.at_end(GRADIENTS[:1]) > clean_of(each.points)]
    trained = ""
    if beyond:
        trained = (
            f" On {', '.join(beyond)} it is above the network of the others without noise: what it has beyond that is "
            "its own way of training, and on texts its own network, not less noise."
        )
    return (
        f"by its score at the largest epsilon LLAGP is best on {best}, and by what it has on the better TLDP on "
        f"{ahead}: {'; '.join(words)}.{trained}"
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
