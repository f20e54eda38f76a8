from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tensorveil.cli.main import run
from tensorveil.models import CPModel, TuckerModel, load_model
from tensorveil.release.result import make_plain
from tests.flows.flow_cases import SHAPE, complete, planted_tensor, summary_of, written


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".tns", ".npz"])
def test_from_a_file_to_filled_entries(tmp_path: Path, ending: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = written(tmp_path, ending), tmp_path / "result"
    assert complete(path, output, "--bounds", -6, 6) == 0
    text = capsys.readouterr().out
    assert "12 x 9 x 4" in text
    assert "model.npz" in text

    tensor, _ = planted_tensor()
    model = load_model(output / "model.npz")
    assert isinstance(model, CPModel)
    assert model.shape == SHAPE
    assert model.bounds == (-6.0, 6.0)
    filled = pq.read_table(output / "filled.parquet")
    assert filled.num_rows == math.prod(SHAPE) - tensor.n_entries
    columns = {name: filled.column(name).to_pylist() for name in filled.column_names[:-1]}
    np.testing.assert_allclose(model.predict_labels(columns), filled.column("value").to_numpy())
    assert sorted(found.name for found in output.iterdir()) == sorted(summary_of(output)["files"])


def test_filled_entries_are_the_missing_ones_and_near_the_truth(tmp_path: Path) -> None:
    tensor, dense = planted_tensor()
    path, output = written(tmp_path, ".csv"), tmp_path / "result"
    options = ("--regularization", 0.01, "--filled-format", "csv", "--value", "value", "--sweeps", 200)
    assert complete(path, output, *options) == 0
    filled = pyarrow.csv.read_csv(output / "filled.csv")
    users = {label: i for i, label in enumerate(tensor.modes[0].labels.tolist())}
    index = (
        [users[label] for label in filled.column("user").to_pylist()],
        (filled.column("film").to_numpy() - 100) // 7,
        [int(label[1:]) for label in filled.column("week").to_pylist()],
    )
    seen = {tuple(row) for row in tensor.coords.tolist()}
    assert seen.isdisjoint(zip(*(np.asarray(part).tolist() for part in index), strict=True))
    errors = filled.column("value").to_numpy() - dense[index]
    assert np.sqrt(np.mean(errors**2)) < 0.3 * dense.std()


def test_tucker_asked_cells_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output, asked = written(tmp_path, ".parquet"), tmp_path / "result", tmp_path / "asked.csv"
    asked.write_text("week,film,user\nw0,100,user 03\nw3,107,user 11\n")
    options = ("--model", "tucker", "--rank", "2,2,1", "--baseline", "biases", "--at", asked, "--json")
    assert complete(path, output, *options, "--validation", 0.2, "--restarts", 2) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert summary == summary_of(output)
    assert (summary["rank"], summary["filled"]) == ([2, 2, 1], 2)
    assert summary["fit"]["validation_rmse"] > 0
    assert {record["restart"] for record in summary["fit"]["history"]} == {0, 1}
    model = load_model(output / "model.npz")
    assert isinstance(model, TuckerModel)
    assert model.biases is not None
    filled = pq.read_table(output / "filled.parquet").column("value").to_numpy()
    np.testing.assert_allclose(filled, model.predict([[3, 0, 0], [11, 1, 3]]))

    answers = tmp_path / "answers.csv"
    predicting = ["predict", str(output / "model.npz"), "--at", str(asked), "-o", str(answers)]
    assert run([*predicting, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"output": str(answers), "predictions": 2}
    np.testing.assert_allclose(pyarrow.csv.read_csv(answers).column("value").to_numpy(), filled)
    assert run(predicting) == 2
    assert "--force" in capsys.readouterr().err
    assert run([*predicting, "--force", "--value", "rating"]) == 0
    assert pyarrow.csv.read_csv(answers).column_names == ["user", "film", "week", "rating"]


def test_the_model_alone_and_the_same_seed_twice(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv")
    for name in ("one", "two"):
        assert complete(path, tmp_path / name, "--no-fill", "--seed", 5) == 0
        assert sorted(found.name for found in (tmp_path / name).iterdir()) == [
            "model.npz",
            "report.html",
            "summary.json",
        ]
    assert (tmp_path / "one" / "model.npz").read_bytes() == (tmp_path / "two" / "model.npz").read_bytes()


def test_a_second_run_needs_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = written(tmp_path, ".csv"), tmp_path / "result"
    assert complete(path, output) == 0
    before = (output / "model.npz").read_bytes()
    assert complete(path, output, "--seed", 1) == 2
    assert "--force" in capsys.readouterr().err
    assert (output / "model.npz").read_bytes() == before
    assert complete(path, output, "--seed", 1, "--filled-format", "csv", "--force") == 0
    assert not (output / "filled.parquet").exists()


def test_numbers_that_json_cannot_say_become_null() -> None:
    content = {"a": (np.float64(1.5), np.int32(2), float("nan")), "b": np.array([1, 2])}
    assert make_plain(content) == {"a": [1.5, 2, None], "b": [1, 2]}


@pytest.mark.parametrize("solver", ["bayes", "sgd"])
def test_every_solver_is_within_reach(tmp_path: Path, solver: Any) -> None:
    assert complete(written(tmp_path, ".csv"), tmp_path / "result", "--solver", solver, "--sweeps", 3) == 0
    assert summary_of(tmp_path / "result")["options"]["solver"] == solver


def test_features_of_a_mode_from_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output, table = written(tmp_path, ".csv"), tmp_path / "result", tmp_path / "films.csv"
    table.write_text("film,year\n" + "".join(f"{100 + 7 * j},{1990 + j}\n" for j in range(SHAPE[1])))
    assert complete(path, output, "--side", f"film={table}") == 0
    assert complete(path, tmp_path / "plain") == 0
    assert summary_of(output)["options"]["side"] == ["film"]
    models = [load_model(folder / "model.npz") for folder in (output, tmp_path / "plain")]
    assert not np.allclose(models[0].dense(), models[1].dense())
    capsys.readouterr()
    assert complete(path, tmp_path / "no", "--side", "film=nowhere.csv") != 0
    assert "not found" in capsys.readouterr().err
    private = ("--epsilon", "1", "--unit", "value", "--bounds", "-6", "6", "--side", f"film={table}")
    assert run(["complete", str(path), "--output", str(tmp_path / "no"), *private]) != 0
    assert "--side cannot be used" in capsys.readouterr().err


def test_patterns_and_the_mean_of_several_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = written(tmp_path, ".csv"), tmp_path / "result"
    asked = ("--implicit", "film,user", "--restarts", 2, "--keep", "mean")
    assert complete(path, output, "--solver", "bayes", "--rank", 2, *asked) == 0
    options = summary_of(output)["options"]
    assert (options["implicit"], options["keep"]) == (["film", "user"], "mean")
    assert load_model(output / "model.npz").rank == 4
    capsys.readouterr()
    for option in (("--implicit", "film"), ("--keep", "mean")):
        private = ("--epsilon", "1", "--unit", "value", "--bounds", "-6", "6", *option)
        assert run(["complete", str(path), "--output", str(tmp_path / "no"), *private]) != 0
        assert f"{option[0]} cannot be used" in capsys.readouterr().err


def test_smooth_modes_and_the_time_that_they_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = written(tmp_path, ".csv"), tmp_path / "result"
    assert complete(path, output, "--smooth", "week=cycle", "--smooth", "film+week=walk", "--sweeps", 5) == 0
    model = load_model(output / "model.npz")
    assert model.remainder is not None
    assert model.remainder.shape == SHAPE
    filled = pq.read_table(output / "filled.parquet")
    columns = {name: filled.column(name).to_pylist() for name in filled.column_names[:-1]}
    np.testing.assert_allclose(model.predict_labels(columns), filled.column("value").to_numpy())

    for wrong in ("week", "=walk", "week=spiral", "month=walk"):
        assert complete(path, tmp_path / "no", "--smooth", wrong) != 0
        assert not (tmp_path / "no").exists()
    capsys.readouterr()
    assert complete(path, tmp_path / "no", "--smooth", "week=walk", "--smooth", "week=cycle") != 0
    assert "twice" in capsys.readouterr().err
    private = ("--epsilon", "1", "--unit", "entry", "--bounds", "-6", "6", "--smooth", "week=walk")
    assert run(["complete", str(path), "--output", str(tmp_path / "no"), *private]) != 0
    assert "--smooth cannot be used" in capsys.readouterr().err


def test_smooth_modes_of_a_private_run_are_public_and_free(tmp_path: Path) -> None:
    path, output = written(tmp_path, ".csv"), tmp_path / "release"
    private = ("--epsilon", "1", "--unit", "value", "--bounds", "-6", "6", "--smooth", "week=walk")
    assert run(["complete", str(path), "--value", "value", "--output", str(output), *private]) == 0
    guarantee = json.loads((output / "guarantee.json").read_text())
    assert guarantee["public"][1:] == ["that neighbours in mode 'week' may be alike"]
    assert guarantee["epsilon"] == 1.0
    assert "that neighbours in mode" in (output / "report.html").read_text()
