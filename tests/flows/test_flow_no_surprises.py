"""No surprises with the budget: nobody spends without being told, and less than was asked for is said in a sentence."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.privacy import Budget, Ledger
from tests.flows.private_cases import complete, new_ledger, write_table
from tests.flows.test_flow_slice import complete as complete_slice

PROMISE: dict[str, Any] = {"epsilon": 3.0, "delta": 0.0, "unit": "value", "bounds": (0, 1), "method": "mean"}


def ratings() -> tv.ObservedTensor:
    return tv.synthetic_cp((12, 9), 1, random_state=0).train.with_bounds((0, 1), out_of_bounds="clip")


def test_a_fit_that_nobody_counts_warns_once_before_anything_is_computed() -> None:
    tensor = ratings()
    tv.PrivateCP(1, noise_seed=1, **PROMISE).fit(tensor)  # what is imported at first makes Python forget what it told
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            tv.PrivateCP(1, **PROMISE).fit(tensor)
    assert [each.category for each in told] == [tv.NoLedgerWarning]
    assert "epsilon = 3" in str(told[0].message)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", tv.NoLedgerWarning)
        refused = tv.PrivateCP(1, **PROMISE)
        with pytest.raises(tv.NoLedgerWarning):
            refused.fit(tensor)
        assert not hasattr(refused, "release_id_")


def test_a_counted_fit_and_one_with_seeded_noise_do_not_warn(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=9.0, delta=0.0), unit="value", name="ratings")
    with warnings.catch_warnings():
        warnings.simplefilter("error", tv.NoLedgerWarning)
        tv.PrivateCP(1, ledger=ledger, **PROMISE).fit(ratings())
        tv.PrivateCP(1, noise_seed=1, **PROMISE).fit(ratings())
        tv.CP(1, random_state=0).fit(ratings())


def test_copies_for_a_search_warn_and_name_the_charged_way(tmp_path: Path) -> None:
    base = pytest.importorskip("sklearn.base")
    private = tv.PrivateCP(2, **PROMISE).set_output(predict="pandas")
    with pytest.warns(tv.NoLedgerWarning, match="choose_privately"):
        copy = base.clone(private)
    assert copy.get_params() == private.get_params()
    assert copy._sklearn_output_config == {"predict": "pandas"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", tv.NoLedgerWarning)
        base.clone(tv.PrivateCP(2, ledger=str(tmp_path / "x.ledger"), **PROMISE))
        base.clone(tv.CP(2))


def test_a_search_warns_once_though_it_makes_python_forget() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    frame = pytest.importorskip("pandas").DataFrame(ratings().coords, columns=["user", "film"])
    private = tv.PrivateCP(1, shape=(12, 9), **PROMISE)
    search = selection.GridSearchCV(private, {"rank": [1, 2]}, cv=3, scoring=lambda fitted, x, y: -fitted.rmse(x, y))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        search.fit(frame, ratings().values)
        for _ in range(3):
            selection.cross_val_score(search.estimator, frame, ratings().values, scoring=search.scoring)
    assert [each.category for each in told] == [tv.NoLedgerWarning]
    assert "choose_privately" in str(told[0].message)
    with pytest.warns(tv.NoLedgerWarning, match="no ledger is given"):  # the one that was copied counts for itself
        search.estimator.fit(frame, ratings().values)


def test_what_was_guessed_of_a_file_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"us\xe9r {k % 5},film {k % 7},{k % 4 + 1}\n" for k in range(35))
    (tmp_path / "old.csv").write_bytes(f"user,film,rating\n{rows}".encode("latin-1"))
    quick = ["--rank", "1", "--sweeps", "2", "--threads", "1", "--no-report", "--no-fill"]
    assert run(["complete", str(tmp_path / "old.csv"), "--value", "rating", *quick, "-o", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().err.count("note: ") == 1
    given = ["--at", str(tmp_path / "old.csv"), "--value", "rating"]
    assert run(["evaluate", str(tmp_path / "r" / "model.npz"), *given]) == 0
    assert capsys.readouterr().err.count("note: ") == 1
    assert run(["recommend", str(tmp_path / "r"), "--for", "user", "--entries", str(tmp_path / "old.csv")]) == 0
    assert capsys.readouterr().err.count("note: ") == 1


def test_less_than_the_rank_is_said_in_the_result_and_before_in_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    sentence = "Rank 2 is asked for, but biases and traits alone"
    plan = ["plan", "--unit", "slice:user", "--shape", "14,9", "--entries", "80", "--rank", "2", "--epsilon", "2"]
    assert run([*plan, "--delta", "1e-5", "--bounds", "1", "5", "--modes", "user,film"]) == 0
    assert f"{sentence} would be released" in " ".join(capsys.readouterr().out.split())
    assert complete_slice(path, tmp_path / "release", "--json") == 0
    told = capsys.readouterr()
    assert f"note: {sentence} would be released" in told.err  # before anything is charged
    notes = json.loads(told.out)["notes"]
    assert len(notes) == 1
    assert notes[0].startswith(f"{sentence} are released: noise would drown")
    for name in ("MODEL_CARD.md", "report.html"):
        assert sentence in (tmp_path / "release" / name).read_text(encoding="utf-8")


def test_less_than_the_rank_is_said_before_the_charge(tmp_path: Path) -> None:
    budget = Budget(epsilon=9.0, delta=1e-4)
    ledger = Ledger.create(tmp_path / "x.ledger", budget=budget, unit="slice:user", name="ratings")
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:user", "bounds": (0, 1), "shape": (12, 9)}
    made = ratings().with_modes(("user", "film"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tv.LowerRankWarning)
        with pytest.raises(tv.LowerRankWarning, match="Rank 3 is asked for, but biases and traits alone would be"):
            tv.UserLevelCP(3, ledger=ledger, **promise).fit(made)
        assert Ledger.open(tmp_path / "x.ledger").entries() == ()
        tv.UserLevelCP(3, ledger=ledger, method="biases", **promise).fit(made)  # as it was asked for
    assert len(Ledger.open(tmp_path / "x.ledger").entries()) == 1


@pytest.mark.parametrize("what", ["at", "output", "memory", "folder"])
def test_what_cannot_succeed_costs_nothing(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ratings.ledger")
    (tmp_path / "questions.csv").write_text("user,film\nnobody,1\n", encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    options: dict[str, tuple[Path, list[str]]] = {
        "at": (tmp_path / "release", ["--at", str(tmp_path / "questions.csv")]),
        "output": (tmp_path / "file" / "release", []),
        "memory": (tmp_path / "release", ["--max-memory", "1000"]),
        "folder": (Path("/proc/release"), []),
    }
    output, more = options[what]
    assert complete(path, output, "--ledger", ledger, *more) != 0
    assert "charged" not in capsys.readouterr().err
    assert Ledger.open(ledger).entries() == ()


@pytest.mark.parametrize(("unit", "told"), [("value", "sweeps for components"), ("entry", "one-way tables")])
def test_a_private_fit_says_how_far_its_steps_have_come(unit: str, told: str, tmp_path: Path) -> None:
    tensor = tv.synthetic_cp((40, 30), 1, random_state=0).train.with_bounds((0, 1), out_of_bounds="clip")
    seen: list[tuple[str, int, int]] = []
    promise = PROMISE | {"unit": unit, "shape": (40, 30), "epsilon": 20.0, "method": "auto"}
    fitted = tv.PrivateCP(1, noise_seed=3, random_state=0, threads=1, **promise)
    fitted.fit(tensor, progress=lambda *each: seen.append(each))
    assert told in {what for what, _, _ in seen}
    assert all(0 <= done <= total for _, done, total in seen)
    quiet = tv.PrivateCP(1, noise_seed=3, random_state=0, threads=1, **promise).fit(tensor)
    for one, other in zip(fitted.model_.factors, quiet.model_.factors, strict=True):
        assert one.tobytes() == other.tobytes()  # listening changes nothing
