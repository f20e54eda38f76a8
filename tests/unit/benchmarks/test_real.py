"""The benchmark on real tensors, on made-up figures and a tiny tensor: goals, tables, resuming, the noisy table."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import real, real_report
from benchmarks.real_tensors import Problem

import tensorveil as tv


def row(method: str, rmse: Any, epsilon: Any = 1.0, **others: Any) -> dict[str, Any]:
    found = {"tensor": "nations", "method": method, "epsilon": epsilon, "delta": 0.0, "draw": 0, "rmse": rmse}
    return found | {"bias": 0.0, "auc": None} | others


CONSTANT = row("constant", 1.0, None, shape=[14, 14, 55], entries=20_000, mean=0.2, bias=0.01, auc=0.5)


def verdicts(rows: Any, before: Any = ()) -> Any:
    """Return whether each goal is reached, by its number."""
    return {int(goal[1]): passed for goal, passed, _ in real_report.check_goals(rows, list(before))}


def test_goals_that_are_reached() -> None:
    rows = [CONSTANT]
    for epsilon, error, area in ((0.3, 0.9, 0.6), (1.0, 0.8, 0.7), (3.0, 0.5, 0.9)):
        told = {"inside": 0.88, "estimate": 1.1 * error}
        rows.append(row("auto", error, epsilon, auc=area, bias=0.005, **told))
        rows.append(row("margins", error / 1.04, epsilon, auc=area))
        rows += [row("noisy table", error + 0.1, epsilon)]
    before = [row("auto", 1.0, epsilon) for epsilon in (0.3, 1.0, 3.0)]
    assert verdicts(rows, before) == dict.fromkeys(range(1, 10), True)
    assert "0.9000 (tensors: 1)" in real_report.state_goals(rows, before)


def test_goals_that_are_missed() -> None:
    rows = [CONSTANT]
    for epsilon, error, area in ((0.3, 0.9, 0.6), (1.0, 0.8, 0.7), (3.0, 1.02, 0.6)):
        told = {"inside": 0.86, "estimate": 1.3 * error}
        rows += [row("auto", error, epsilon, auc=area, bias=0.007, **told), row("margins", 0.75, epsilon, auc=0.65)]
        rows += [row("noisy table", 0.85, epsilon)]
    before = [row("auto", 0.9, epsilon) for epsilon in (0.3, 1.0, 3.0)]
    assert verdicts(rows, before) == dict.fromkeys(range(1, 10), False)


def test_goals_without_figures_are_not_measured() -> None:
    assert verdicts([CONSTANT, row("auto", None, bias=None, error="broken")]) == dict.fromkeys(range(1, 10), None)
    assert real_report.state_goals([], []) == "Nothing was measured yet."


def test_one_cell_in_twenty_may_be_five_percent_off_and_none_ten() -> None:
    def rows(loss: float) -> Any:
        losses = [loss, *[0.04] * 19]
        found = [row("auto", 1 + x, float(epsilon)) for epsilon, x in enumerate(losses, 1)]
        return [*found, *(row("input", 1.0, float(epsilon)) for epsilon in range(1, 21))]

    assert verdicts(rows(0.09))[1] is True
    assert verdicts(rows(0.11))[1] is False


def test_a_step_up_within_two_standard_errors_is_allowed() -> None:
    """Draws of 1 and 1.2 have a standard error of 0.1, so a step between two such means one of 0.141."""
    first = [row("auto", error, 1.0, draw=draw) for draw, error in enumerate((1.0, 1.2))]
    for step, passed in ((0.28, True), (0.29, False)):
        second = [row("auto", error + step, 3.0, draw=draw) for draw, error in enumerate((1.0, 1.2))]
        assert verdicts([*first, *second])[3] is passed


def test_older_results_are_compared_by_the_geometric_mean() -> None:
    new = [row("auto", 0.5), row("auto", 3.0, tensor="bikes")]
    old = [row("auto", 1.0), row("auto", 1.0, tensor="bikes")]
    passed, figures = real_report.check_older(real_report.Figures(new, "rmse"), real_report.Figures(old, "rmse"))
    assert (passed, figures) == (False, ["delta 0, epsilon 1: 1.2247 (tensors: 2)"])


def test_groups_are_judged_apart() -> None:
    rows = [row("auto", 0.9), row("auto", 0.9, tensor="umls")]
    text = real_report.state_goals(rows, [])
    assert [title in text for title in real_report.GROUPS.values()] == [True, True]
    assert text.count("1 runs") == 2


def test_tables_hold_means_over_the_constant_and_the_best_fixed_method() -> None:
    rows = [CONSTANT | {"rmse": 2.0}, row("auto", 1.0, inside=0.9, estimate=1.1, auc=0.75), row("auto", 1.2, draw=1)]
    rows += [row("margins", 1.0, auc=0.7), row("input", 1.5), row("auto", 0.8, 3.0), row("auto", 0.8, delta=1e-6)]
    text = real_report.list_tables(rows)
    assert "| RMSE over the constant's, epsilon | 1 | 3 |\n|---|---|---|\n" in text
    assert "| nations | **0.550** (0.500 margins) | 0.400 |" in text
    assert "| RMSE over the constant's, delta 1e-06, epsilon | 1 |\n|---|---|\n| nations | 0.400 |" in text
    assert "| AUC, epsilon | 1 |\n|---|---|\n| nations | 0.750 (0.700) |" in text
    assert "| own estimate over the error, inside, epsilon | 1 |\n|---|---|\n| nations | 1.10, 0.90 |" in text
    assert real_report.list_tables([]) == "Nothing was measured yet."


def test_the_page_keeps_what_stands_around_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{real.BEGIN}\nold\n{real.END}\nafter\n")
    monkeypatch.setattr(real, "PAGE", page)
    real.write_page("new")
    assert page.read_text() == f"before\n{real.BEGIN}\n\nnew\n\n{real.END}\nafter\n"
    assert real.BEGIN in (Path(real.__file__).parents[1] / "docs" / "explanation" / "real-data.md").read_text()


def test_a_noisy_table_holds_means_of_cells() -> None:
    """With no noise to speak of; a cell without entries gets the mean of all, and nothing leaves the bounds."""
    train = tv.ObservedTensor(np.array([[0, 0], [0, 1], [2, 0]]), np.array([1.0, 2.0, 6.0]), shape=(3, 2000))
    held = np.array([[0, 7], [1, 7], [2, 7]])
    assert real.choose_table(train.shape, train.n_entries) == (0,)
    means = real.predict_noisy_table(train, held, (0, 10), 1e9, np.random.default_rng(0))
    assert means == pytest.approx([1.5, 3.0, 6.0])
    noisy = real.predict_noisy_table(train, held, (0, 10), 1e-3, np.random.default_rng(0))
    assert set(noisy) <= {0.0, 10.0}


def test_the_noise_of_a_table_has_the_scale_of_the_bounds() -> None:
    """One value moves one sum by at most the bounds' width."""
    coords = np.stack([np.arange(20_000), np.zeros(20_000)], axis=1).astype(int)
    train = tv.ObservedTensor(coords, np.full(20_000, 50.0), shape=(20_000, 1))
    found = real.predict_noisy_table(train, coords, (-1000, 1000), 200.0, np.random.default_rng(0))
    assert np.mean(np.abs(found - 50.0)) == pytest.approx(2000 / 200, rel=0.05)


