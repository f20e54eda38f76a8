"""Every solver finds planted answers, for CP and Tucker, of every order it is offered for."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.tensor.synthetic import paper_problem


def planted(shape: tuple[int, ...], rank: Any, core: Any, rng: np.random.Generator, observed: float = 0.6) -> Any:
    """A noise-free low-rank tensor: what is seen of it, and the whole."""
    factors = [rng.standard_normal((size, rank)) for size in shape]
    letters = "abcde"[: len(shape)]
    if core:
        inner = rng.standard_normal((rank,) * len(shape))
        upper = letters.upper()
        terms = ",".join(a + b for a, b in zip(letters, upper, strict=True))
        dense = np.einsum(f"{upper},{terms}->{letters}", inner, *factors)
    else:
        dense = np.einsum(",".join(f"{a}z" for a in letters) + f"->{letters}", *factors)
    coords = np.argwhere(rng.random(shape) < observed)
    return tv.ObservedTensor(coords, dense[tuple(coords.T)], shape=shape), dense


SETTINGS: dict[str, dict[str, Any]] = {
    "bayes": {"sweeps": 60},
    "als": {"sweeps": 60, "regularization": 1e-4},
    "sgd": {"sweeps": 300, "tol": 1e-5, "regularization": 1e-5, "learning_rate": 0.02},
}


@pytest.mark.parametrize("solver", ["bayes", "als", "sgd"])
@pytest.mark.parametrize("shape", [(40, 30), (15, 14, 13), (8, 9, 7, 6)])
def test_cp_recovers(solver: Any, shape: tuple[int, ...]) -> None:
    tensor, dense = planted(shape, 2, False, np.random.default_rng(0))
    model = tv.CP(2, solver=solver, baseline="none", restarts=3, random_state=0, **SETTINGS[solver]).fit(tensor)
    assert np.sqrt(np.mean((model.dense() - dense) ** 2)) < 0.05 * dense.std()


@pytest.mark.parametrize("solver", ["bayes", "als", "sgd"])
@pytest.mark.parametrize("shape", [(40, 30), (15, 14, 13), (8, 9, 7, 6)])
def test_tucker_recovers(solver: Any, shape: tuple[int, ...]) -> None:
    tensor, dense = planted(shape, 2, True, np.random.default_rng(1))
    settings = dict(SETTINGS[solver])
    if solver != "bayes":
        settings["core_regularization"] = settings["regularization"]
    model = tv.Tucker(2, solver=solver, baseline="none", restarts=3, random_state=0, **settings).fit(tensor)
    assert np.sqrt(np.mean((model.dense() - dense) ** 2)) < 0.05 * dense.std()


@pytest.mark.parametrize("solver", ["bayes", "als", "sgd"])
def test_biases_recover_an_additive_table(solver: Any) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(size) for size in (12, 10, 9)]
    dense = 7 + parts[0][:, None, None] + parts[1][:, None] + parts[2]
    coords = np.argwhere(rng.random(dense.shape) < 0.5)
    tensor = tv.ObservedTensor(coords, dense[tuple(coords.T)], shape=dense.shape)
    settings: dict[str, Any] = {"sweeps": 300, "tol": 0.0}
    settings |= {"regularization": 1e-3} if solver != "bayes" else {}
    model = tv.CP(1, solver=solver, baseline="biases", random_state=0, **settings).fit(tensor)
    assert np.sqrt(np.mean((model.dense() - dense) ** 2)) < 0.05


def reference_errors(make: Any, kind: Any, seeds: Any) -> Any:
    """Mean error against the clean held-out values, and the constant's."""
    fitted, constant = [], []
    for seed in seeds:
        problem = paper_problem(kind=kind, random_state=seed)
        truth = problem.clean_at(problem.held_out.coords)
        prediction = make(seed).fit(problem.train).predict(problem.held_out)
        fitted.append(np.sqrt(np.mean((prediction - truth) ** 2)))
        constant.append(np.sqrt(np.mean((problem.train.values.mean() - truth) ** 2)))
    return float(np.mean(fitted)), float(np.mean(constant))


REFERENCE = {
    ("bayes", "cp"): lambda seed: tv.CP(3, restarts=3, random_state=seed),
    ("als", "cp"): lambda seed: tv.CP(3, solver="als", regularization=3.0, restarts=3, random_state=seed),
    ("bayes", "tucker"): lambda seed: tv.Tucker(3, restarts=3, random_state=seed),
    ("als", "tucker"): lambda seed: tv.Tucker(
        3, solver="als", regularization=3.0, core_regularization=3.0, restarts=3, random_state=seed
    ),
}


@pytest.mark.parametrize("solver", ["bayes", "als"])
@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_reference_case_few_seeds(solver: Any, kind: Any) -> None:
    error, constant = reference_errors(REFERENCE[solver, kind], kind, range(4))
    assert error < 0.021 if kind == "cp" else error < constant / 3


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["bayes", "als"])
@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_reference_case(solver: Any, kind: Any) -> None:
    error, constant = reference_errors(REFERENCE[solver, kind], kind, range(20))
    assert error < 0.021 if kind == "cp" else error < constant / 3
