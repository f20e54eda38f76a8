"""Frames in, frames out: from a table with names to predictions with the same names."""

from __future__ import annotations

import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import tensorveil as tv
from tensorveil.cli.main import run as run_command
from tensorveil.tensor.given import frame_to_tensor

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

MODES = ["user", "film", "day"]


def ratings(n: int = 240) -> Any:
    """Return a frame with text, number and date labels, and an index of its own."""
    rng = np.random.default_rng(3)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 5, n), "D")
    user, film = rng.integers(0, 8, n), rng.integers(100, 110, n)
    rating = 3 + 0.2 * (user - 4) + 0.1 * (film - 105)
    frame = pd.DataFrame({"user": [f"u{each}" for each in user], "film": film, "day": days, "rating": rating})
    frame = frame.drop_duplicates(MODES)
    return frame.set_index(pd.Index(range(1000, 1000 + len(frame))))


def fit(data: Any, values: Any = None, **options: Any) -> tv.CP:
    return tv.CP(1, random_state=0, threads=1, **options).fit(data, values)


def test_a_frame_and_a_column_make_the_tensor_of_the_whole_frame() -> None:
    frame = ratings()
    expected = fit(tv.ObservedTensor.from_frame(frame, MODES, "rating"))
    found = fit(frame[MODES], frame["rating"])
    answers = expected.predict(tv.ObservedTensor.from_frame(frame, MODES, "rating"))
    assert found.model_.modes == expected.model_.modes
    assert found.model_.value_name == "rating"
    np.testing.assert_array_equal(found.predict(frame[MODES]), answers)
    np.testing.assert_array_equal(found.predict(frame), answers)  # columns are found by name, others are left alone
    np.testing.assert_array_equal(found.predict(frame[["day", "user", "film"]]), answers)
    assert found.score(frame[MODES], frame["rating"]) == expected.score(
        tv.ObservedTensor.from_frame(frame, list(expected.model_.modes), "rating")
    )
    assert len(found.predict(frame.head(0))) == 0


@pytest.mark.parametrize("kind", ["polars", "lazy", "arrow", "levels", "levels of a frame", "categories", "text days"])
def test_all_kinds_of_frames_give_the_same_predictions(kind: str) -> None:
    frame = ratings()
    modes, values = frame[MODES], frame["rating"]
    expected = fit(modes, values).predict(modes)
    asked: Any = modes
    if kind == "polars":
        found = fit(pl.from_pandas(modes), pl.from_pandas(values))
        asked = pl.from_pandas(modes)
    elif kind == "lazy":
        found, asked = fit(pl.from_pandas(modes).lazy(), values), pl.from_pandas(modes).lazy()
    elif kind == "arrow":
        import pyarrow as pa

        asked = pa.Table.from_pandas(modes, preserve_index=False)
        found = fit(asked, pa.array(values.to_numpy()))
    elif kind == "levels":
        found = fit(frame.set_index(MODES)["rating"])
        assert found.model_.value_name == "rating"
    elif kind == "levels of a frame":
        found = fit(tv.ObservedTensor.from_frame(frame.set_index(MODES)))
    elif kind == "categories":
        asked = modes.astype({"user": "category", "film": "category"})
        found = fit(asked, values)
    else:
        found, asked = fit(modes, values), modes.assign(day=modes["day"].dt.strftime("%Y-%m-%d"))
    np.testing.assert_array_equal(found.predict(asked), expected)


