"""The spectral start sees directions that a random start misses, and nothing where there is nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.solvers import bayes
from tensorveil.solvers.spectral import cp_factors, find_spectrum, tucker_factors
from tensorveil.solvers.task import Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries


def noisy_problem(shape: tuple[int, ...], rank: Any, noise: Any, seed: int, observed: float = 0.5) -> Any:
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((size, rank)) for size in shape]
    letters = "abcd"[: len(shape)]
    dense = np.einsum(",".join(f"{a}z" for a in letters) + f"->{letters}", *factors) / np.sqrt(rank)
    coords = np.argwhere(rng.random(shape) < observed)
    clean = dense[tuple(coords.T)]
    values = clean + noise * rng.standard_normal(len(clean))
    return coords.T.astype(np.int32), values, clean, factors


def overlap(basis: Any, factor: Any) -> Any:
    """Cosine of the largest angle between a basis and the column space of a factor."""
    other = np.linalg.qr(factor)[0]
    return float(np.linalg.svd(basis.T @ other)[1].min())


@pytest.mark.parametrize("shape", [(40, 35, 30), (16, 15, 14, 13)])
def test_directions_of_every_mode_are_found(shape: tuple[int, ...]) -> None:
    columns, values, _, factors = noisy_problem(shape, 2, 0.5, 1)
    found = find_spectrum(columns, values, shape, (2,) * len(shape), np.random.default_rng(0))
    assert found is not None
    assert sum(basis.shape[1] for basis in found.bases) >= 2 * len(shape) - 1
    assert all(overlap(basis, factor) > 0.9 for basis, factor in zip(found.bases, factors, strict=True))


def test_pure_noise_is_not_mistaken_for_signal() -> None:
    """A direction may pass for signal by chance; relevance switches it off."""
    rng = np.random.default_rng(1)
    coords = np.argwhere(rng.random((30, 30, 30)) < 0.5)
    for seed in range(4):
        tensor = tv.ObservedTensor(coords, rng.standard_normal(len(coords)), shape=(30, 30, 30))
        model = tv.CP(3, baseline="none", noise_variance=1.0, restarts=2, random_state=seed).fit(tensor)
        assert np.std(model.predict(tensor)) < 0.05


def test_the_core_is_the_projection() -> None:
    columns, values, _, _ = noisy_problem((12, 11, 10), 2, 0.1, 2, observed=2.0)
    found = find_spectrum(columns, values, (12, 11, 10), (2, 2, 2), np.random.default_rng(0))
    assert found is not None
    dense = np.zeros((12, 11, 10))
    dense[tuple(columns)] = values
    assert np.allclose(found.core, np.einsum("abc,ap,bq,cr->pqr", dense, *found.bases))


def test_factors_are_near_the_clean_tensor() -> None:
    """Leaving the diagonal out bends directions a little, and ridge shortens components: near, not equal."""
    shape = (40, 36, 32)
    columns, values, clean, _ = noisy_problem(shape, 2, 0.0, 3, observed=2.0)
    found = find_spectrum(columns, values, shape, (2, 2, 2), np.random.default_rng(0))
    assert found is not None
    parts = [f[c] for f, c in zip(cp_factors(found, 2, np.random.default_rng(0)), columns, strict=True)]
    assert np.std(np.prod(parts, axis=0).sum(axis=1) - clean) < 0.2 * clean.std()
    factors, core = tucker_factors(found)
    rows = [f[c] for f, c in zip(factors, columns, strict=True)]
    assert np.std(np.einsum("pqr,np,nq,nr->n", core, *rows) - clean) < 0.2 * clean.std()
    assert abs(np.mean(core**2) - 1) < 1e-9


def test_a_start_finds_what_random_ones_miss() -> None:
    """Under noise seven times the signal, a random start ends at the constant."""
    shape = (60, 60, 60)
    columns, values, clean, _ = noisy_problem(shape, 2, 7.0, 4)
    tensor = tv.ObservedTensor(columns.T, values, shape=shape)
    model = tv.CP(2, baseline="none", noise_variance=49.0, restarts=2, random_state=0).fit(tensor)
    assert np.sqrt(np.mean((model.predict(tensor) - clean) ** 2)) < 0.6 * clean.std()


def test_a_mode_shorter_than_the_rank() -> None:
    columns, values, clean, _ = noisy_problem((30, 25, 3), 5, 0.1, 5)
    tensor = tv.ObservedTensor(columns.T, values, shape=(30, 25, 3))
    model = tv.CP(5, baseline="none", restarts=2, random_state=0).fit(tensor)
    assert np.sqrt(np.mean((model.predict(tensor) - clean) ** 2)) < 0.3 * clean.std()


def weak_components(shape: tuple[int, ...], n: int, strengths: Any, noise: Any, seed: int) -> Any:
    """Return a task with components of these strengths, and the clean values."""
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((size, 3)) for size in shape]
    columns = np.unique(np.stack([rng.integers(size, size=n) for size in shape]).astype(np.int32), axis=1)
    clean = rank_one_sums(factors, columns, strengths)
    task = Task(
        entries=MemoryEntries(columns=columns, values=clean + noise * rng.standard_normal(len(clean)), shape=shape),
        ranks=(3,) * len(shape), core=False, baseline="none", dtype=np.dtype(np.float64), threads=1, seed=0,
    )  # fmt: skip
    return task, clean


def error_and_bound(task: Any, clean: Any, noise: Any) -> Any:
    watch = Watch(iterations=100, tol=1e-5, patience=1)
    found = bayes.solve_bayes(task, bayes.Bayes(noise_variance=noise**2, start="spectral"), watch)
    fitted = found.offset + rank_one_sums(found.factors, task.columns, np.ones(3))
    return np.sqrt(np.mean((fitted - clean) ** 2)), watch.history[-1].bound


def test_weak_components_that_the_start_missed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holes turn strong components into noise that hides a weak one; the residual shows it."""
    task, clean = weak_components((25,) * 4, 20_000, [1.0, 0.7, 0.5], 2.0, seed=2)
    found, bound = error_and_bound(task, clean, 2.0)
    monkeypatch.setattr(bayes, "_revive", lambda *_: False)
    missed, lower = error_and_bound(task, clean, 2.0)
    assert found < 0.3 < 0.7 < missed
    assert bound > lower + 50


