from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError, MemoryLimitError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.link import Link
from tensorveil.tensor import Mode
from tests.unit.models.model_cases import brute_force, brute_force_at, random_model

shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)


@given(
    kind=st.sampled_from(["cp", "tucker"]),
    shape=shapes,
    rank=st.sampled_from([1, 3]),
    biases=st.booleans(),
    bounds=st.sampled_from([None, (-0.5, 1.0)]),
    seed=st.integers(0, 100),
)
@settings(max_examples=40)
def test_predict_dense_and_slice_agree_with_the_definition(
    kind: Any, shape: tuple[int, ...], rank: Any, biases: Any, bounds: Any, seed: int
) -> None:
    model = random_model(kind, shape, rank, biases=biases, bounds=bounds, seed=seed)
    expected = brute_force(model)
    coords = np.argwhere(np.ones(shape, dtype=bool))
    np.testing.assert_allclose(model.predict(coords).reshape(shape), expected, atol=1e-12)
    np.testing.assert_allclose(model.dense(), expected, atol=1e-12)
    for mode in range(len(shape)):
        np.testing.assert_allclose(model.slice({mode: shape[mode] - 1}), expected.take(-1, mode), atol=1e-12)
    np.testing.assert_allclose(model.dense(clip=False), brute_force(model, clip=False), atol=1e-12)


@pytest.mark.parametrize("order", [2, 5, 8])
def test_every_order_is_served(kind: Any, order: int) -> None:
    model = random_model(kind, (2, 3) * (order // 2) + (2,) * (order % 2), 2)
    np.testing.assert_allclose(model.dense(), brute_force(model), atol=1e-12)
    coords = np.argwhere(np.ones(model.shape, dtype=bool))
    np.testing.assert_allclose(model.predict(coords), brute_force(model).reshape(-1), atol=1e-12)


def test_design_is_linear_in_the_row(kind: Any) -> None:
    model = random_model(kind, (4, 5, 3, 2))
    columns = np.random.default_rng(1).integers(0, (4, 5, 3, 2), size=(30, 4)).T.astype(np.int32)
    for mode in range(4):
        rows = model.factors[mode][columns[mode]]
        np.testing.assert_allclose((model.design(columns, mode) * rows).sum(1), model.multilinear(columns))


@pytest.mark.parametrize("n", [1, 5, 400])
def test_few_and_many_predictions_agree_for_any_threads(kind: Any, n: int) -> None:
    model = random_model(kind, (40, 50, 30))
    coords = np.random.default_rng(2).integers(0, model.shape, size=(n, 3))
    expected = brute_force_at(model, coords)
    for threads in (1, 2, None):
        np.testing.assert_allclose(model.predict(coords, threads=threads), expected, atol=1e-12)


def test_no_coordinates_give_no_predictions(kind: Any) -> None:
    model = random_model(kind)
    assert model.predict(np.zeros((0, 3), dtype=int)).shape == (0,)
    assert model.predict(np.zeros((0, 3))).shape == (0,)


def test_single_precision_stays_single(kind: Any) -> None:
    model = random_model(kind, dtype=np.float32)
    assert model.dtype == np.float32
    assert model.predict([[0, 0, 0]]).dtype == np.float32
    assert model.dense().dtype == np.float32
    np.testing.assert_allclose(model.dense(), brute_force(model), rtol=1e-4, atol=1e-5)


def test_slices_take_names_and_labels(kind: Any) -> None:
    labelled = (Mode("user", ["ann", "bob", "eve", "zoe"]), Mode("film", [10, 20, 30, 40, 50]), "week")
    model = random_model(kind, modes=labelled)
    whole = model.dense()
    np.testing.assert_allclose(model.slice({"user": "eve"}), whole[2])
    np.testing.assert_allclose(model.slice({"user": 2}), whole[2])  # text labels: an integer is an index
    np.testing.assert_allclose(model.slice({"film": 20}), whole[:, 1])  # number labels: it is a label
    np.testing.assert_allclose(model.slice({"film": 20, 2: 0}), whole[:, 1, 0])


def test_labels_predict_what_their_indices_predict(kind: Any) -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    labelled = (Mode("user", ["ann", "bob", "eve", "zoe"]), Mode("film", [10, 20, 30, 40, 50]), "week")
    model = random_model(kind, modes=labelled)
    expected = model.predict([[3, 0, 1], [0, 4, 2]])
    columns = {"week": [1, 2], "user": ["zoe", "ann"], "film": [10, 50]}
    for frame in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        np.testing.assert_array_equal(model.predict_labels(frame), expected)
    np.testing.assert_array_equal(model.predict_labels([["zoe", "ann"], [10, 50], [1, 2]]), expected)


@pytest.mark.parametrize(
    ("coords", "message"),
    [
        ([[0, 0, 3]], "column 2"),
        ([[-1, 0, 0]], "column 0"),
        ([[0, 0]], r"shape \(n, 3\)"),
        ([0, 0, 0], r"\[\[i, j, k\]\]"),
        ([[0.5, 0, 0]], "integers"),
    ],
)
def test_bad_coordinates_are_refused(kind: Any, coords: Any, message: Any) -> None:
    with pytest.raises(InputError, match=message):
        random_model(kind).predict(coords)


def test_unknown_labels_and_modes_are_refused_without_being_quoted(kind: Any) -> None:
    model = random_model(kind, modes=(Mode("user", ["ann", "bob", "eve", "zoe"]), "film", "week"))
    with pytest.raises(InputError, match="not seen") as caught:
        model.predict_labels([["mallory"], [0], [0]])
    assert "mallory" not in str(caught.value)
    with pytest.raises(InputError, match="missing \\['week'\\]"):
        model.predict_labels({"user": ["ann"], "film": [0]})
    with pytest.raises(InputError, match="one of"):
        model.slice({"director": 0})
    with pytest.raises(InputError, match="twice"):
        model.slice({"user": "ann", 0: 1})
    with pytest.raises(InputError, match="every mode"):
        model.slice({0: 0, 1: 0, 2: 0})
    with pytest.raises(InputError, match="mapping"):
        model.slice([0, 1])
    with pytest.raises(InputError, match="same length"):
        model.predict_labels([["ann"], [0, 1], [0]])


def test_indices_in_unlabelled_modes_are_checked(kind: Any) -> None:
    model = random_model(kind, modes=(Mode("user", ["ann", "bob", "eve", "zoe"]), "film", "week"))
    assert model.predict_labels([[], [], []]).shape == (0,)
    for request, words in (
        ({"film": "Alien"}, "integer index"),
        ({"film": 5}, "must lie"),
        ({"film": True}, "integer index"),
        ({"user": 9}, "must lie"),
        ({"user": "mallory"}, "not seen"),
    ):
        with pytest.raises(InputError, match=words):
            model.slice(request)
    for labels, words in (
        ([["ann"], ["Alien"], [0]], "integer indices"),
        ([["ann"], [9], [0]], "inside the model's shape"),
        ([[["ann"]], [0], [0]], "flat sequence"),
        ([["ann"], [0]], "one sequence per mode"),
    ):
        with pytest.raises(InputError, match=words):
            model.predict_labels(labels)


def test_dense_refuses_what_does_not_fit(kind: Any) -> None:
    model = random_model(kind, (100, 100, 100))
    with pytest.raises(MemoryLimitError, match="max_bytes"):
        model.dense(max_bytes=1000)
    assert model.slice({0: 0}, max_bytes=80_000).shape == (100, 100)
    with pytest.raises(MemoryLimitError, match="slice"):
        model.slice({0: 0}, max_bytes=79_999)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factors": (np.ones((2, 1)),)}, "2 to 8"),
        ({"factors": (np.ones((2, 1)), np.ones(3))}, "non-empty matrix"),
        ({"factors": (np.ones((2, 1)), np.ones((3, 2)))}, "columns|core"),
        ({"factors": (np.ones((2, 1)), np.full((3, 1), np.nan))}, r"factors\[1\] must be finite"),
        ({"factors": (np.ones((2, 1)), np.ones((3, 1), dtype=complex))}, "real"),
        ({"offset": np.inf}, "offset"),
        ({"biases": (np.ones(2), np.ones(2))}, "biases"),
        ({"bounds": (2, 1)}, "bounds"),
        ({"modes": ("a", "a")}, "different names"),
        ({"modes": ("a",)}, "modes must name"),
        ({"modes": (Mode("a", ["x"]), "b")}, "labels"),
    ],
)
@pytest.mark.parametrize("make", [CPModel, lambda **parts: TuckerModel(core=np.ones((1, 1)), **parts)])
def test_parts_that_do_not_agree_are_refused(make: Any, change: Any, message: Any) -> None:
    parts = {"factors": (np.ones((2, 1)), np.ones((3, 1)))} | change
    with pytest.raises(InputError, match=message):
        make(**parts)


