"""The studies of learning, on digits: every type from cell to page, and what noise is worth."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tensorveil.privacy.gdp import gdp_epsilon
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.learning import findings, names, presentation
from tensorveil_evidence.studies.learning.mechanisms import DELTA, MAKERS, nominal_for, worth
from tensorveil_evidence.studies.learning.sizes import FEATURES, IMAGES, QUICK, ROUNDS
from tensorveil_evidence.studies.learning.template import Facts, learning_study
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.study import Results
from tensorveil_evidence.studies.summary import Point, mean_at, summarise

KINDS = {
    "I": (IMAGES, {"epsilons": (100.0,), "budgets": (4.0, 16.0)}),
    "II": (FEATURES, {"epsilons": (1000.0,), "budgets": (4.0, 16.0)}),
    "III": (ROUNDS, {"epsilons": (10000.0,), "budgets": (4.0, 256.0), "record_budgets": (1.0, 8.0)}),
}


@pytest.fixture(scope="module")
def made() -> Any:
    """Run a small study of each type once."""
    found = {}
    for kind, (sizes, places) in KINDS.items():
        facts = Facts(
            name=f"digits-{kind}", title="Digits", figure=1, kind=kind, data="digits", minutes=(1, 1), **places
        )
        study = learning_study(facts, sizes["digits"], QUICK["digits"])
        rows = [row for cell in study.cells(1, False) for row in study.compute(cell.settings)]
        found[kind] = (facts, study, Results(rows=rows, quick=False))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_is_there_with_its_status_and_worth(made: Any, kind: Any) -> None:
    facts, study, results = made[kind]
    nominal = {row.method for row in results.rows if row.panel == names.NOMINAL}
    assert nominal == set(facts.methods)
    assert all(row.note for row in results.rows if row.panel)
    statuses = {row.method: row.status for row in results.rows}
    assert statuses["TLDP-L"] == statuses[names.GAUSSIAN] == "refuted"
    assert statuses["Laplace"] == "claimed"
    assert {statuses[name] for name in statuses if name.startswith("ours")} == {"proven"}
    assert "TLDP-L" not in {row.method for row in results.rows if row.panel == names.TRUE}
    again = next(cell for cell in study.cells(1, False) if cell.settings["piece"] == "TLDP-L")
    first = [row for row in results.rows if row.method == "TLDP-L" and row.run == again.settings["run"]]
    assert list(study.compute(again.settings)) == first


@pytest.mark.parametrize("kind", KINDS)
def test_figure_and_page_are_made_of_results(made: Any, kind: Any) -> None:
    facts, study, results = made[kind]
    page = " ".join(study.page(results).split())
    assert "our best is at least as good as every published one" in page
    assert "none finite" in page
    said = {
        "I": "the TLDP-G mechanism outperforms",
        "II": "the TLDP-G mechanism generally outperforms",
        "III": "temporarily surpasses that of TLDP-G",
    }
    assert [kind for kind, words in said.items() if words in page] == [kind]
    assert ("LLAGP outperforms" in page) == (kind == "III")
    assert "By nominal epsilon, TLDP-L is more than 0.05 above" in page
    figure = study.draw(results)
    assert len(figure.subfigs[0].axes) == len(presentation.panels_of(facts))
    for word in ("Unit: ", "Delta: ", "Guarantees: "):
        assert word in str(study.caption(results))


def test_ours_is_best_at_the_same_true_epsilon_and_tldp_leads_by_name_only(made: Any) -> None:
    for kind, panel, ours in (
        ("I", names.SAME, names.PRIVUNIT),
        ("II", names.SAME, names.PRIVUNIT),
        ("III", names.USER, names.CONTRASTS),
        ("III", names.RECORD, names.MOMENTS),
    ):
        facts, _, results = made[kind]
        points = summarise(results.rows)
        budget = facts.record_budgets[-1] if panel == names.RECORD else facts.budgets[-1]
        best = mean_at(points, panel, ours, budget, names.F1)
        others = {row.method for row in results.rows if row.panel == panel and not row.method.startswith("ours")}
        assert len(others) == 2
        assert all(best > mean_at(points, panel, other, budget, names.F1) for other in others)
        assert best > 0.3 + mean_at(points, "", names.MAJORITY, None, names.F1)
    points = summarise(made["I"][2].rows)
    assert mean_at(points, names.NOMINAL, "TLDP-L", 100.0, names.F1) > 0.3 + max(
        mean_at(points, names.NOMINAL, name, 100.0, names.F1) for name in ("Laplace", "MVG")
    )


def test_a_quick_run_is_one_small_cell_with_every_panel() -> None:
    facts, sizes = Facts(
        name="digits-quick", title="Digits", figure=1, kind="III", data="digits", minutes=(1, 1),
        epsilons=(10.0, 100.0, 1000.0), budgets=(1.0, 4.0), record_budgets=(0.5, 1.0),
    ), ROUNDS["digits"]  # fmt: skip
    study = learning_study(facts, sizes, QUICK["digits"])
    (cell,) = study.cells(1, True)
    assert cell.settings["train"] < sizes["train"]
    rows = list(study.compute(cell.settings))
    assert {row.panel for row in rows} == {"", *presentation.panels_of(facts)}
    assert {row.x for row in rows if row.panel == names.NOMINAL} == {10.0, 1000.0}
    page = study.page(Results(rows=rows, quick=True))
    assert f"train {QUICK['digits']['train']}" in page
    assert not re.search(r"\bnan\b|: \.|:\.$", page, re.MULTILINE)
    assert "10: 0." in page.split("statements, one by one")[1]


def point(method: Any, mean: Any, deviation: Any, panel: Any = names.SAME, x: float = 1.0) -> Any:
    return Point(
        panel=panel, method=method, status="proven", x=x, metric=names.F1, runs=4, diverged=0, mean=mean,
        deviation=deviation,
    )  # fmt: skip


def test_ours_is_compared_with_the_best_published_method_at_each_epsilon() -> None:
    points = [
        point(names.PRIVUNIT, 0.4, 0.02), point(names.HYBRID, 0.3, 0.01), point("Laplace", 0.41, 0.02),
        point("Gaussian", 0.2, 0.3), point(names.PRIVUNIT, 0.5, 0.0, x=2.0), point("Laplace", 0.1, 0.0, x=2.0),
        point(names.PRIVUNIT, 0.9, 0.0, x=4.0), point("Laplace", 0.9, 0.0, panel=names.TRUE, x=8.0),
    ]  # fmt: skip
    first, second = findings.compare(points, names.SAME)
    assert (first.ours.method, first.theirs.method) == (names.PRIVUNIT, "Laplace")
    assert first.lead == pytest.approx(-0.01)
    assert first.band == pytest.approx(2 * math.sqrt(2) * 0.01)
    assert second.budget == 2.0
    assert second.lead == pytest.approx(0.4)


@pytest.mark.parametrize(("clean", "said"), [(0.53, True), (0.7, False)])
def test_a_network_that_has_not_learnt_is_called_so(made: Any, clean: float, said: bool) -> None:
    facts, _, results = made["III"]
    kept = [p for p in summarise(results.rows) if p.method not in (names.CLEAN, names.GUESS)]
    lines = [point(names.CLEAN, clean, 0.0, panel=""), point(names.GUESS, 0.5, 0.0, panel="")]
    assert ("has hardly learnt" in findings.findings(results, [*kept, *lines], facts)) == said


DOCS = Path(__file__).parents[4] / "docs" / "studies"
STORED = sorted(path.stem for path in DOCS.glob("yuan-figure-*.parquet"))


# The flows for tests are unlike those for training, and what moments tell finely does not hold there, as the page says.
LOST = {"yuan-figure-3-darknet": {4.0, 8.0}}
FALLS: dict[str, set[float]] = {"yuan-figure-3-darknet": {1.0, 2.0, 4.0, 8.0}}


@pytest.mark.parametrize("name", STORED)
def test_in_the_stored_results_ours_loses_to_no_published_method_but_where_said(name: str) -> None:
    """On the mean over runs, at every true epsilon and for every unit; what is within two standard errors is a tie."""
    points = summarise(read_results(find_study(name), DOCS).rows)
    found = [each for panel in (names.SAME, names.USER, names.RECORD) for each in findings.compare(points, panel)]
    assert len(found) >= 5
    assert all(each.ours.runs >= 3 and each.theirs.runs >= 3 for each in found)
    assert {each.budget for each in found if each.lead < -each.band} == LOST.get(name, set())


@pytest.mark.parametrize("name", STORED)
def test_in_the_stored_results_no_larger_budget_makes_moments_or_reports_worse(name: str) -> None:
    """On the mean over runs; what is within two standard errors is no loss."""
    points = summarise(read_results(find_study(name), DOCS).rows)
    for method, panel in ((names.MOMENTS, names.RECORD), (names.PRIVUNIT, names.SAME)):
        own: list[Any] = sorted((p for p in points if (p.method, p.panel) == (method, panel)), key=lambda p: p.x or 0.0)
        falls = {
            more.x
            for less, more in itertools.combinations(own, 2)
            if less.mean - more.mean > 2 * math.hypot(less.error, more.error)
        }
        assert falls == (FALLS.get(name, set()) if own else set())


def test_worth_in_one_round_is_the_mechanism_s_truth() -> None:
    mechanism = MAKERS[names.GAUSSIAN]((10, 10), 3.0, (0.0, 255.0), 256.0)
    mu = 255 * 10 / mechanism.scale
    assert worth(mechanism).tensor == pytest.approx(gdp_epsilon(mu, DELTA))
    four = worth(mechanism, width=255.0, rounds=4)
    assert four.tensor == pytest.approx(gdp_epsilon(2 * mu, DELTA))
    assert four.entry == pytest.approx(gdp_epsilon(2 * mu / 10, DELTA))


def test_kept_entries_are_worth_nothing() -> None:
    mechanism = MAKERS["TLDP-L"]((28, 28), 1.0, (0.0, 255.0), 256.0)
    assert math.isinf(worth(mechanism).tensor)
    assert math.isinf(worth(mechanism, width=1.0, rounds=2).entry)


def test_laplace_noise_over_rounds_is_bounded_by_both_ways_to_add_up() -> None:
    few = MAKERS["Laplace"]((2,), 1.0, (-1.0, 1.0), 2.0)
    # Two entries, two rounds, scale 4, width 2: four answers of epsilon 1/2.
    assert worth(few, width=2.0, rounds=2).tensor == pytest.approx(2.0)
    many = MAKERS["Laplace"]((10_000,), 1.0, (-1.0, 1.0), 2.0)
    assert worth(many, width=2.0, rounds=2).tensor < 0.2 < 2.0


@pytest.mark.parametrize("family", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("target", [0.5, 16.0])
def test_nominal_epsilons_are_found_from_below(family: Any, target: Any) -> None:
    def make(nominal: Any) -> Any:
        return MAKERS[family]((8, 8), nominal, (0.0, 16.0), 256.0)

    nominal = nominal_for(make, target, lambda each: worth(each).tensor)
    assert target * (1 - 2e-3) <= worth(make(nominal)).tensor <= target
