"""Using local mechanisms: shapes, streams, memory, storage, guarantees, choosing, aggregating, shuffling; bad input."""

from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tensorveil.errors import InputError
from tensorveil.local import (
    DTLDP,
    Basis,
    ExactGaussian,
    Hybrid,
    MeanEstimate,
    PrivUnit,
    RandomizedResponse,
    Staircase,
    choose,
    combine,
    low_rank_mean,
    mean_of,
    mechanism_from_json,
    mechanism_to_json,
    project,
    shuffle,
    shuffled_epsilon,
)
from tensorveil.local import contract as contract_module
from tensorveil.noise import SecureSource, SeededSource
from tensorveil.privacy import Gaussian, Guarantee, Pure
from tests.unit.local.local_cases import ALL, ENTRYWISE, WHOLE, make, projected


@pytest.mark.parametrize("name", list(ALL))
def test_one_tensor_or_many(name: str) -> None:
    mechanism = make(name, shape=(2, 3))
    one, many = np.full((2, 3), 0.25), np.full((7, 2, 3), 0.25)
    assert mechanism.perturb(one).shape == (2, 3)
    assert mechanism.perturb(many).shape == (7, 2, 3)
    codes = mechanism.randomize(many, source=SeededSource(4))
    assert codes.dtype == np.int64
    assert np.array_equal(mechanism.decode(codes), mechanism.perturb(many, source=SeededSource(4)))
    assert isinstance(mechanism.mse(one), float)
    assert mechanism.mse(many).shape == (7,)
    crowd = np.full((60, 2, 3), 0.25)
    assert not np.array_equal(mechanism.perturb(crowd), mechanism.perturb(crowd))
    kept = many.copy()
    mechanism.perturb(many)
    assert np.array_equal(many, kept)


@pytest.mark.parametrize("name", list(ALL))
def test_chunks_do_not_change_what_is_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract_module, "CHUNK", 12)
    mechanism = make(name, shape=(3,), epsilon=3.0)
    x = np.linspace(-1, 1, 60).reshape(20, 3)
    out = np.empty_like(x)
    assert mechanism.perturb(x, source=SeededSource(1), out=out) is out
    streamed = np.concatenate(list(mechanism.stream(iter([x[:10], x[10:]]), source=SeededSource(1))))
    assert streamed.shape == x.shape
    assert np.array_equal(np.concatenate(list(mechanism.stream(x, source=SeededSource(1)))), out)


