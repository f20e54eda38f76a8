"""What is written by hand of the studies' results, in published.md and in the table of items, is held against rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tensorveil_evidence.fidelity import list_items
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.learning import across
from tensorveil_evidence.studies.learning.names import AS_PRINTED, BASELINES
from tensorveil_evidence.studies.learning.scores import find_clearly_above
from tensorveil_evidence.studies.papers import wei_figure_3
from tensorveil_evidence.studies.papers.wei_figure_2 import EPSILONS
from tensorveil_evidence.studies.reference import (
    CLAMPED,
    CONSTANT,
    DESCENT_LINE,
    FIT_LINE,
    GRADIENT,
    INPUT,
    KINDS,
    OUTPUT,
    PUBLISHED,
)
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.summary import Point, mean_at, summarise
from tensorveil_evidence.studies.wei_statements import CURVES, find_steadiest

DOCS = Path(__file__).parents[4] / "docs"
REMARKS = {item.number: item.told for item in list_items()}
STATES = {item.number: item.state for item in list_items()}


@cache
def points_of(name: str) -> list[Point]:
    return summarise(read_results(find_study(name), DOCS / "studies").rows)


def published() -> str:
    return " ".join((DOCS / "published.md").read_text(encoding="utf-8").split())


def at(kind: str, method: str, epsilon: float | None = None) -> float:
    return mean_at(points_of("wei-figure-2"), kind, method, epsilon)


def test_gradient_and_output_differ_by_no_more_than_is_said() -> None:
    apart = {kind: max(abs(at(kind, GRADIENT, e) - at(kind, OUTPUT, e)) for e in (5.0, 10.0)) for kind in KINDS}
    assert apart["cp"] <= 0.008
    assert apart["tucker"] <= 0.003
    assert "differ by at most 0.008 for CP and 0.003 for Tucker" in published()


def test_the_order_breaks_with_clamped_input_where_that_is_said() -> None:
    broken = {
        e
        for kind in KINDS
        for e in EPSILONS
        if not at(kind, GRADIENT, e) <= at(kind, OUTPUT, e) <= at(kind, CLAMPED, e)
    }
    assert broken == {0.1, 0.3}
    assert "the order breaks at epsilon 0.1 and 0.3." in published()
    assert min(PUBLISHED, key=lambda method: at("cp", method, 0.1)) == CLAMPED
    assert "At epsilon 0.1 the best one for CP is clamped input" in published()


def test_where_the_constant_is_beaten_is_said() -> None:
    assert "In figure 2 the published descent beats the constant nowhere" in published()
    for kind in KINDS:
        assert at(kind, DESCENT_LINE) > at(kind, CONSTANT)
        assert all(at(kind, method, e) > at(kind, CONSTANT) for method in PUBLISHED for e in EPSILONS)
        assert 0.23 < at(kind, FIT_LINE) / at(kind, CONSTANT) < 0.27
        assert [e for e in EPSILONS if at(kind, "ours, auto", e) < at(kind, CONSTANT)] == [2.0, 3.0, 5.0, 10.0]
    third, below = points_of("wei-figure-3"), []
    for kind in KINDS:
        for missing in wei_figure_3.MISSING:
            panel = wei_figure_3.panel(kind, missing)
            lines = [(DESCENT_LINE, None), *((m, e) for m in wei_figure_3.METHODS[:3] for e in wei_figure_3.EPSILONS)]
            constant = mean_at(third, panel, CONSTANT)
            below += [(panel, method, e) for method, e in lines if mean_at(third, panel, method, e) < constant]
    assert below == [
        ("tucker, 0.1 missing", DESCENT_LINE, None),
        ("tucker, 0.1 missing", OUTPUT, 10.0),
        ("tucker, 0.3 missing", DESCENT_LINE, None),
    ]
    assert "without noise with 10 % missing (0.070 against 0.073)" in published()


def test_counts_of_least_deviations_are_those_of_the_rows() -> None:
    points = points_of("wei-figure-2")
    plain, both = (
        [len(find_steadiest(points, kind, EPSILONS, rivals)) for kind in KINDS]
        for rivals in ((OUTPUT, INPUT), CURVES[1:])
    )
    told = REMARKS["W32"]
    assert f"at {plain[0]} of 7 epsilons for CP and at {plain[1]} of 7 for Tucker beside plain" in told
    assert f"at {both[0]} of 7 and {both[1]} of 7 with the clamped one too" in told


def test_counts_of_where_tldp_is_above_are_those_of_the_rows() -> None:
    panels = across.read_panels(DOCS / "studies")
    counts = {
        name: [
            sum(len(find_clearly_above(each.points, (name,), BASELINES, each.epsilons)) for each in found)
            for found in panels.values()
        ]
        for name in AS_PRINTED
    }
    tried = [sum(len(each.epsilons) for each in found) for found in panels.values()]
    (one, two, three), gaussian = counts["TLDP-L"], counts["TLDP-G"]
    told = (
        f"at {one} of {tried[0]} epsilons of type I, {two} of {tried[1]} of type II and {three} of {tried[2]} of type"
    )
    assert told in REMARKS["Y37"]
    assert f"TLDP-G at {gaussian[0]}, {gaussian[1]} and {gaussian[2]}." in REMARKS["Y37"]
    unlike = [
        (kind, each.data)
        for kind, found in panels.items()
        for each in found
        if not find_clearly_above(each.points, AS_PRINTED[:1], BASELINES, each.epsilons[-1:])
    ]
    assert unlike == [("II", "mnist"), ("III", "imdb")]


def test_what_differs_is_not_called_faithful() -> None:
    assert {STATES[number] for number in ("G1", "G12", "Y34")} == {"differs, said"}
    assert STATES["G17"] == "examined"