def test_many_directions_together_show_what_no_leading_one_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    task, clean = weak_components((25,) * 4, 20_000, [1.0, 0.7, 0.5], 2.0, seed=1)
    found, _ = error_and_bound(task, clean, 2.0)
    monkeypatch.setattr(bayes, "_LOOKS", (1,))
    missed, _ = error_and_bound(task, clean, 2.0)
    assert found < 0.27 < 0.35 < missed


def test_a_component_that_follows_chance_is_searched_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No component is switched off, but the weakest is none of the planted ones."""
    task, clean = weak_components((60, 50, 40), 18_000, [1.0, 0.7, 0.5], 1.3, seed=7)
    found, _ = error_and_bound(task, clean, 1.3)
    original = bayes._revive

    def only_if_off(state: Any, *rest: Any) -> Any:
        factors = [state.posterior.factor(mode) for mode in range(3)]
        strength = np.prod([np.mean(factor**2, axis=0) for factor in factors], axis=0)
        return bool(np.any(strength < bayes._OFF)) and original(state, *rest)

    monkeypatch.setattr(bayes, "_revive", only_if_off)
    missed, _ = error_and_bound(task, clean, 1.3)
    assert found < 0.24 < 0.35 < missed


def test_a_search_that_finds_nothing_leaves_the_fit_as_it_was() -> None:
    """Of rank 1 there is no second weakest component to try."""
    task, clean = weak_components((20, 18, 16), 3_000, [1.0, 0.0, 0.0], 0.5, seed=0)
    task = replace(task, ranks=(1, 1, 1))
    watch = Watch(iterations=60, tol=1e-5, patience=1)
    found = bayes.solve_bayes(task, bayes.Bayes(sweeps=60, start="spectral"), watch)
    fitted = found.offset + rank_one_sums(found.factors, task.columns, np.ones(1))
    assert np.sqrt(np.mean((fitted - clean) ** 2)) < 0.15 * clean.std()


def rank_one_sums(factors: Any, columns: Any, strengths: Any) -> Any:
    return np.prod([f[c] for f, c in zip(factors, columns, strict=True)], axis=0) @ np.asarray(strengths)
