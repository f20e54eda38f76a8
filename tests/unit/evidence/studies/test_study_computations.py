"""What studies compute, against direct calls and closed forms; the statuses come from the guarantees themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil_evidence.published import GradientPerturbation, InputPerturbation
from tensorveil_evidence.studies import planted_matrix, reference
from tensorveil_evidence.studies.papers import claims, wei_figure_2, wei_figure_3, yuan_table_5
from tensorveil_evidence.studies.reference import CLAMPED, CONSTANT, FIT_LINE, GRADIENT, INPUT, OUTPUT, Reference


@pytest.fixture(scope="module")
def case() -> Any:
    return Reference("cp", 100, panel="cp")


def test_lines_are_what_they_say(case: Any) -> None:
    rows = {row.method: row for row in case.lines()}
    problem = tv.paper_problem("cp", random_state=100)
    truth = problem.clean_at(problem.held_out.coords)
    assert rows[CONSTANT].value == pytest.approx(math.sqrt(np.mean((problem.train.values.mean() - truth) ** 2)))
    fit = tv.CP(3, restarts=3, random_state=100, threads=1).fit(problem.train)
    assert rows[FIT_LINE].value == reference.rmse(fit.predict(problem.held_out), truth)
    assert {row.status for row in rows.values()} == {"not private"}


def test_published_rows_are_published_fits(case: Any) -> None:
    (row,) = case.run_published([GRADIENT], [1.0])
    printed: dict[str, Any] = {"clip_constant": 0.1, "learning_rate": 0.005, "regularization": 0.01}
    direct = GradientPerturbation("cp", 3, epsilon=1.0, random_state=100, verbose=False, **printed).fit(case.clipped)
    assert row.value == reference.rmse(direct.predict(case.problem.held_out), case.truth)
    assert (row.status, row.x, row.run) == ("refuted", 1.0, 100)


def test_statuses_are_those_of_the_guarantees(case: Any) -> None:
    found = {row.method: row.status for row in case.run_published([OUTPUT, CLAMPED], [5.0])}
    assert found == {OUTPUT: "refuted", CLAMPED: "claimed"}
    (ours,) = case.run_proven(["ours, auto"], [0.1])
    assert (ours.status, ours.note) == ("proven", "staged")


def test_a_diverging_descent_is_no_number_and_keeps_its_status(case: Any) -> None:
    (row,) = case.run_published([INPUT], [0.1])
    assert (row.value, row.status) == (None, "claimed")
    with pytest.raises(InputError, match="rank"):
        reference.fit_unless_divergent(
            InputPerturbation("cp", 0, epsilon=1.0, bounds=(0, 1), verbose=False), case.clipped
        )


def test_the_same_cell_gives_the_same_rows() -> None:
    settings = {"model": "cp", "missing": 0.9, "run": 3}
    first, second = (list(wei_figure_3.compute(settings)) for _ in range(2))
    assert first == second
    assert first != list(wei_figure_3.compute(settings | {"run": 4}))
    assert {row.method for row in first} >= {*wei_figure_3.METHODS, CONSTANT, FIT_LINE}


def test_figure_2_has_every_method_of_the_paper_and_ours() -> None:
    assert {GRADIENT, OUTPUT, INPUT} <= set(wei_figure_2.PRIVATE)
    assert len(wei_figure_2.cells(50, False)) == 100
    assert {cell.settings["model"] for cell in wei_figure_2.cells(1, True)} == {"cp", "tucker"}


def test_relative_error() -> None:
    truth = np.array([[3.0, 0.0], [0.0, 4.0]])
    assert planted_matrix.rse(truth, truth) == 0.0
    assert planted_matrix.rse(0 * truth, truth) == 1.0
    assert planted_matrix.rse(1.1 * truth, truth) == pytest.approx(0.1)


def test_matrix_rows_have_all_methods_and_their_statuses() -> None:
    rows = list(planted_matrix.matrix_rows(60, 1.0, 100, 60))
    assert {row.method: row.status for row in rows} == {
        "SOR": "refuted",
        "DLNM_QR": "refuted",
        "AM": "refuted",
        planted_matrix.AS_CLAIMED: "claimed",
        planted_matrix.OURS: "proven",
        planted_matrix.CONSTANT: "not private",
        planted_matrix.FIT: "not private",
    }
    truth, mask, _ = planted_matrix.plant(60, 100)
    constant = next(row.value for row in rows if row.method == planted_matrix.CONSTANT)
    assert constant == pytest.approx(planted_matrix.rse(np.full_like(truth, truth[mask].mean()), truth))


def test_table_5_against_closed_forms() -> None:
    rows = {
        (row.method, row.metric): row
        for methods in ("published", "ours")
        for row in yuan_table_5.compute({"epsilon": 2.0, "methods": methods, "draws": 30})
    }
    entries = 28 * 28
    laplace = 256 / 2.0 * entries * math.sqrt(2 * entries)
    assert rows["Laplace", "printed error"].value == pytest.approx(laplace)
    assert rows["Laplace", "expected error"].value == pytest.approx(laplace)
    assert rows["Laplace", "measured error"].value == pytest.approx(laplace, rel=0.1)
    assert rows[yuan_table_5.MIDDLE, "expected error"].value == pytest.approx(127.5 * 28)
    assert rows["TLDP-L, p of the algorithm", "true epsilon"].value is None
    assert rows["TLDP-L, p of the algorithm", "true epsilon"].status == "refuted"
    ours = rows["ours, PrivUnit", "expected error"]
    assert ours.status == "proven"
    assert rows["ours, PrivUnit", "measured error"].value == pytest.approx(ours.value, rel=0.05)
    assert rows["ours, PrivUnit", "true epsilon"].value == 2.0


def test_claims_are_audited() -> None:
    quick = {cell.settings["subject"]: cell for cell in claims.cells(1, True)}
    full = {cell.settings["subject"]: cell for cell in claims.cells(1, False)}
    assert set(quick) == set(full) - set(claims.SLOW)
    bad = {row.metric: row for row in claims.compute(quick["published/TLDP-L, first reading"].settings)}
    assert bad["claimed"].value == 1.0
    assert bad["at least"].value is not None
    assert bad["at least"].value > 1.0
    assert bad["at least"].status == "refuted"
    assert bad["at least"].note.startswith("violated (")
    good = {row.metric: row for row in claims.compute(quick["local/k-RR, epsilon 1"].settings)}
    assert good["at least"].value is not None
    assert 0 < good["at least"].value < 1.0
    assert (good["at least"].status, good["at least"].note) == ("proven", "no violation found")
