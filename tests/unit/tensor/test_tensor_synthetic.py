"""Planted problems: the recipe, the noise, and clean values that agree however they are computed."""

import math
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.tensor import paper_problem, synthetic_cp, synthetic_tucker
from tensorveil.tensor import synthetic as recipe


def dense(problem: Any) -> Any:
    letters = "abcdefgh"[: len(problem.factors)]
    if problem.core is None:
        terms = ",".join(f"{letter}r" for letter in letters)
        raw = np.einsum(f"{terms}->{letters}", *problem.factors)
    else:
        ranks = letters.upper()
        terms = ",".join(f"{a}{b}" for a, b in zip(letters, ranks, strict=True))
        raw = np.einsum(f"{ranks},{terms}->{letters}", problem.core, *problem.factors)
    return (raw - problem.offset) / problem.scale


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_paper_problem(kind: Any) -> None:
    problem = paper_problem(kind, random_state=7)
    assert problem.shape == (20, 20, 20)
    assert problem.train.n_entries == 3200
    assert problem.held_out.n_entries == 800
    assert problem.clean is not None
    assert problem.clean.min() == 0.0
    assert problem.clean.max() == 1.0
    assert np.allclose(problem.clean, dense(problem))
    assert problem.noise_variance == pytest.approx(np.var(problem.clean))
    both = np.concatenate([part.values - problem.clean_at(part.coords) for part in (problem.train, problem.held_out)])
    # 4000 draws: the sample variance has a relative standard deviation of sqrt(2/4000) = 2.2 %.
    assert np.var(both) == pytest.approx(problem.noise_variance, rel=0.12)
    assert abs(np.mean(both)) < 5 * math.sqrt(problem.noise_variance / 4000)


def test_paper_factors() -> None:
    cp, tucker = paper_problem("cp", random_state=0), paper_problem("tucker", random_state=0)
    for factor in cp.factors:
        assert np.allclose(np.linalg.norm(factor, axis=0), 1)
    for factor in tucker.factors:
        assert np.allclose(factor.T @ factor, np.eye(3))
    assert tucker.core is not None
    assert tucker.core.shape == (3, 3, 3)
    assert cp.core is None


def test_the_parts_share_no_cell() -> None:
    problem = paper_problem(random_state=1, missing=0.1)
    keys = [set(map(tuple, part.coords.tolist())) for part in (problem.train, problem.held_out)]
    assert not keys[0] & keys[1]
    assert len(keys[0] | keys[1]) == 7200