def test_the_table_is_chosen_by_its_number_of_cells() -> None:
    assert real.choose_table((100, 10, 20), 20 * 1000) == (0, 1)
    assert real.choose_table((100, 10, 20), 20 * 200) == (1, 2)


def test_areas_count_ties_half() -> None:
    truth = np.array([1.0, 0.0, 1.0, 0.0])
    assert real.auc(np.array([3.0, 1.0, 2.0, 2.0]), truth) == 0.875
    assert real.auc(np.zeros(4), truth) == 0.5
    assert real.auc(np.zeros(2), np.zeros(2)) is None


def fake(key: Any) -> Any:
    found = dict(zip(real.KEY, key, strict=True))
    return found | ({"error": "broken"} if found["method"] == "input" else {"rmse": 1.0})


def test_a_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers))
    monkeypatch.setattr(real, "measure", fake)
    path = tmp_path / "real.jsonl"
    keys = list(real.list_runs(["nations"], ["auto", "input"], [1.0, 3.0], [0.0, 1e-6], 2))
    assert len(keys) == len(set(keys)) == 3 + 2 * (2 + 2 * 2 * 2)
    real.run(keys[:5], path, 2)
    with path.open("a") as file:
        file.write('{"tensor": "nati')  # the machine went down
    real.run(keys, path, 2)
    lines = path.read_text().splitlines()
    assert len(lines) == len(keys)
    assert {tuple(json.loads(line)[name] for name in real.KEY) for line in lines} == set(keys)
    real.run(keys, path, 2)  # only what had failed is tried again
    again = [json.loads(line)["method"] for line in path.read_text().splitlines()[len(keys) :]]
    assert again == ["input"] * 8
    assert len(real_report.read_rows(path)) == len(keys)