@pytest.mark.parametrize(
    "day",
    [
        "2024-01-03",
        " 2024-01-03T00:00:00",
        "2024-01-03T02:00:00+02:00",
        datetime.date(2024, 1, 3),
        datetime.datetime(2024, 1, 3),
        np.datetime64("2024-01-03"),
        np.datetime64("2024-01-03T00:00:00", "ns"),
        pd.Timestamp("2024-01-03"),
        pd.Timestamp("2024-01-03 01:00", tz="Europe/Oslo"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_a_day_is_found_however_it_is_written(day: Any, unit: str) -> None:
    labels = np.array(["2024-01-02", "2024-01-03", "2024-01-04"], f"datetime64[{unit}]")
    mode = tv.Mode("day", labels)
    assert mode.encode([day]).tolist() == [1]
    factors = (np.array([[1.0], [2.0]]), np.array([[1.0], [10.0], [100.0]]))
    model = tv.CPModel(factors=factors, modes=(tv.Mode("place"), mode))
    assert model.slice({"day": day}).tolist() == [10.0, 20.0]
    assert model.predict_labels({"place": [1], "day": [day]}).tolist() == [20.0]


def test_days_that_are_no_labels_are_refused() -> None:
    mode = tv.Mode("day", np.array(["2024-01-02", "2024-01-03"], "datetime64[D]"))
    days: list[Any] = ["2024-01-03T12:00", "2024-02-03", "yesterday", 3, None]
    for day in days:
        with pytest.raises(tv.InputError, match="does not know"):
            mode.encode([day])


def test_periods_and_intervals_become_text() -> None:
    frame = ratings()
    months = frame.assign(day=frame["day"].dt.to_period("D"), film=pd.cut(frame["film"], [99, 104, 120]))
    tensor = tv.ObservedTensor.from_frame(months, MODES, "rating", duplicates="mean")
    assert tensor.modes[2].labels is not None
    assert tensor.modes[2].labels[0] == "2024-01-01"
    assert tensor.modes[1].labels is not None
    assert tensor.modes[1].labels.tolist() == ["(104, 120]", "(99, 104]"]


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_predictions_come_in_the_frame_that_was_chosen(container: str) -> None:
    frame = ratings()
    fitted = fit(frame[MODES], frame["rating"])
    plain = fitted.predict(frame)
    found: Any = fitted.set_output(predict=container).predict(frame)
    assert list(found.columns) == [*MODES, "rating"]
    np.testing.assert_array_equal(found["rating"].to_numpy(), plain)
    if container == "pandas":
        pd.testing.assert_frame_equal(found[MODES], frame[MODES])
    assert list(fitted.predict([[0, 0, 0]])["user"]) == ["u0"]
    assert fitted.score(frame, frame["rating"]) > 0.5  # scores are of numbers, whatever predict returns
    np.testing.assert_array_equal(fitted.set_output(predict="default").predict(frame), plain)
    with pytest.raises(tv.InputError, match="predict must be one of"):
        fitted.set_output(predict="excel")


def test_a_private_fit_keeps_the_names_and_adds_low_and_high() -> None:
    frame = ratings()
    fitted = tv.PrivateCP(1, epsilon=5.0, delta=0.0, unit="value", bounds=(1, 5)).fit(frame[MODES], frame["rating"])
    assert "values of column 'rating'" in fitted.guarantee_.about
    found: Any = fitted.set_output(predict="pandas").predict(frame, interval=0.9)
    assert list(found.columns) == [*MODES, "rating", "low", "high"]
    assert bool((found["low"] <= found["high"]).all())


@pytest.mark.parametrize("unit", ["entry", "slice:user"])
def test_labels_of_a_frame_stay_out_of_units_that_protect_who_is_there(unit: str) -> None:
    frame = ratings()
    shape = (8, 200, 5)
    cls: Any = tv.PrivateCP if unit == "entry" else tv.UserLevelCP
    estimator = cls(1, epsilon=5.0, delta=1e-6, unit=unit, bounds=(1, 5), shape=shape)
    for modes in (frame[MODES], frame[MODES].astype({"user": "category"})):
        with pytest.raises(tv.InputError, match="public list"):
            estimator.fit(modes, frame["rating"])
    numbered = pd.DataFrame(
        {"user": frame["user"].str[1:].astype(int), "film": frame["film"], "day": frame["day"].dt.day - 1}
    )
    assert estimator.fit(numbered, frame["rating"]).guarantee_.status == "proven"


def test_integers_of_a_frame_are_indices_where_a_shape_is_declared() -> None:
    frame = pd.DataFrame({"user": [3, 5, 3], "film": [7, 7, 9]})
    assert fit(frame, [1.0, 2.0, 3.0]).model_.shape == (2, 2)
    indexed = fit(frame, [1.0, 2.0, 3.0], shape=(6, 10))
    assert indexed.model_.shape == (6, 10)
    np.testing.assert_array_equal(indexed.predict(frame), indexed.predict(frame.to_numpy()))


def test_cross_validation_of_a_frame_takes_categories_and_says_so() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    frame = ratings().sort_values("user")
    modes = frame[MODES].astype({"film": "category", "day": "category"})
    with pytest.raises(tv.InputError, match="make the column categorical"):
        selection.cross_val_score(tv.CP(1), modes, frame["rating"], cv=3, error_score="raise")
    categorical = modes.astype({"user": "category"})
    search = selection.GridSearchCV(tv.CP(), {"rank": [1, 2]}, cv=3, error_score="raise")
    assert search.fit(categorical, frame["rating"]).best_estimator_.model_.shape == (8, 10, 5)


def test_searches_name_the_way_round() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    tensor = tv.synthetic_cp((8, 6, 5), 1, random_state=0).train
    search = selection.GridSearchCV(tv.CP(1), {"rank": [1]}, cv=2, error_score="raise")
    with pytest.raises(tv.InputError, match=r"search.fit\(tensor.coords, tensor.values\)"):
        search.fit(tensor)
    order = np.argsort(tensor.columns[0], kind="stable")
    with pytest.raises(tv.InputError, match="Declare the whole shape before"):
        search.fit(tensor.coords[order], tensor.values[order])
    search.set_params(estimator=tv.CP(1, shape=tensor.shape))
    assert search.fit(tensor.coords[order], tensor.values[order]).best_params_ == {"rank": 1}


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ((np.array([[1.0, np.nan], [2.0, 3.0]]),), "from_dense"),
        (([[0, 1], [1, 0]], [1.0, np.nan]), "fit(X[seen], y[seen])"),
        ((pd.DataFrame({"u": ["a", "b"], "v": [1, 2]}), [1.0, np.nan]), "fit(X[seen], y[seen])"),
        ((pd.DataFrame({"u": ["a", "b"], "v": [1, 2]}),), "fit(frame[['user', 'item']], frame['rating'])"),
        ((pd.DataFrame({"u": [0], "v": [1], "y": [1.0]}), pd.Series([1.0], name="y")), "frame.drop(columns='y')"),
        ((pd.DataFrame({"u": ["a", "b"], "v": [1, 2]}), [1.0]), "the lengths differ"),
        ((pd.DataFrame({"u": ["a"], "v": [1]}), ["x"]), "values must be numbers"),
    ],
)
def test_what_cannot_be_fitted_says_what_can(arguments: Any, remedy: str) -> None:
    with pytest.raises(tv.InputError) as refused:
        tv.CP(1).fit(*arguments)
    assert remedy in str(refused.value)


class Labelled:
    """What an xarray.DataArray looks like from outside."""

    def __init__(self, cells: Any) -> None:
        self.values = np.asarray(cells)
        self.dims, self.name = ("place", "day"), "level"
        self.coords = {"place": pd.Series(["x", "y"])}


def test_arrays_with_named_dimensions_bring_names_and_labels() -> None:
    array = Labelled([[1.0, np.nan, 3.0], [2.0, 4.0, 6.0]])
    tensor = tv.ObservedTensor.from_dense(array)  # type: ignore[arg-type]
    assert (tensor.shape, tensor.n_entries, tensor.value_name) == ((2, 3), 5, "level")
    assert [mode.name for mode in tensor.modes] == ["place", "day"]
    assert tensor.modes[0].labels is not None
    assert tensor.modes[0].labels.tolist() == ["x", "y"]
    assert fit(array).model_.value_name == "level"


def test_xarray_itself() -> None:
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(
        [[1.0, np.nan], [2.0, 4.0]], dims=("place", "day"), coords={"day": pd.date_range("2024-01-01", periods=2)}
    )
    fitted = fit(array)
    assert fitted.model_.slice({"day": "2024-01-02"}).shape == (2,)


def test_the_command_names_the_filled_column_as_the_value_column_was(tmp_path: Any) -> None:
    ratings().to_csv(tmp_path / "ratings.csv", index=False)
    run = ["complete", str(tmp_path / "ratings.csv"), "--output", str(tmp_path / "result"), "--rank", "1"]
    assert run_command(run) == 0
    filled = pq.read_table(tmp_path / "result" / "filled.parquet")
    assert filled.column_names == [*MODES, "rating"]
    model = tv.load_model(tmp_path / "result" / "model.npz")
    assert model.value_name == "rating"
    questions, answers = tmp_path / "questions.csv", tmp_path / "answers.csv"
    questions.write_text("user,film,day\nu1,103,2024-01-03\n", encoding="utf-8")
    asked = ["predict", str(tmp_path / "result" / "model.npz"), "--at", str(questions), "--output", str(answers)]
    assert run_command(asked) == 0
    assert pyarrow.csv.read_csv(answers).column_names == [*MODES, "rating"]
    named = [*asked, "--force", "--value", "guess"]
    assert run_command(named) == 0
    assert pyarrow.csv.read_csv(answers).column_names == [*MODES, "guess"]


def test_an_index_is_as_good_as_its_frame() -> None:
    series = ratings().set_index(MODES)["rating"]
    fitted = fit(series)
    expected = fitted.predict(series.index.to_frame(index=False))
    again = fit(series.index.to_frame(), series)
    assert again.model_.modes == fitted.model_.modes
    for asked in (series.index.to_frame(), series.index, series, series.index.to_frame()[["day", "film", "user"]]):
        np.testing.assert_array_equal(fitted.predict(asked), expected)
        np.testing.assert_array_equal(fitted.model_.predict_labels(asked), expected)
    shown: Any = fitted.set_output(predict="pandas").predict(series.index.to_frame())
    assert list(shown.columns) == [*MODES, "rating"]
    assert shown.index.equals(series.index)
    assert fitted.rmse(series) == pytest.approx(fitted.rmse(series.index.to_frame(), series))
    # Levels without names are called alike in fits and in questions.
    plain = series.rename_axis([None] * 3)
    nameless = fit(plain)
    assert [mode.name for mode in nameless.model_.modes] == ["level_0", "level_1", "level_2"]
    for asked in (plain, plain.index, plain.index.to_frame()):
        np.testing.assert_array_equal(nameless.predict(asked), expected)
    with pytest.raises(tv.InputError, match=r"that differ. Drop the index"):
        fit(series.index.to_frame().assign(user="someone"), series)


def test_what_is_no_frame_names_one_and_names_that_are_nearly_right_are_suggested() -> None:
    frame = ratings()
    fitted = fit(frame[MODES], frame["rating"])
    for wrong in (frame["user"], frame["film"].to_numpy(), ["u1", 101], pd.Index(frame["user"])):
        with pytest.raises(tv.InputError, match=r"in a frame with a column for every mode, such as frame\[\['user'"):
            fitted.predict(wrong)
    with pytest.raises(tv.InputError, match=r"missing \['film'\]. Did you mean 'flim'?"):
        fitted.predict(frame[MODES].rename(columns={"film": "flim"}))
    with pytest.raises(tv.InputError, match=r"no mode 'flim'. Did you mean 'film'?"):
        tv.ObservedTensor.from_frame(frame, MODES, "rating", labels={"flim": list(range(100, 110))})
    with pytest.raises(tv.InputError, match=r"no mode 'dya'. Did you mean 'day'?"):
        tv.ObservedTensor.from_frame(frame, MODES, "rating", bins={"dya": "week"})


def test_the_shell_gives_advice_of_the_shell(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    frame = ratings()
    fit(frame[MODES], frame["rating"]).save(tmp_path / "model.npz")
    answers = ["-o", str(tmp_path / "answers.csv")]
    frame[MODES].head(2).assign(user="nobody").to_csv(tmp_path / "ask.csv", index=False)
    given = ["predict", str(tmp_path / "model.npz"), "--at", str(tmp_path / "ask.csv"), *answers]
    assert run_command(given) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "has not seen. Drop those rows, or fit again with data that have them." in said
    assert not [word for word in ("fold_in", "frame", "categor") if word in said]
    frame[MODES].head(2).rename(columns={"film": "flim"}).to_csv(tmp_path / "ask.csv", index=False)
    assert run_command(given) == 2
    assert "missing ['film']. Did you mean 'flim'?" in " ".join(capsys.readouterr().err.split())
    frame.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "films.txt").write_text("100\n101\n")
    given = ["info", str(tmp_path / "data.csv"), "--labels", f"flim={tmp_path / 'films.txt'}"]
    assert run_command(given) == 2
    assert "no mode 'flim'. Did you mean 'film'?" in " ".join(capsys.readouterr().err.split())


def test_tensors_that_numbered_their_labels_themselves_are_matched_by_label() -> None:
    frame = ratings()
    fitted = fit(frame[MODES], frame["rating"])
    part = frame[frame["user"].isin(["u2", "u5"]) & (frame["film"] > 104)]
    expected = fitted.predict(part[MODES])
    error = np.sqrt(np.mean((expected - part["rating"]) ** 2))
    own = tv.ObservedTensor.from_frame(part, MODES, "rating")
    assert own.modes != fitted.model_.modes
    np.testing.assert_array_equal(fitted.predict(own), expected)
    np.testing.assert_array_equal(fitted.model_.predict(own), expected)
    for measured in (fitted.rmse(own), fitted.rmse(part.set_index(MODES)["rating"]), tv.evaluate(fitted, own).rmse):
        assert measured == pytest.approx(error)
    assert fitted.score(own) == fitted.score(part[MODES], part["rating"])
    given = {"given": {"user": "u5"}, "along": "film"}
    best: Any = fitted.top(99, exclude=own, **given)
    assert set(best.labels) == {*range(100, 110)} - set(part[part["user"] == "u5"]["film"])
    rows = fitted.recommend("user", 99, along="film", users=["u5"], seen=own)
    assert rows.column("film").to_pylist() == best.labels.tolist()
    # Early stopping looks at the cells that are meant.
    watched = [
        tv.CP(1, sweeps=3, random_state=0, threads=1).fit(frame[MODES], frame["rating"], validation=each).history_
        for each in (own, tv.ObservedTensor.from_frame(part, list(fitted.model_.modes), "rating"))
    ]
    assert [each.validation_error for each in watched[0]] == [each.validation_error for each in watched[1]]
    with pytest.raises(tv.InputError, match="that the model has not seen"):
        fitted.rmse(tv.ObservedTensor.from_frame(part.assign(user="nobody").drop_duplicates(MODES), MODES, "rating"))
    with pytest.raises(tv.InputError, match="in the order of the model, user, film, day"):
        fitted.rmse(tv.ObservedTensor.from_frame(part, ["film", "user", "day"], "rating"))


def test_private_models_are_measured_by_label_too() -> None:
    frame = ratings()
    promise: dict[str, Any] = {"epsilon": 9.0, "delta": 0.0, "unit": "value", "bounds": (1, 5), "noise_seed": 1}
    fitted = tv.PrivateCP(1, random_state=0, threads=1, **promise).fit(frame[MODES], frame["rating"])
    part = frame[frame["user"].isin(["u2", "u5"])]
    error = np.sqrt(np.mean((fitted.predict(part[MODES]) - part["rating"]) ** 2))
    assert fitted.rmse(part[MODES], part["rating"]) == pytest.approx(error)
    assert fitted.rmse(part.set_index(MODES)["rating"]) == pytest.approx(error)


def test_an_index_that_pandas_writes_along_is_no_value(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    frame = ratings().sort_values("rating")
    wanted = tv.ObservedTensor.from_frame(frame)
    arrow = pa.Table.from_pandas(frame)
    assert arrow.column_names[-1] == "__index_level_0__"
    for ending, write in {"parquet": frame.to_parquet, "feather": partial(feather.write_feather, arrow)}.items():
        write(tmp_path / f"t.{ending}")
        read = tv.read(tmp_path / f"t.{ending}")
        assert (read.value_name, read.modes, read.values.tolist()) == ("rating", wanted.modes, wanted.values.tolist())
    for each in (arrow, pl.read_parquet(tmp_path / "t.parquet"), arrow.replace_schema_metadata(None)):
        assert tv.ObservedTensor.from_frame(each).value_name == "rating"
    expected = fit(frame[MODES], frame["rating"]).predict(frame[MODES])
    found = fit(pa.Table.from_pandas(frame[MODES]), pa.Table.from_pandas(frame[["rating"]])).predict(frame[MODES])
    np.testing.assert_array_equal(found, expected)
    # Whoever names it means it.
    assert tv.ObservedTensor.from_frame(arrow, MODES[:2], "__index_level_0__", duplicates="mean").value_name[0] == "_"
    # Several levels are modes, and one with a name is not guessed about.
    frame.set_index(MODES[:2]).to_parquet(tmp_path / "levels.parquet")
    levels = tv.read(tmp_path / "levels.parquet")
    assert ([mode.name for mode in levels.modes], levels.value_name) == (MODES, "rating")
    frame.set_index("user").to_parquet(tmp_path / "named.parquet")
    with pytest.raises(tv.InputError, match="column 'user' is the index of the pandas frame"):
        tv.read(tmp_path / "named.parquet")
    assert tv.read(tmp_path / "named.parquet", MODES).modes == wanted.modes
    assert run_command(["info", str(tmp_path / "named.parquet")]) == 2
    assert "that are modes, e.g. --modes user,film" in " ".join(capsys.readouterr().err.split())
    store = ["store", str(tmp_path / "t.parquet"), "-o", str(tmp_path / "store"), "--order", "user"]
    assert run_command(store) == 0
    assert "column rating" in capsys.readouterr().out


def test_a_named_index_of_a_pandas_frame_is_not_guessed_about() -> None:
    frame = ratings()
    wanted, named = tv.ObservedTensor.from_frame(frame), frame.set_index("user")
    readers: tuple[Any, ...] = (
        tv.ObservedTensor.from_frame,
        partial(tv.read_privately, unit="value", bounds=(1, 5)),
    )
    for read in readers:
        for value in (None, "rating"):
            with pytest.raises(tv.InputError, match=r"index with a name, .* frame.reset_index\(\)") as told:
                read(named, value=value)
            assert "user'," not in str(told.value).replace("modes=['user',", "")
        assert read(named, modes=MODES, value="rating").modes == wanted.modes  # whoever names it means it
        counted = named.assign(n=range(len(named)))
        assert read(counted, modes=["film", "n"], value="rating").shape[1] == len(named)
        for plain in (frame, named.reset_index(), frame.set_index("user", drop=False), frame.sort_values("rating")):
            assert read(plain, value="rating").modes == wanted.modes


def test_an_index_left_over_in_a_csv_file_is_no_mode() -> None:
    left = ratings().assign(**{"Unnamed: 0": range(len(ratings()))})
    for place in (["Unnamed: 0", *MODES, "rating"], [*MODES, "rating", "Unnamed: 0"]):
        with pytest.raises(tv.InputError, match=r"has no name, .* or write the table without it"):
            tv.ObservedTensor.from_frame(left[place])
        read = tv.ObservedTensor.from_frame(left[place], MODES, "rating")
        assert [mode.name for mode in read.modes] == MODES
    assert tv.ObservedTensor.from_frame(left, ["user", "Unnamed: 0"], "rating").modes[1].name == "Unnamed: 0"


@pytest.mark.parametrize("kind", ["series", "frame"])
def test_values_are_found_by_the_index_of_the_frame(kind: str) -> None:
    frame = ratings()
    expected = fit(frame[MODES], frame["rating"]).predict(frame[MODES])
    other = frame["rating"].sort_values()
    values = other if kind == "series" else other.to_frame()
    np.testing.assert_array_equal(fit(frame[MODES], values).predict(frame[MODES]), expected)
    private = [frame_to_tensor(frame[MODES], each, {"missing": "drop"}) for each in (frame["rating"], values)]
    np.testing.assert_array_equal(private[0].values, private[1].values)
    # Without the labels of the frame there is only the order of rows.
    by_place = frame_to_tensor(frame[MODES], frame["rating"].reset_index(drop=True), {})
    np.testing.assert_array_equal(by_place.values, frame_to_tensor(frame[MODES], frame["rating"], {}).values)


def test_values_whose_rows_cannot_be_told_apart_are_refused() -> None:
    """An index that holds a label several times, as that of frames that were put together, cannot say what is whose."""
    frame = pd.DataFrame({"user": list("abcab"), "film": list("xyzyx")}, index=[0, 1, 2, 0, 1])
    rating = pd.Series([1.0, 2.0, 3.0, 4.0, 5.0], index=frame.index, name="rating")
    expected = tv.CP(1, sweeps=2, random_state=0).fit(frame, rating)
    assert tv.CP(1, sweeps=2, random_state=0).fit(frame, rating.to_numpy()).rmse(frame, rating) == expected.rmse(
        frame, rating
    )
    for mixed in (rating.sort_index(), rating.iloc[::-1]):
        with pytest.raises(tv.InputError, match="several times: which value is whose cannot be told"):
            tv.CP(1, sweeps=2, random_state=0).fit(frame, mixed)
        with pytest.raises(tv.InputError, match="several times"):
            expected.rmse(frame, mixed)
        private = tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="entry", bounds=(1, 5), shape=(3, 3))
        coded = pd.DataFrame({"user": [0, 1, 2, 0, 1], "film": [0, 1, 2, 1, 0]}, index=frame.index)
        with pytest.warns(tv.NoLedgerWarning):  # the order of private rows is not told
            private.fit(coded, mixed)
    others = pd.Series(rating.to_numpy(), index=[5, 6, 7, 8, 9], name="rating")
    assert tv.CP(1, sweeps=2, random_state=0).fit(frame, others).rmse(frame, rating) == expected.rmse(frame, rating)


def test_a_pivot_table_brings_its_labels() -> None:
    frame = ratings().drop_duplicates(["user", "film"])
    pivot = frame.pivot(index="user", columns="film", values="rating")
    dense = tv.ObservedTensor.from_dense(pivot)
    assert dense.modes == tv.ObservedTensor.from_frame(frame, ["user", "film"], "rating").modes
    user = frame["user"].iloc[0]
    assert dense.to_dense()[dense.modes[0].encode([user])[0]].tolist() == pytest.approx(
        pivot.loc[user].tolist(), nan_ok=True
    )
    assert tv.ObservedTensor.from_dense(pivot.rename_axis(index=None), modes=["who", "film"]).modes[0].name == "who"
    plain = tv.ObservedTensor.from_dense(pd.DataFrame([[1.0, np.nan], [2.0, 3.0]])).modes
    assert [(mode.name, mode.labels) for mode in plain] == [("mode_0", None), ("mode_1", None)]
    with pytest.raises(tv.InputError, match="one level of labels"):
        tv.ObservedTensor.from_dense(frame.set_index(MODES[:2])[["rating"]])
    with pytest.raises(tv.InputError, match=r"from_dense\(frame\)"):
        tv.ObservedTensor.from_frame(pivot.reset_index())
    with pytest.raises(tv.InputError, match="needs public labels"):
        tv.PrivateCP(1, epsilon=1, delta=0, unit="entry", bounds=(1, 5), shape=dense.shape).fit(dense)


def test_answers_keep_what_was_asked() -> None:
    frame = ratings().assign(day=lambda each: each["day"] + pd.to_timedelta(13, "h"))
    tensor = tv.ObservedTensor.from_frame(frame, MODES, "rating", bins={"day": "day"})
    fitted: Any = fit(tensor).set_output(predict="pandas")
    asked = frame[MODES].head(5)
    values = fitted.predict(asked)["rating"].tolist()
    assert fitted.predict(asked)[MODES].equals(asked)
    series = frame.head(5).set_index(MODES)["rating"]
    for each in (series, series.index, frame.head(5).set_index(MODES)):
        found = fitted.predict(each)
        assert found.index.equals(series.index)
        assert found["rating"].tolist() == values
    halves = asked.set_index(["user", "film"])
    assert fitted.predict(halves).drop(columns="rating").equals(halves)
    assert fitted.predict(pl.from_pandas(asked))["day"].tolist() == asked["day"].tolist()
    assert fitted.set_output(predict="polars").predict(asked)["day"].to_list() == asked["day"].tolist()
