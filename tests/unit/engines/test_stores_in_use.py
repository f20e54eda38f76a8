"""What takes a tensor takes a store: splits, comparing, planning, predicting, recommending."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import InputError
from tests.unit.engines.store_cases import MODES, SHAPE, estimator, in_memory, make_store, ratings

ORDER = list(MODES)


def rows_of(tensor: Any) -> list[tuple[float, ...]]:
    return sorted(map(tuple, np.column_stack([tensor.coords, tensor.values]).tolist()))


def open_store(folder: Path, n: int = 700, seed: int = 0, part_rows: int = 90, order: Any = ORDER) -> Any:
    tensor = ratings(n, seed)
    tensor.write(folder / "open.parquet")
    return tv.write_store(
        folder / "open.parquet", folder / "open", order=order, indices=True, shape=SHAPE, duplicates="first",
        part_rows=part_rows,
    )  # fmt: skip


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 300), part_rows=st.integers(1, 200), share=st.floats(0.01, 0.9))
def test_a_store_is_split_as_its_entries_in_memory_are(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, part_rows: int, share: float
) -> None:
    folder = tmp_path_factory.mktemp("split")
    stored = open_store(folder, n, seed, part_rows, order=["user", "day"])
    whole = stored.load()
    parts = tv.split_store(stored, folder / "train", folder / "test", share, random_state=seed)
    for found, expected in zip(parts, tv.cell_split(whole, share, random_state=seed), strict=True):
        assert found.n_entries == expected.n_entries
        assert found.origin == expected.origin
        assert list(found.orders) == ["user", "day"]
        for mode in found.orders:
            read = [found.read_part(mode, part) for part in found.parts(mode)]
            assert sorted(row for each in read for row in rows_of(each)) == rows_of(expected)


def test_a_part_of_a_private_store_is_fitted_and_stays_private(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings())
    train, _ = tv.split_store(stored.folder, tmp_path / "train", tmp_path / "test", 0.3, random_state=1)
    kept, _ = tv.cell_split(in_memory(tmp_path), 0.3, random_state=1)
    models = [estimator().fit(data).model_ for data in (train, kept)]
    for one, other in zip(models[0].factors, models[1].factors, strict=True):
        assert np.array_equal(one, other)
    assert not train.folder.stat().st_mode & 0o077


def test_splits_that_cannot_be_say_so(tmp_path: Path) -> None:
    stored = open_store(tmp_path)
    with pytest.raises(InputError, match="two folders"):
        tv.split_store(stored, tmp_path / "a", tmp_path / "a")
    with pytest.raises(InputError, match="fraction"):
        tv.split_store(stored, tmp_path / "a", tmp_path / "b", 1.5)
    assert not (tmp_path / "a").exists()
    for split in (tv.cell_split, tv.random_split):
        with pytest.raises(InputError, match="split_store"):
            split(stored, 0.2)


def test_a_store_is_compared_as_a_tensor_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = open_store(tmp_path)
    fitted = tv.CP(2, solver="als", random_state=0).fit(stored)
    of_store, of_tensor = (tv.evaluate(fitted, data).to_json() for data in (stored, stored.load()))
    assert of_store["cells"] == of_tensor["cells"]
    assert of_store["rmse"] == pytest.approx(of_tensor["rmse"], rel=1e-12)
    assert of_store["calibration"]["error"] == pytest.approx(of_tensor["calibration"]["error"], rel=1e-9)
    fitted.save(tmp_path / "model.npz")
    assert run(["evaluate", str(tmp_path / "model.npz"), "--at", str(stored.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rmse"] == of_store["rmse"]
    with pytest.raises(InputError, match=r"stored\.load"):
        tv.evaluate(fitted, stored, along="film")


def test_a_plan_reads_the_manifest_of_a_store_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = open_store(tmp_path)
    for part in stored.folder.rglob("*.parquet"):
        part.unlink()
    asked = ["--bounds", "1", "5", "--epsilon", "1", "--json"]
    assert run(["plan", str(stored.folder), *asked]) == 0
    of_store = json.loads(capsys.readouterr().out)
    sizes = ["--shape", ",".join(map(str, SHAPE)), "--entries", str(stored.n_entries)]
    assert run(["plan", *sizes, *asked]) == 0
    assert json.loads(capsys.readouterr().out) == of_store
    private = make_store(tmp_path, ratings())
    assert run(["plan", str(private.folder), *asked]) == 2  # of which positions are private
    assert run(["plan", str(stored.folder), "--unit", "entry", *asked]) == 2


@pytest.mark.parametrize("users", [None, "all", "5,3,77", "79"])
def test_recommendations_by_a_store_are_those_by_its_file(tmp_path: Path, users: Any) -> None:
    stored = open_store(tmp_path, n=60, part_rows=7)  # many have no entry
    fitted = tv.CP(2, solver="als", regularization=0.1, random_state=0).fit(
        tv.ObservedTensor(ratings().coords, ratings().values, SHAPE, modes=MODES, duplicates="first")
    )
    fitted.save(tmp_path / "model.npz")
    chosen = [] if users is None else ["--users", users]
    tables = []
    for name, entries in (("file", tmp_path / "open.parquet"), ("store", stored.folder)):
        output = tmp_path / f"{name}.parquet"
        words = ["recommend", tmp_path / "model.npz", "--for", "user", "--along", "film", "--top", "4"]
        assert run([*map(str, words), *chosen, "--entries", str(entries), "-o", str(output)]) == 0
        tables.append(pq.read_table(output))
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows


def test_people_are_served_from_a_store(tmp_path: Path) -> None:
    cells, first = np.unique(ratings(300).coords, axis=0, return_index=True)
    tensor = tv.ObservedTensor(cells, ratings(300).values[first], SHAPE, modes=MODES)
    stored = make_store(tmp_path, tensor, part_rows=20)
    fitted = estimator(method="biases").fit(stored)
    fitted.save(tmp_path / "model.npz")
    who = np.unique(in_memory(tmp_path).columns[0])[[7, 2, 20]]
    asked = tmp_path / "asked.csv"
    asked.write_text("user,film,day\n" + "".join(f"{user},{film},1\n" for user in who for film in (3, 9)))
    answers = []
    for name, entries in (("file", tmp_path / "store.parquet"), ("store", stored.folder)):
        outputs = [tmp_path / f"{name}{k}.parquet" for k in range(3)]
        base = [str(tmp_path / "model.npz"), "--entries", str(entries)]
        assert run(["predict", *base, "--at", str(asked), "-o", str(outputs[0])]) == 0
        for output, users in zip(outputs[1:], ([], ["--users", ",".join(map(str, who))]), strict=True):
            listed = ["--for", "user", "--along", "film", "--top", "3", *users]
            assert run(["recommend", *base, *listed, "-o", str(output)]) == 0
        answers.append([pq.read_table(output).to_pylist() for output in outputs])
    for of_file, of_store in zip(*answers, strict=True):
        assert of_file
        assert [list(row.values())[:-1] for row in of_file] == [list(row.values())[:-1] for row in of_store]
        values = [[list(row.values())[-1] for row in rows] for rows in (of_file, of_store)]
        assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_a_store_that_is_numbered_otherwise_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = open_store(tmp_path)
    other = tv.CP(2, random_state=0).fit(tv.synthetic_cp(SHAPE, 2, random_state=0).train)
    other.save(tmp_path / "model.npz")
    for verb in (["evaluate", "--at"], ["recommend", "--for", "mode_0", "--along", "mode_1", "--entries"]):
        assert run([verb[0], str(tmp_path / "model.npz"), *verb[1:], str(stored.folder)]) == 2
        assert "not those of the model" in " ".join(capsys.readouterr().err.split())