def test_models_say_what_they_are_and_cannot_be_changed(kind: Any) -> None:
    model = random_model(kind, modes=(Mode("user", ["ann", "bob", "eve", "zoe"]), "film", "week"))
    core = 8 if kind == "tucker" else 0
    assert model.shape == (4, 5, 3)
    assert model.order == 3
    assert model.rank == ((2, 2, 2) if kind == "tucker" else 2)
    assert model.n_parameters == 1 + 12 + 24 + core
    assert model.nbytes == 8 * (12 + 24 + core)
    assert "4x5x3" in repr(model)
    assert "ann" not in repr(model)
    with pytest.raises(ValueError, match="read-only"):
        model.factors[0][0, 0] = 1.0
    with pytest.raises(AttributeError):
        model.offset = 1.0


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_everything_that_predicts_goes_through_the_link(kind: Any) -> None:
    plain = random_model(kind, bounds=(0.0, 2.0))
    model = replace(plain, link=Link(name="log", mean=np.exp, linear=np.log))
    wanted = np.clip(np.exp(brute_force(plain, clip=False)), 0.0, 2.0)
    coords = np.argwhere(np.ones(model.shape, dtype=bool))
    np.testing.assert_allclose(model.predict(coords), wanted.ravel())
    np.testing.assert_allclose(model.dense(), wanted)
    ranking = model.top(3, given={0: 1, 2: 0}, along=1)
    np.testing.assert_allclose(ranking.values, wanted[1, ranking.indices, 0])