@pytest.mark.parametrize("name", ["DTLDP", "RandomizedResponse", "Staircase", "Hybrid", "PrivUnit"])
def test_memory_is_bounded_by_the_chunk(name: str, tmp_path: Path) -> None:
    n, d = 40_000, 64
    path = tmp_path / "people.npy"
    people = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n, d))
    people[:] = 128
    mechanism = make(name, shape=(d,), epsilon=4.0, bounds=(0, 255))
    mechanism.perturb(people[:4])  # compiles
    out = np.lib.format.open_memmap(tmp_path / "reports.npy", mode="w+", dtype=np.float32, shape=(n, d))
    tracemalloc.start()
    mechanism.perturb(people, out=out)
    found = mean_of(mechanism.stream(people), (d,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.count == n
    assert peak < 24 * 8 * contract_module.CHUNK < n * d * 8 * 2  # a few arrays of a chunk, not of everything


@pytest.mark.parametrize("name", [*ALL, "projected"])
def test_mechanisms_survive_json(name: str) -> None:
    mechanism = projected() if name == "projected" else make(name, shape=(2, 2), epsilon=2.5)
    text = json.dumps(mechanism_to_json(mechanism))
    again = mechanism_from_json(json.loads(text))
    x = np.full(mechanism.shape, 0.5)
    assert type(again) is type(mechanism)
    assert np.array_equal(again.perturb(x, source=SeededSource(3)), mechanism.perturb(x, source=SeededSource(3)))
    assert again.guarantee().to_json() == mechanism.guarantee().to_json()
    weighted = DTLDP(shape=(2,), epsilon=1.0, unit="tensor", bounds=(0, 1), weights=[0.0, 0.5])
    back = mechanism_from_json(json.loads(json.dumps(mechanism_to_json(weighted))))
    assert isinstance(back, DTLDP)
    assert np.array_equal(back.entry_epsilons, weighted.entry_epsilons)
    earlier = mechanism_to_json(weighted) | {"outside": "error", "differ": 1}
    assert str(mechanism_from_json(earlier).unit) == "tensor:differ=1"
    for broken in ({"mechanism": "nothing"}, {"mechanism": "DTLDP"}):
        with pytest.raises(InputError):
            mechanism_from_json(broken)


@pytest.mark.parametrize("name", [*ALL, "projected"])
def test_guarantees_are_proven_and_seeds_void_them(name: str) -> None:
    mechanism = projected() if name == "projected" else make(name, epsilon=1.5)
    guarantee = mechanism.guarantee()
    assert guarantee.private
    assert guarantee.epsilon == mechanism.epsilon
    assert guarantee.delta == mechanism.delta
    assert isinstance(guarantee.event, Gaussian if name == "ExactGaussian" else Pure)
    assert Guarantee.from_json(json.dumps(guarantee.to_json())) == guarantee
    assert mechanism.guarantee(source=SecureSource()).private
    seeded = mechanism.guarantee(source=SeededSource(1))
    assert not seeded.private
    assert seeded.sentence().startswith("NOT PRIVATE")


def test_every_proof_named_stands_in_the_page() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "guarantees.md").read_text(encoding="utf-8")
    anchors = {line[3:].lower().replace(" ", "-") for line in page.splitlines() if line.startswith("## ")}
    for name in [*ALL, "projected"]:
        mechanism = projected() if name == "projected" else make(name)
        assert mechanism.proof.removeprefix("docs/guarantees.md#") in anchors


# Choosing


DIMENSIONS, EPSILONS = (1, 64, 784, 3072), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("domain", [{"bounds": (-1, 1)}, {"radius": 1.0}])
def test_choices_are_the_least_of_all_predictions(d: Any, domain: Any) -> None:
    for epsilon in EPSILONS:
        choice = choose((d,), epsilon, "tensor", **domain)
        errors = [candidate.worst_mse for candidate in choice.candidates]
        assert errors == sorted(errors)
        assert {candidate.name for candidate in choice.candidates} >= {"DTLDP", "Hybrid", "PrivUnit", "PrivUnitG"}
        assert choice.mechanism.epsilon == epsilon
        if "radius" in domain and d > 1:
            assert choice.name == "PrivUnit"
        if "bounds" in domain and d > 1:  # a bit of one entry at small budgets, directions from 2 on
            assert choice.name == ("PrivUnit" if epsilon >= 2 else "RandomizedResponse")


def test_choices_for_entries_and_with_delta() -> None:
    assert choose((8, 8), 1.0, "local entry", bounds=(0, 1)).mechanism.coordinates is None
    few = choose((1000,), 1.0, "tensor:differ=2", bounds=(0, 1))
    assert few.candidates[0].worst_mse < choose((1000,), 1.0, "tensor", bounds=(0, 1)).candidates[0].worst_mse
    with_delta = choose((64,), 1.0, "tensor", bounds=(0, 1), delta=1e-5)
    assert "ExactGaussian" in {candidate.name for candidate in with_delta.candidates}
    with pytest.raises(InputError, match="either"):
        choose((4,), 1.0, "tensor")
    with pytest.raises(InputError, match="either"):
        choose((4,), 1.0, "tensor", bounds=(0, 1), radius=1.0)
    with pytest.raises(InputError, match="without differ"):
        choose((4,), 1.0, "tensor:differ=2", radius=1.0)


# Aggregating


def test_streamed_means_are_means() -> None:
    rng = np.random.default_rng(0)
    reports = rng.normal(3, 2, (999, 2, 2))
    whole = mean_of(reports, (2, 2))
    parts = mean_of((reports[k : k + 100] for k in range(0, 999, 100)), (2, 2))
    for found in (whole, parts):
        assert np.allclose(found.mean, reports.mean(axis=0))
        assert np.allclose(found.standard_error, reports.std(axis=0, ddof=1) / math.sqrt(999))
        assert found.count == 999
    assert whole.clip((2.9, 3.0)).max() <= 3.0
    for wrong in (reports[:1], reports.reshape(999, 4), np.full((5, 2, 2), np.nan)):
        with pytest.raises(InputError, match="reports"):
            mean_of(wrong, (2, 2))


def test_means_of_groups_are_weighted_by_what_they_know() -> None:
    sure = MeanEstimate(mean=np.zeros(2), standard_error=np.full(2, 1.0), count=10)
    vague = MeanEstimate(mean=np.ones(2), standard_error=np.full(2, 3.0), count=10)
    both = combine([sure, vague])
    assert np.allclose(both.mean, 0.1)
    assert np.allclose(both.standard_error, math.sqrt(0.9))
    assert both.count == 20
    with pytest.raises(InputError):
        combine([])


def test_budgets_of_peoples_own_give_a_mean_of_all_of_them() -> None:
    """Those who choose a small budget are other people: by number of people the mean is unbiased, by precision not."""
    rng = np.random.default_rng(1)
    groups = {1.0: rng.uniform(0.6, 0.8, (6_000, 3)), 8.0: rng.uniform(0.2, 0.4, (4_000, 3))}
    estimates = []
    for epsilon, people in groups.items():
        mechanism = Hybrid(shape=(3,), epsilon=epsilon, unit="tensor", bounds=(0, 1))
        assert mechanism.guarantee().epsilon == epsilon
        reports = mechanism.perturb(people, source=SeededSource(int(epsilon)))
        estimates.append(mean_of(reports, (3,)))
    truth = np.concatenate(list(groups.values())).mean(axis=0)
    all_of_them, nearest = combine(estimates, by="people"), combine(estimates)
    assert np.all(np.abs(all_of_them.mean - truth) < 4 * all_of_them.standard_error)
    assert np.all(np.abs(nearest.mean - truth) > 4 * nearest.standard_error)
    assert all_of_them.count == 10_000
    with pytest.raises(InputError, match="by must be one of"):
        combine(estimates, by="group")


def test_a_low_rank_mean_is_nearer_to_the_truth() -> None:
    rng = np.random.default_rng(5)
    truth = 0.5 + 0.3 * np.outer(np.cos(np.linspace(0, 3, 12)), np.sin(np.linspace(0, 3, 10)))
    people = np.clip(truth + rng.normal(0, 0.05, (30_000, 12, 10)), 0, 1)
    mechanism = PrivUnit(shape=(12, 10), epsilon=4.0, unit="tensor", bounds=(0, 1))
    estimate = mean_of(mechanism.stream(people, source=SeededSource(2)), (12, 10))
    fitted = low_rank_mean(estimate, 3, bounds=(0, 1))
    error = np.sqrt(np.mean((estimate.mean - people.mean(axis=0)) ** 2))
    assert error == pytest.approx(math.sqrt(estimate.noise_variance), rel=0.3)
    assert np.sqrt(np.mean((fitted.mean - people.mean(axis=0)) ** 2)) < 0.7 * error
    with pytest.raises(InputError, match="order 2"):
        low_rank_mean(MeanEstimate(mean=np.zeros(3), standard_error=np.ones(3), count=5), 1)


# Shuffling


def clones_delta(local: Any, users: Any, epsilon: float) -> Any:
    """Hockey-stick divergence of the pair that dominates all shuffled mechanisms (Feldman et al., theorem 3.2)."""
    c = np.arange(users)
    weights = stats.binom.pmf(c, users - 1, math.exp(-local))
    keep = weights > 1e-18
    share = math.exp(local) / (1 + math.exp(local))
    total = 0.0
    for count, weight in zip(c[keep].tolist(), weights[keep].tolist(), strict=True):
        a = stats.binom.pmf(np.arange(-1, count + 2), count, 0.5)
        first, second = a[:-1], a[1:]  # the user's own clone is a one, or is not
        p, q = share * first + (1 - share) * second, (1 - share) * first + share * second
        total += weight * float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
    return total


@pytest.mark.parametrize(("local", "users"), [(0.5, 500), (1.0, 1000), (2.0, 3000)])
def test_shuffling_is_never_promised_too_much(local: Any, users: Any) -> None:
    delta = 1e-4
    found = shuffled_epsilon(local, users, delta)
    assert found < local
    assert clones_delta(local, users, found) <= delta
    assert clones_delta(local, users, found / 20) > delta  # the bound is no idle one


def test_shuffling_needs_a_crowd_and_a_pure_mechanism() -> None:
    report = make("Hybrid", epsilon=1.0).guarantee()
    guarantee = shuffle(report, 100_000, 1e-6)
    assert guarantee.private
    assert guarantee.epsilon < 0.1
    assert guarantee.delta == 1e-6
    with pytest.raises(InputError, match="users must be at least"):
        shuffle(report, 3, 1e-6)
    with pytest.raises(InputError, match="delta"):
        shuffled_epsilon(1.0, 1000, 0.0)
    with pytest.raises(InputError, match="pure"):
        shuffle(make("ExactGaussian").guarantee(), 100_000, 1e-6)
    with pytest.raises(InputError, match="pure"):
        shuffle(make("DTLDP", unit="local entry").guarantee(), 100_000, 1e-6)


# Bad input


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([0, 0], "shape"),
        (np.empty((0, 3)), "empty"),
        (["a", "b", "c"], "numbers"),
        ([1j, 0, 0], "numbers"),
    ],
)
def test_what_is_no_tensor_is_refused(name: str, x: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        make(name).perturb(x)


@pytest.mark.parametrize("name", [*ALL, "projected"])
@pytest.mark.parametrize("outside", [[5.0, -7.0, 0.0], [np.inf, -np.inf, 0.0], [1.0, -1.0, np.nan]])
def test_a_tensor_outside_is_reported_as_the_nearest_one_inside(name: str, outside: Any) -> None:
    if name == "projected":
        mechanism = project(Basis.dct((3,), 2), PrivUnit, epsilon=2.0, bounds=(-1.0, 1.0))
    else:
        mechanism = make(name)
    inside = [1.0, -1.0, 0.0]
    found, expected = (mechanism.randomize(x, source=SeededSource(5)) for x in (outside, inside))
    assert np.array_equal(found, expected)
    assert mechanism.mse(outside) == mechanism.mse(inside)


@pytest.mark.parametrize("name", list(WHOLE))
def test_tensors_beyond_the_radius_are_shortened(name: str) -> None:
    mechanism = make(name, bounds=None, radius=1.0)
    for x in ([9.0, 9.0, 9.0], [1e308, -1e308, np.inf], [5e-324, 0.0, np.nan], [0.0, -0.0, 0.0]):
        assert np.all(np.isfinite(mechanism.perturb(x, source=SeededSource(1))))
    long, short = (mechanism.randomize(x, source=SeededSource(2)) for x in ([0.0, 8.0, np.nan], [0.0, 1.0, 0.0]))
    assert np.array_equal(long, short)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 99.0}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"shape": ()}, "shape"),
        ({"shape": (0, 3)}, "shape"),
        ({"unit": "value"}, "unit"),
        ({"bounds": (1, 1)}, "bounds"),
        ({"bounds": (0, math.inf)}, "bounds"),
        ({"bounds": 3}, "bounds"),
    ],
)
def test_bad_promises_are_refused(name: str, options: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        make(name, **options)


@pytest.mark.parametrize("name", list(ENTRYWISE))
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": 1}, "points"),
        ({"points": 2.5}, "points"),
        ({"points": 1 << 30}, "points"),
        ({"unit": "tensor:differ=0"}, "differ"),
        ({"unit": "tensor:differ=4"}, "differ"),
        ({"unit": "tensor:some"}, "differ"),
        ({"unit": "local entry:differ=2"}, "differ"),
        ({"coordinates": 9}, "coordinates"),
        ({"weights": [0, 0, 2.0]}, "weights"),
        ({"weights": [0, 0, np.nan]}, "weights"),
        ({"weights": [1, 1, 1]}, "weights"),
        ({"weights": [[0, 0, 0]]}, "weights"),
        ({"weights": [0, 0, 0.5], "coordinates": 1}, "weights"),
        ({"weights": [0, 0, 1 - 1e-12]}, "weights"),
        ({"rounding": "yes"}, "rounding"),
    ],
)
def test_bad_entry_settings_are_refused(name: str, options: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        make(name, **options)


def test_values_off_the_grid_are_rounded_to_the_nearest_point_if_not_at_random() -> None:
    mechanism = DTLDP(shape=(2,), epsilon=1.0, unit="tensor", bounds=(0, 255), points=256, rounding=False)
    on, off = np.array([7, 255], dtype=np.uint8), [7.25, 256.0]
    exact, nearest = (mechanism.randomize(x, source=SeededSource(3)) for x in (on, off))
    assert np.array_equal(exact, nearest)


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: DTLDP(shape=(2,), epsilon=1, unit="tensor", bounds=(0, 1), noise_share=0), "noise_share"),
        (lambda: DTLDP(shape=(2,), epsilon=1, unit="tensor", bounds=(0, 1), clamp="yes"), "clamp"),  # type: ignore[arg-type]
        (lambda: DTLDP(shape=(2,), epsilon=1, unit="tensor", bounds=(0, 1), clamp=True, points=2), "clamp"),
        (lambda: PrivUnit(shape=(2,), epsilon=1, unit="local entry", bounds=(0, 1)), "unit"),
        (lambda: PrivUnit(shape=(2,), epsilon=1, unit="tensor"), "bounds"),
        (lambda: PrivUnit(shape=(2,), epsilon=1, unit="tensor", bounds=(0, 1), radius=1.0), "either"),
        (lambda: PrivUnit(shape=(2,), epsilon=1, unit="tensor", radius=-1.0), "radius"),
        (lambda: ExactGaussian(shape=(2,), epsilon=1, unit="tensor", bounds=(0, 1)), "delta"),
        (lambda: ExactGaussian(shape=(2,), epsilon=1, delta=2.0, unit="tensor", bounds=(0, 1)), "delta"),
        (lambda: ExactGaussian(shape=(2,), epsilon=1, delta=0.01, unit="tensor:differ=5", bounds=(0, 1)), "differ"),
        (lambda: ExactGaussian(shape=(2,), epsilon=1, delta=0.01, unit="tensor:differ=1", radius=1.0), "bounds"),
        (lambda: PrivUnit(shape=(2,), epsilon=1, unit="tensor", radius=5e-324), "radius"),
        (lambda: PrivUnit(shape=(2,), epsilon=1, unit="tensor", bounds=(0, 1e308)), "bounds"),
        (lambda: ExactGaussian(shape=(2,), epsilon=1, delta=0.01, unit="local entry", radius=1.0), "bounds"),
        (lambda: Basis.dct((4,), 9), "keep"),
        (lambda: Basis.own(np.ones((2, 4)), (4,)), "orthonormal"),
        (lambda: Basis.own(np.eye(3), (4,)), "column"),
        (lambda: Basis.from_settings({"kind": "other"}, (4,)), "basis"),
        (lambda: replace(projected(), unit="tensor:differ=1"), "differ"),
        (lambda: Staircase(shape=(3000,), epsilon=1e-7, unit="tensor", bounds=(0, 1)), "1e-9"),
    ],
)
def test_bad_mechanisms_are_refused(make_it: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        make_it()


def test_bad_outputs_are_refused() -> None:
    mechanism = RandomizedResponse(shape=(2,), epsilon=1.0, unit="tensor", bounds=(0, 1))
    wrong: list[Any] = [np.empty(3), np.empty(2, dtype=np.int64), [0.0, 0.0], np.empty((2, 2))[:, 0]]
    for out in wrong:
        with pytest.raises(InputError, match="out must be"):
            mechanism.perturb([0.0, 1.0], out=out)
    with pytest.raises(InputError, match="integers"):
        mechanism.decode([0.5, 0.5])
    size: Any = 4
    assert Hybrid(shape=size, epsilon=1.0, unit="tensor", bounds=(0, 1)).shape == (4,)