def test_seeds() -> None:
    one, same, other = (paper_problem(random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.train.values, same.train.values)
    assert not np.array_equal(one.train.values, other.train.values)


@pytest.mark.parametrize(
    ("definition", "snr", "variance"),
    [
        ("variance", 4.0, lambda clean: np.var(clean) / 4),
        ("power", 4.0, lambda clean: np.mean(clean**2) / 4),
        ("norm", 4.0, lambda clean: np.mean(clean**2) / 16),
        ("db", 10.0, lambda clean: np.var(clean) / 10),
        ("db", -10.0, lambda clean: np.var(clean) * 10),
        ("variance", math.inf, lambda clean: 0.0),
    ],
)
def test_snr_definitions(definition: Any, snr: Any, variance: Any) -> None:
    problem = synthetic_cp((6, 7, 8), 2, snr=snr, snr_definition=definition, random_state=0)
    assert problem.noise_variance == pytest.approx(variance(problem.clean))


@pytest.mark.parametrize("shape", [(9, 8), (5, 6, 7), (4, 3, 5, 2), (3, 2, 3, 2, 3)])
def test_any_order_and_both_ways_to_clean_values(shape: tuple[int, ...]) -> None:
    for problem in (
        synthetic_cp(shape, 2, snr=math.inf, missing=0.3, random_state=0),
        synthetic_tucker(shape, 2, snr=math.inf, missing=0.3, random_state=0),
    ):
        assert problem.clean is not None
        assert np.allclose(problem.clean, dense(problem))
        assert np.allclose(problem.train.values, problem.clean[tuple(problem.train.columns)])
        assert np.allclose(problem.clean_at(problem.held_out.coords), problem.held_out.values)


def test_tucker_with_unequal_ranks_and_no_scaling() -> None:
    problem = synthetic_tucker((6, 7, 8), (2, 3, 4), scaling="none", random_state=0)
    assert problem.core is not None
    assert problem.core.shape == (2, 3, 4)
    assert (problem.offset, problem.scale) == (0.0, 1.0)


def test_held_out_error_is_against_clean_values() -> None:
    problem = paper_problem(random_state=0)
    clean = problem.held_out_clean
    assert problem.clean_rmse(clean.values) == 0.0
    assert problem.clean_rmse(clean.values + 0.25) == pytest.approx(0.25)
    assert clean.columns is problem.held_out.columns


@pytest.mark.parametrize("make", [synthetic_cp, synthetic_tucker])
def test_large_tensors_are_never_built(make: Any) -> None:
    problem = make((30_000, 20_000, 500), 3, n_entries=50_000, dtype=np.float32, random_state=0)
    assert problem.clean is None
    assert problem.train.n_entries == 40_000
    assert problem.train.values.dtype == np.float32
    observed = [problem.clean_at(part.coords) for part in (problem.train, problem.held_out)]
    clean = np.concatenate(observed)
    assert clean.min() == pytest.approx(0.0)
    assert clean.max() == pytest.approx(1.0)
    assert problem.noise_variance == pytest.approx(np.var(clean), rel=1e-6)
    # Uniform cells: every decile of every mode holds a tenth of them.
    for column, size in zip(problem.train.columns, problem.shape, strict=True):
        counts = np.bincount(column * np.int64(10) // size, minlength=10)
        assert np.all(np.abs(counts - 4000) < 5 * math.sqrt(4000))


def test_large_and_small_paths_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs: dict[str, Any] = {"scaling": "none", "snr": math.inf, "random_state": 2}
    small = synthetic_cp((10, 11, 12), 3, **kwargs)
    monkeypatch.setattr(recipe, "DENSE_CELLS", 0)
    large = synthetic_cp((10, 11, 12), 3, **kwargs)
    assert np.allclose(small.train.values, large.train.values)


def test_drawing_cells_sparsely_and_densely() -> None:
    rng = np.random.default_rng(0)
    for cells, count in [(10, 10), (10, 3), (10**6, 1000), (10**15, 1000), (1000, 240)]:
        drawn = recipe._draw_cells(rng, cells, count)
        assert len(np.unique(drawn)) == count
        assert drawn.min() >= 0
        assert drawn.max() < cells


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: synthetic_cp((5, 5), 0), "rank must be an integer of at least 1; got 0. Try rank=3"),
        (lambda: synthetic_cp((5,), 1), "2 to 8 modes; got 1"),
        (lambda: synthetic_cp((5, 0), 1), "shape must hold integers"),
        (lambda: synthetic_cp((5, 5), 1, snr=0), "snr must be positive; got 0"),
        (lambda: synthetic_cp((5, 5), 1, snr_definition="odd"), "snr_definition must be one of"),  # type: ignore[arg-type]
        (lambda: synthetic_cp((5, 5), 1, missing=1.0), "missing must be at least 0 and below 1"),
        (lambda: synthetic_cp((5, 5), 1, held_out=1.0), "held_out must lie between 0 and 1"),
        (lambda: synthetic_cp((5, 5), 1, n_entries=26), "not exceed the number of cells"),
        (lambda: synthetic_cp((5, 5), 1, scaling="unit"), "scaling must be one of"),  # type: ignore[arg-type]
        (lambda: synthetic_cp((2**31 - 1,) * 3, 1, n_entries=10), "fewer than 2\\*\\*63 cells"),
        (lambda: synthetic_tucker((5, 5), 6), "must not exceed the size of its mode, 5; got 6"),
        (lambda: synthetic_tucker((5, 5), (1, 2, 3)), "one per mode, 2; got 3"),
        (lambda: paper_problem("tt"), "kind must be one of"),  # type: ignore[arg-type]
    ],
)
def test_refusals(action: Any, message: Any) -> None:
    with pytest.raises(InputError, match=message):
        action()
