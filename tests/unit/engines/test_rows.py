"""Open fits on engines: rows are solved where the parts are, and agree with fits in memory."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.engines.answers import CHANGED, FAILED, UNSOUND, VERSION
from tensorveil.engines.rows import EngineRows, Moments, RowWork, run_rows
from tensorveil.engines.task import name_parts
from tensorveil.errors import InputError
from tensorveil.tensor.stored import StoreError
from tests.unit.engines.store_cases import open_fit, open_store, planted
from tests.unit.engines.test_loop import Shuffled, damaged


def predictions(fitted: Any) -> Any:
    return fitted.predict(planted().coords)


def test_a_penalty_by_entries_is_the_same_everywhere(tmp_path: Path) -> None:
    stored = open_store(tmp_path)
    changes: dict[str, Any] = {"regularization_per_entry": 0.05, "dtype": "float64"}
    expected = predictions(open_fit(**changes).fit(planted()))
    for engine in (None, Shuffled(2)):
        assert np.max(np.abs(predictions(open_fit(**changes).fit(stored, engine=engine)) - expected)) < 1e-7
    assert np.max(np.abs(predictions(open_fit(dtype="float64").fit(planted())) - expected)) > 1e-3
    refused: list[dict[str, Any]] = [{"solver": "bayes"}, {"solver": "als", "smooth": {"day": "walk"}}]
    for more in refused:
        with pytest.raises(InputError, match="regularization_per_entry"):
            tv.CP(2, regularization_per_entry=0.1, **more).fit(planted())


@pytest.mark.parametrize(("baseline", "dtype"), [("mean", "float32"), ("biases", "float64"), ("none", "float64")])
def test_fits_on_engines_agree_with_those_in_memory(tmp_path: Path, baseline: str, dtype: str) -> None:
    stored = open_store(tmp_path)
    whole = open_fit(baseline=baseline, dtype=dtype).fit(planted())
    spread = np.std(predictions(whole))
    assert spread > 0.05
    for engine in (None, Shuffled(2)):
        found = open_fit(baseline=baseline, dtype=dtype).fit(stored, engine=engine)
        assert np.max(np.abs(predictions(found) - predictions(whole))) < (1e-4 if dtype == "float32" else 1e-6) * spread
        assert found.n_iter_ == whole.n_iter_


@pytest.mark.parametrize("changes", [{}, {"baseline": "biases"}, {"dtype": "float64"}])
def test_bayes_on_a_store_agrees_with_bayes_in_memory(tmp_path: Path, changes: Any) -> None:
    stored = open_store(tmp_path)
    whole = tv.CP(3, sweeps=25, random_state=0, threads=1, **changes).fit(planted())
    for engine in (None, Shuffled(2)):
        found = tv.CP(3, sweeps=25, random_state=0, threads=1, **changes).fit(stored, engine=engine)
        assert whole.n_iter_ == found.n_iter_
        assert np.max(np.abs(predictions(whole) - predictions(found))) < 1e-7
        assert whole.noise_variance_ == pytest.approx(found.noise_variance_, rel=1e-9)
        assert whole.history_[-1].bound == pytest.approx(found.history_[-1].bound, rel=1e-9)


@pytest.mark.parametrize(("rank", "changes"), [((3, 2, 2), {}), (9, {"baseline": "biases", "sweeps": 4})])
def test_tucker_on_a_store_agrees_with_tucker_in_memory(tmp_path: Path, rank: Any, changes: Any) -> None:
    """Small cores are solved, large ones improved by steps that pass over all parts."""
    settings = {"solver": "als", "sweeps": 10, "random_state": 0, "threads": 1, "dtype": "float64"} | changes
    if rank == 9:
        rank = (12, 10, 5)
    stored = open_store(tmp_path)
    whole = tv.Tucker(rank, **settings).fit(planted())
    for engine in (None, Shuffled(3)):
        found = tv.Tucker(rank, **settings).fit(stored, engine=engine)
        assert whole.n_iter_ == found.n_iter_
        assert np.max(np.abs(predictions(whole) - predictions(found))) < 1e-7


def test_rows_without_entries_and_ranks_that_are_found(tmp_path: Path) -> None:
    """Matrices, of which rows between the parts, and at both ends, have no entry."""
    data = tv.synthetic_cp((60, 30), 2, random_state=1).train.with_modes(["user", "film"])
    rare = np.isin(data.columns[0], [0, 1, 17, 18, 40, 59]) | np.isin(data.columns[1], [0, 29])
    data = data.take(~rare)
    data.write(tmp_path / "m.parquet")
    order = ["user", "film"]
    stored = tv.write_store(
        tmp_path / "m.parquet", tmp_path / "m", order=order, indices=True, shape=(60, 30), part_rows=20
    )
    whole = tv.LowRankMatrix(sweeps=40, random_state=0, threads=1).fit(data)
    everywhere = np.argwhere(np.ones((60, 30)))
    for engine in (None, Shuffled(1)):
        found = tv.LowRankMatrix(sweeps=40, random_state=0, threads=1).fit(stored, engine=engine)
        assert whole.rank_ == found.rank_
        assert np.max(np.abs(whole.predict(everywhere) - found.predict(everywhere))) < 1e-6


def test_matrices_too(tmp_path: Path) -> None:
    data = tv.synthetic_cp((60, 30), 2, random_state=1).train.with_modes(["user", "film"])
    data.write(tmp_path / "m.parquet")
    stored = tv.write_store(
        tmp_path / "m.parquet", tmp_path / "m", order=["user", "film"], indices=True, shape=(60, 30), part_rows=50
    )
    fits = [
        open_fit(tv.LowRankMatrix, dtype="float64").fit(stored, engine=engine).predict(data.coords)
        for engine in (None, Shuffled(4))
    ]
    assert np.max(np.abs(fits[0] - fits[1])) < 1e-9


def test_the_cut_of_the_parts_and_their_schedule_change_rounding_at_most(tmp_path: Path) -> None:
    found = []
    for part_rows in (10, 100, 10_000):
        folder = tmp_path / str(part_rows)
        folder.mkdir()
        fitted = open_fit(dtype="float64").fit(open_store(folder, part_rows), engine=Shuffled(part_rows))
        found.append(predictions(fitted))
    assert max(np.max(np.abs(each - found[0])) for each in found) < 1e-9


def test_answers_are_codes_and_hold_no_data(tmp_path: Path) -> None:
    stored = open_store(tmp_path)
    work = EngineRows(engine=Shuffled(0), stored=stored).prepare(0, Moments(3.0))
    parts = stored.parts("user")
    assert run_rows(name_parts(stored, parts[:2]), work)[0] == 0
    facts = {**{name: getattr(work, name) for name in RowWork.__dataclass_fields__}}
    assert run_rows(name_parts(stored, parts), RowWork(**(facts | {"version": "9"}))) == bytes([VERSION])
    assert run_rows("nonsense", work) == bytes([FAILED])
    assert run_rows(name_parts(stored, parts), RowWork(**(facts | {"shape": (9, 9, 9)}))) == bytes([UNSOUND])
    damaged(stored, "changed")
    assert run_rows(name_parts(stored, parts), work) == bytes([CHANGED])
    with pytest.raises(StoreError):
        open_fit().fit(stored, engine=Shuffled(0))


def test_what_engines_are_not_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for engine in ("loop", Shuffled(0)):
        with pytest.raises(InputError, match="write_store"):
            open_fit().fit(planted(), engine=engine)
    stored = open_store(tmp_path)
    with pytest.raises(InputError, match="restarts"):
        tv.CP(2, restarts=2).fit(stored)
    refused: list[dict[str, Any]] = [{"solver": "sgd"}, {"loss": "poisson"}, {"smooth": {"day": "walk"}}]
    for changes in refused:
        with pytest.raises(InputError, match="needs all entries in memory"):
            tv.CP(2, **changes).fit(stored)
    with pytest.raises(InputError, match="needs all entries in memory"):
        tv.Tucker(2).fit(stored)
    wanted = tmp_path / "wanted.csv"
    wanted.write_text("user,film,day\n0,3,1\n")
    words = ["complete", tmp_path / "open", "--solver", "als", "--rank", "2", "--no-report", "--at", wanted, "-o"]
    assert run([*map(str, words), str(tmp_path / "r"), "--engine", "loop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
