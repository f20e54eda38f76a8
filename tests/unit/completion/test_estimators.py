"""The estimators' contract: scikit-learn's conventions and parameter errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.validation import check_is_fitted

import tensorveil as tv


@pytest.fixture(scope="module")
def tensor() -> Any:
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((size, 2)) for size in (9, 8, 7)]
    dense = np.einsum("ar,br,cr->abc", *factors)
    coords = np.argwhere(rng.random(dense.shape) < 0.6)
    return tv.ObservedTensor(coords, dense[tuple(coords.T)], shape=dense.shape, modes=("a", "b", "c"))


@pytest.mark.parametrize("estimator", [tv.CP, tv.Tucker])
def test_clone_and_params(estimator: Any) -> None:
    original = estimator(3, solver="als", regularization=0.5)
    copy = clone(original)
    assert copy is not original
    assert copy.get_params() == original.get_params()
    assert copy.set_params(rank=5).rank == 5
    assert repr(original) == f"{estimator.__name__}(rank=3, solver='als', regularization=0.5)"
    with pytest.raises(tv.InputError, match="depth is not a parameter of"):
        copy.set_params(depth=3)


def test_grid_search_and_cross_validation(tensor: Any) -> None:
    model = tv.CP(2, baseline="none", shape=tensor.shape, restarts=3, random_state=0)
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, tensor.coords, tensor.values, cv=folds)
    assert scores.min() > 0.9
    search = GridSearchCV(model, {"rank": [1, 2]}, cv=folds).fit(tensor.coords, tensor.values)
    assert search.best_params_ == {"rank": 2}


def test_fitted_state(tensor: Any) -> None:
    model = tv.CP(2, random_state=0)
    with pytest.raises(tv.NotFittedError, match=r"must be fitted first\. Try \.fit"):
        model.predict(tensor.coords)
    check_is_fitted(model.fit(tensor))
    assert model.n_features_in_ == 3
    assert model.score(tensor) > 0.95
    assert model.rmse(tensor) == pytest.approx(np.sqrt(np.mean((model.predict(tensor) - tensor.values) ** 2)))
    assert model.score(tensor.coords, tensor.values) == model.score(tensor)


@pytest.mark.parametrize("estimator", [tv.CP, tv.Tucker])
def test_model_methods_on_the_estimator(estimator: Any, tensor: Any, tmp_path: Path) -> None:
    model = estimator(2, random_state=0).fit(tensor)
    assert model.slice({"a": 1}).shape == (8, 7)
    np.testing.assert_allclose(model.dense()[1], model.slice({"a": 1}))
    assert len(model.top(3, given={"a": 0, "c": 1}, along="b").indices) == 3
    model.save(tmp_path / "model.npz")
    loaded = tv.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(tensor.coords), model.predict(tensor))
    assert tuple(model.to_tensorly().shape) == tensor.shape


def test_fold_in_gives_new_rows_the_right_values(tensor: Any) -> None:
    known = tensor.take(tensor.columns[0] < 8)
    model = tv.CP(2, baseline="none", sweeps=300, tol=0.0, random_state=0).fit(
        tv.ObservedTensor(known.coords, known.values, shape=(8, 8, 7), modes=("a", "b", "c"))
    )
    new = tensor.take(tensor.columns[0] == 8)
    shifted = tv.ObservedTensor(new.coords - [8, 0, 0], new.values, shape=(1, 8, 7), modes=("a", "b", "c"))
    model.fold_in(shifted, "a")
    assert model.model_.shape == (9, 8, 7)
    assert model.rmse(new) < 0.1 * new.values.std()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, r"rank must be a whole number of at least 1; got 0\. Try rank=8\."),
        ({"rank": 2.5}, r"rank must be a whole number"),
        ({"rank": True}, r"rank must be a whole number"),
        ({"solver": "magic"}, r'solver must be one of "bayes", "als", "sgd", "adam", "lbfgs"; got \'magic\''),
        ({"baseline": "median"}, r'baseline must be one of "none", "mean", "biases"'),
        ({"sweeps": 0}, r"sweeps must be a whole number of at least 1"),
        ({"solver": "als", "regularization": -1.0}, r"regularization must be a finite number at least 0"),
        ({"solver": "als", "learning_rate": 0.1}, r'learning_rate has no meaning for solver="als".*try solver="sgd"'),
        ({"solver": "sgd", "learning_rate": 0.0}, r"learning_rate must be a finite number above 0"),
        ({"noise_variance": float("nan")}, r"noise_variance must be a finite number at least 0"),
        ({"solver": "als", "noise_variance": 1.0}, r'noise_variance has no meaning for solver="als"'),
        ({"restarts": 0}, r"restarts must be a whole number of at least 1"),
        ({"patience": 0}, r"patience must be a whole number of at least 1"),
        ({"threads": 0}, r"threads must be a whole number of at least 1"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be below 1"),
        ({"validation_fraction": -0.1}, r"validation_fraction must be a finite number at least 0"),
        ({"dtype": "int8"}, r'dtype must be "float32" or "float64"'),
        ({"dtype": "nonsense"}, r'dtype must be "float32" or "float64"'),
        ({"dtype": "float32"}, r'dtype must be "float64" for solver="bayes"'),
    ],
)
def test_parameter_errors_name_rule_and_remedy(tensor: Any, options: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        tv.CP(**options).fit(tensor)


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ((2, 2), r"rank must be a whole number or one per mode, 3 here; got \(2, 2\)\. Try rank=\(4, 4, 4\)\."),
        ("three", r"rank must be a whole number or one per mode"),
        ((2, 0, 2), r"rank\[1\] must be a whole number of at least 1"),
        ((2, 2, 8), r"rank\[2\] must be at most the size of its mode, 7; got 8"),
        ((9, 8, 7, 1)[:3], None),
    ],
)
def test_tucker_ranks(tensor: Any, rank: Any, message: Any) -> None:
    if message is None:
        assert tv.Tucker(rank, sweeps=1, random_state=0).fit(tensor).model_.core.shape == rank
        return
    with pytest.raises(tv.InputError, match=message):
        tv.Tucker(rank).fit(tensor)


def test_tucker_single_rank_is_cut_to_small_modes(tensor: Any) -> None:
    assert tv.Tucker(8, solver="als", sweeps=1, random_state=0).fit(tensor).model_.core.shape == (8, 8, 7)


def test_bayes_refuses_large_cores() -> None:
    coords = np.argwhere(np.ones((12, 12, 12)))
    tensor = tv.ObservedTensor(coords, np.arange(len(coords), dtype=float), shape=(12, 12, 12))
    with pytest.raises(tv.InputError, match=r'core of at most 1024 elements for solver="bayes"; got 1728'):
        tv.Tucker(12).fit(tensor)


def test_bad_data_arguments(tensor: Any) -> None:
    with pytest.raises(tv.InputError, match="values must be given with coordinates"):
        tv.CP().fit(tensor.coords)
    with pytest.raises(tv.InputError, match="values must be left out"):
        tv.CP().fit(tensor, tensor.values)
    smaller = tv.ObservedTensor([[0, 0, 0]], [1.0], shape=(2, 2, 2))
    with pytest.raises(tv.InputError, match="validation must have the same shape"):
        tv.CP().fit(tensor, validation=smaller)


def test_verbose_shows_progress_on_standard_error(tensor: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tv.CP(2, sweeps=3, tol=0.0, verbose=True, random_state=0).fit(tensor)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "training RMSE" in captured.err
