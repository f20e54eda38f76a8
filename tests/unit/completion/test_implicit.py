"""Which cells were observed, as features; and means of several fits."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.completion.averaging import average
from tensorveil.completion.implicit import find_patterns
from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.solvers.task import Solution


def clubs(seed: int) -> tuple[tv.ObservedTensor, tv.ObservedTensor]:
    """Which films users see tells their club, and the club what they think of each film."""
    rng = np.random.default_rng(seed)
    club, genre, quality = rng.choice([-1, 1], 400), rng.choice([-1, 1], 80), rng.standard_normal(80)
    seen = rng.random((400, 80)) < np.where(club[:, None] == genre, 0.1, 0.02)
    truth = club[:, None] * quality
    coords, rest = np.argwhere(seen), np.argwhere(~seen)
    values = truth[seen] + rng.standard_normal(len(coords))
    modes = ("user", "film")
    train = tv.ObservedTensor(coords, values, shape=seen.shape, modes=modes)
    return train, tv.ObservedTensor(rest, truth[~seen], shape=seen.shape, modes=modes)


def test_patterns_are_the_leading_directions_of_divided_lines() -> None:
    rng = np.random.default_rng(0)
    seen: Any = rng.random((45, 9)) < 0.4
    seen[-1] = False
    found = find_patterns(np.argwhere(seen).T.astype(np.int32), seen.shape, 0)
    counts = np.maximum(seen.sum(axis=1), 1.0)
    left, strengths, _ = np.linalg.svd(seen / np.sqrt(counts)[:, None], full_matrices=False)
    expected = (left * strengths)[:, :2]
    expected = np.where(seen.any(axis=1)[:, None], expected - expected[seen.any(axis=1)].mean(axis=0), 0.0)
    expected /= np.sqrt(np.mean(expected**2, axis=0))
    assert found.shape == (45, 2)  # one for every twenty indices
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-8)
    assert not found[-1].any()  # of an index that was never observed nothing is known


def test_patterns_do_not_depend_on_the_order_of_entries_nor_on_repeated_pairs() -> None:
    train, _ = clubs(0)
    shuffled = train.columns[:, np.random.default_rng(1).permutation(train.n_entries)]
    np.testing.assert_allclose(
        find_patterns(train.columns, train.shape, 1), find_patterns(shuffled, train.shape, 1), atol=1e-6
    )
    thrice = np.vstack([np.tile(train.columns, 3), np.repeat([0, 1, 2], train.n_entries)]).astype(np.int32)
    doubled = find_patterns(thrice, (*train.shape, 3), 0)
    assert doubled.shape[0] == train.shape[0]
    assert np.isfinite(doubled).all()


def test_who_saw_what_tells_of_values() -> None:
    train, rest = clubs(2)
    plain = tv.LowRankMatrix(1, random_state=0).fit(train)
    knowing = tv.LowRankMatrix(1, implicit=True, random_state=0).fit(train)
    assert knowing.rmse(rest) < 0.9 * plain.rmse(rest)


def test_tensors_of_order_three_know_it_too() -> None:
    problem = tv.synthetic_cp((12, 10, 6), 2, random_state=0)
    names = problem.train.with_modes(("a", "b", "c"))
    for estimator in (tv.CP(2, implicit=["a", "b"], random_state=0), tv.Tucker(2, implicit=["a"], random_state=0)):
        assert np.isfinite(estimator.fit(names).rmse(problem.held_out))


def test_held_out_cells_are_not_counted_as_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorveil.completion import side_table

    train, _ = clubs(3)
    seen: list[int] = []

    def watch(columns: Any, shape: Any, mode: int) -> Any:
        seen.append(columns.shape[1])
        return find_patterns(columns, shape, mode)

    monkeypatch.setattr(side_table, "find_patterns", watch)
    tv.LowRankMatrix(1, implicit=True, validation_fraction=0.2, random_state=0).fit(train)
    assert set(seen) == {train.n_entries - int(0.2 * train.n_entries)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"implicit": "user"}, "implicit must be True"),
        ({"implicit": ["user", "user"]}, "implicit names a mode twice"),
        ({"implicit": ["user"], "smooth": {"user": "walk"}}, "cannot be both smooth and have features"),
        ({"implicit": True, "solver": "als"}, 'no meaning for solver="als"'),
        ({"implicit": True, "loss": "poisson"}, "smooth, side and implicit are for squared error"),
        ({"keep": "all"}, "keep"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    coords = [[user, user % 3] for user in range(40)]
    tensor = tv.ObservedTensor(coords, np.arange(40.0), modes=("user", "film"))
    with pytest.raises(InputError, match=message):
        tv.CP(1, **settings).fit(tensor)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("tucker", [False, True])
def test_a_mean_of_solutions_predicts_the_mean(tucker: bool, biased: bool) -> None:
    rng, shape, solutions = np.random.default_rng(0), (3, 4, 5), []
    for rank in (1, 2):
        solutions.append(
            Solution(
                factors=tuple(rng.standard_normal((size, rank)) for size in shape),
                core=rng.standard_normal((rank,) * 3) if tucker else None,
                offset=float(rng.standard_normal()),
                biases=tuple(rng.standard_normal(size) for size in shape) if biased else None,
                remainder=rng.standard_normal(shape),
                noise_variance=float(rank),
            )
        )

    def dense(solution: Solution) -> Any:
        parts: dict[str, Any] = {
            "factors": solution.factors, "offset": solution.offset, "biases": solution.biases,
            "remainder": solution.remainder,
        }  # fmt: skip
        return (CPModel(**parts) if solution.core is None else TuckerModel(core=solution.core, **parts)).dense()

    mean = average(solutions)
    np.testing.assert_allclose(dense(mean), (dense(solutions[0]) + dense(solutions[1])) / 2)
    assert mean.noise_variance == 1.5


def test_estimators_keep_the_mean_of_their_starts() -> None:
    train, rest = clubs(4)
    fits = [tv.LowRankMatrix(2, random_state=0, restarts=3, keep=keep).fit(train) for keep in ("best", "mean")]
    assert fits[0].rank_ == 2
    assert fits[1].rank_ == 6
    assert len(fits[1].history_) == len(fits[0].history_)
    assert fits[1].rmse(rest) < 1.05 * fits[0].rmse(rest)