def test_runs_with_a_delta_that_do_not_use_it_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers))
    monkeypatch.setattr(real, "measure", lambda key: fake(key) | {"noise": "laplace"})
    monkeypatch.setattr(real, "choose_noise", lambda key: "gaussian" if key[2] < 1.0 else "laplace")
    path = tmp_path / "real.jsonl"
    real.run(list(real.list_runs(["nations"], ["auto"], [0.3, 1.0], [0.0], 1)), path, 1)
    real.run(list(real.list_runs(["nations"], ["auto"], [0.3, 1.0], [0.0, 1e-6], 1)), path, 1)
    rows = {(each["delta"], each["epsilon"]): each for each in real_report.read_rows(path) if each["method"] == "auto"}
    assert [at for at, each in rows.items() if each.get("copied")] == [(1e-6, 1.0)]
    assert len(rows) == 4


def test_a_run_that_is_copied_would_have_given_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = tv.synthetic_cp((12, 11, 10), 2, random_state=0).train
    problem = Problem(train=truth, held=np.asarray(truth.coords[:50]), truth=np.asarray(truth.values[:50]))
    monkeypatch.setattr(real, "load_problem", lambda name: problem)
    keys = [("nations", "margins", 3.0, delta, 0) for delta in (0.0, 1e-6)]
    assert [real.choose_noise(key) for key in keys] == ["laplace"] * 2
    pure, twin = (real.measure(key) | {"seconds": 0, "delta": 0} for key in keys)
    assert pure == twin


def test_what_goes_wrong_is_recorded() -> None:
    found = real.measure(("no such tensor", "auto", 1.0, 0.0, 0))
    assert found["error"].startswith("KeyError")
    assert "rmse" not in found


def test_a_line_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = tv.synthetic_cp((8, 7, 6), 2, random_state=0).train
    problem = Problem(
        train=truth, held=np.asarray(truth.coords[:50]), truth=(np.asarray(truth.values[:50]) > 0.5).astype(float)
    )
    monkeypatch.setattr(real, "load_problem", lambda name: problem)
    for method, noise in (("margins", "laplace"), ("noisy table", "laplace"), ("fit", None), ("constant", None)):
        found = real.measure(("nations", method, 1.0, 0.0, 0))
        assert {"rmse", "bias", "auc", "seconds", "noise"} <= found.keys(), found
        assert found["noise"] == noise
    assert found["shape"] == (8, 7, 6)
    assert found["bias"] == pytest.approx(truth.values.mean() - problem.truth.mean())


def test_tensors_that_are_set_aside_run_only_together() -> None:
    usual, aside = real.choose_tensors(None, False), real.choose_tensors(None, True)
    assert set(usual) & set(aside) == set()
    assert "umls" in aside
    with pytest.raises(SystemExit, match="unknown or set aside: umls"):
        real.choose_tensors(["nations", "umls"], False)


def test_the_data_folder_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    with pytest.raises(SystemExit, match="TENSORVEIL_DATA"):
        real.main(["run"])
