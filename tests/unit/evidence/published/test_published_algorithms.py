"""The three algorithms: their limits, what they add where, what they say, and what they refuse."""

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sklearn.base import clone

import tensorveil as tv
from tensorveil.privacy import Guarantee
from tensorveil_evidence import published
from tensorveil_evidence.published import (
    GradientPerturbation,
    InputPerturbation,
    OutputPerturbation,
    PublishedDescent,
    explain,
)
from tensorveil_evidence.published.descent import STARTS, start
from tensorveil_evidence.subjects.published_completion import KnownStart

HUGE = 1e15
PASSES = 5


def make(name: str, model: str = "cp", rank: int | tuple[int, ...] = 2, epsilon: float = 20.0, **options: Any) -> Any:
    options = {"passes": PASSES, "random_state": 3, "verbose": False, **options}
    if name == "input":
        return InputPerturbation(model, rank, epsilon=epsilon, **{"bounds": (-5.0, 5.0), **options})
    if name == "gradient":
        return GradientPerturbation(model, rank, epsilon=epsilon, **{"clip_constant": 0.5, **options})
    return OutputPerturbation(model, rank, epsilon=epsilon, **{"lipschitz": 1.0, **options})


def plain(tensor: Any, model: str = "cp", rank: int = 2) -> Any:
    """The published descent without noise."""
    return PublishedDescent(model, rank, passes=PASSES, random_state=3).fit(tensor).model_


@pytest.fixture(scope="module", params=[2, 3, 4], ids=lambda order: f"order {order}")
def any_tensor(request: pytest.FixtureRequest) -> Any:
    return make_tensor(request.param)


@pytest.fixture(scope="module")
def tensor() -> Any:
    return make_tensor(3)


def make_tensor(order: int) -> Any:
    rng = np.random.default_rng(order)
    shape = (7, 6, 5, 4)[:order]
    coords = np.argwhere(rng.random(shape) < 0.7)
    return tv.ObservedTensor(coords, rng.standard_normal(len(coords)), shape=shape, modes=("a", "b", "c", "d")[:order])


NAMES = ["input", "gradient", "output"]


@pytest.mark.parametrize("model", ["cp", "tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_without_noise_it_is_the_published_descent(any_tensor: Any, name: str, model: Any) -> None:
    unclipped: dict[str, Any] = {"clip_constant": 1e4} if name == "gradient" else {}
    fitted = make(name, model, epsilon=HUGE, **unclipped).fit(any_tensor).model_
    expected = plain(any_tensor, model)
    for got, want in zip(fitted.factors, expected.factors, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-9)
    if model == "tucker":
        np.testing.assert_allclose(fitted.core, expected.core, atol=1e-9)
    np.testing.assert_allclose(fitted.predict(any_tensor.coords), expected.predict(any_tensor.coords), atol=1e-9)


def test_input_noise_has_the_printed_scale(tensor: Any) -> None:
    """The fit is the published descent on values with Laplace noise of scale range / epsilon."""
    fit = make("input", bounds=(-5.0, 5.0)).fit(tensor)
    assert fit.sensitivity_ == 10.0
    rng = np.random.default_rng(3)
    rng.integers(2**62)
    noise = np.random.default_rng(int(rng.integers(2**62))).laplace(0, 10.0 / 20.0, tensor.n_entries)
    expected = plain(tensor.with_values(tensor.values + noise))
    np.testing.assert_allclose(fit.model_.factors[0], expected.factors[0], atol=1e-9)


def test_clamping_and_bounds_from_the_data(tensor: Any) -> None:
    low, high = float(tensor.values.min()), float(tensor.values.max())
    fit = make("input", bounds="data").fit(tensor)
    assert fit.sensitivity_ == high - low
    declared = make("input", bounds=(low, high)).fit(tensor)
    np.testing.assert_array_equal(fit.model_.factors[0], declared.model_.factors[0])
    tiny = make("input", epsilon=1e-9, bounds=(low, high), clamp=True).fit(tensor)
    rng = np.random.default_rng(3)
    rng.integers(2**62)
    signs = np.random.default_rng(int(rng.integers(2**62))).laplace(0, 1.0, tensor.n_entries) > 0
    expected = plain(tensor.with_values(np.where(signs, high, low)))
    np.testing.assert_allclose(tiny.model_.factors[1], expected.factors[1], atol=1e-9)


@pytest.mark.parametrize("mode", [-1, 0, "b"])
def test_output_noise_touches_one_factor(tensor: Any, mode: Any) -> None:
    base = plain(tensor)
    one, two = (make("output", epsilon=e, noisy_mode=mode, lipschitz=0.3).fit(tensor) for e in (1.0, 2.0))
    assert one.sensitivity_ == pytest.approx(2 * PASSES * 0.3 * 0.005)
    noisy = {-1: 2, 0: 0, "b": 1}[mode]
    for m in range(3):
        first, second = (fit.model_.factors[m] - base.factors[m] for fit in (one, two))
        if m == noisy:
            assert np.all(np.linalg.norm(first, axis=1) > 0)
            np.testing.assert_allclose(first, 2 * second, atol=1e-12)
        else:
            np.testing.assert_array_equal(first, 0.0)


def test_gradient_sensitivity_is_twice_the_clipping_constant(tensor: Any) -> None:
    """With a tiny constant the noise all but vanishes at any epsilon: the papers' good curves."""
    fit = make("gradient", epsilon=0.01, clip_constant=1e-12).fit(tensor)
    assert fit.sensitivity_ == 2e-12
    again = make("gradient", epsilon=HUGE, clip_constant=1e-12).fit(tensor)
    np.testing.assert_allclose(fit.model_.factors[2], again.model_.factors[2], atol=1e-8)
    loud = make("gradient", epsilon=0.01, clip_constant=0.1).fit(tensor)
    assert np.abs(loud.model_.factors[2] - fit.model_.factors[2]).max() > 0.1


@pytest.mark.parametrize("model", ["cp", "tucker"])
@pytest.mark.parametrize("name", ["gradient", "output"])
def test_the_budget_spread_over_all_parts(any_tensor: Any, name: str, model: str) -> None:
    """Every factor and the core get noise; without noise to speak of it is the plain descent all the same."""
    base = plain(any_tensor, model)
    unclipped: dict[str, Any] = {"clip_constant": 1e4} if name == "gradient" else {}
    quiet = make(name, model, epsilon=HUGE, spread=True, **unclipped).fit(any_tensor)
    np.testing.assert_allclose(quiet.model_.dense(), base.dense(), atol=1e-7)
    loud = make(name, model, epsilon=0.5, spread=True).fit(any_tensor)
    for got, want in zip(loud.model_.factors, base.factors, strict=True):
        assert np.all(np.linalg.norm(got - want, axis=1) > 1e-6)
    if model == "tucker":
        assert np.all(np.abs(loud.model_.core - base.core) > 1e-9)
    assert "general form" in loud.guarantee_.mechanism or "budget divided" in loud.guarantee_.mechanism
    assert loud.guarantee_.status == "refuted"


@pytest.mark.parametrize("model", ["cp", "tucker"])
def test_a_spread_budget_has_equal_parts(tensor: Any, model: str) -> None:
    """Noise of one part is that of a fit with all budget on it, at a third (CP) or a quarter (Tucker) of epsilon."""
    parts = 3 if model == "cp" else 4
    base = plain(tensor, model)
    spread = make("output", model, epsilon=1.0, spread=True).fit(tensor).model_
    alone = make("output", model, epsilon=1.0 / parts, noisy_mode=0).fit(tensor).model_
    np.testing.assert_allclose(spread.factors[0] - base.factors[0], alone.factors[0] - base.factors[0], atol=1e-12)


def test_passes_cost_more_than_the_claim_where_every_part_is_noisy() -> None:
    """Gradients that always point the same way add up over passes, noise only as their root: epsilon 1 fails."""
    found: list[list[float]] = []
    for value in (0.0, 1.0):
        one = tv.ObservedTensor([[0, 0, 0]], [value], shape=(1, 1, 1))
        fits = [
            GradientPerturbation(
                "cp", 1, epsilon=1.0, clip_constant=0.01, start="uniform", passes=200, regularization=0.0,
                random_state=KnownStart(np.random.default_rng([int(value), k])), spread=True, verbose=False,
            ).fit(one)
            for k in range(250)
        ]  # fmt: skip
        found.append([sum(float(f[0, 0]) for f in fit.model_.factors) for fit in fits])
    cut = 0.5 * (np.median(found[0]) + np.median(found[1]))
    below, above = (np.sum(np.array(sums) < cut) for sums in found)
    # 250 draws each: the ratio e of the claim would need at most about 2.8 times as many on one side.
    assert below > 200
    assert below > 8 * above


def test_the_start_can_be_named_and_is_that_of_the_descent(tensor: Any) -> None:
    fits = [PublishedDescent("tucker", 2, passes=1, random_state=3, start=law).fit(tensor) for law in STARTS]
    assert not np.allclose(*(cast(Any, fit.model_).core for fit in fits))
    task = SimpleNamespace(shape=(40, 30), ranks=(20, 20), core=True, order=2, dtype=np.dtype(float))
    for law, low, spread in (("uniform", 0.0, math.sqrt(1 / 12)), ("normal", -math.inf, None)):
        state = start(cast(Any, task), np.random.default_rng(0), law)
        assert state.core is not None
        numbers = state.core.ravel()
        assert numbers.min() >= low
        assert numbers.std() == pytest.approx(spread or 1.0, rel=0.1)


def test_noise_is_drawn_in_chunks_without_losing_visits(tensor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorveil_evidence.published import gradient_perturbation

    whole = make("gradient", epsilon=HUGE).fit(tensor).model_
    monkeypatch.setattr(gradient_perturbation, "CHUNK", 7)
    np.testing.assert_allclose(
        make("gradient", epsilon=HUGE).fit(tensor).model_.factors[2], whole.factors[2], atol=1e-9
    )


def test_the_unperturbed_factors_give_values_away(tensor: Any) -> None:
    """What refutes Algorithm 3 for a known start: the first factor is a noiseless function of the data."""
    fits = []
    for change, epsilon in ((0.0, 1e-3), (0.0, 1e-2), (1.0, 1e-3)):
        values = tensor.values.copy()
        values[0] += change
        fits.append(make("output", epsilon=epsilon).fit(tensor.with_values(values)).model_.factors[0])
    np.testing.assert_array_equal(fits[0], fits[1])
    assert np.abs(fits[2] - fits[0]).max() > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_fit(tensor: Any, name: str) -> None:
    one, two, other = (make(name, random_state=seed).fit(tensor).predict(tensor) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written(tensor: Any, name: str, tmp_path: Path) -> None:
    fit = make(name).fit(tensor)
    for write in (fit.save, fit.write_release, fit.model_.save):
        with pytest.raises(published.ReleaseRefusedError, match="write no release"):
            write(tmp_path / "release")
    tucker = make(name, "tucker").fit(tensor)
    with pytest.raises(published.ReleaseRefusedError, match="guarantee_"):
        tucker.model_.save(tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


EXPECTED = {
    "input": ("claimed", "Theorem 1", "post-processing"),
    "gradient": ("refuted", "Theorem 2", "unperturbed gradients"),
    "output": ("refuted", "Theorem 3", "neither convex nor Lipschitz"),
}


@pytest.mark.parametrize("model", ["cp", "tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_guarantees_say_claim_and_truth(tensor: Any, name: str, model: Any) -> None:
    guarantee = make(name, model, epsilon=12.5).fit(tensor).guarantee_
    status, theorem, reason = EXPECTED[name]
    assert (guarantee.status, guarantee.private, guarantee.secure_noise) == (status, False, False)
    assert (guarantee.epsilon, str(guarantee.unit)) == (12.5, "value")
    text = explain(guarantee)
    assert text.startswith("NOT PRIVATE")
    assert "do not publish" in text
    for words in ("Claimed: epsilon-differential privacy", theorem, "True: ", reason, "numpy's generator"):
        assert words in text
    assert ("core" in guarantee.released) == (model == "tucker")
    assert Guarantee.from_json(json.dumps(guarantee.to_json())) == guarantee


def test_only_declared_bounds_are_ever_said_to_work(tensor: Any) -> None:
    """No sentence may promise epsilon for an algorithm that does not have it, not even with secure noise."""
    assert "would have been (epsilon = 20, delta = 0)" in make("input").fit(tensor).guarantee_.sentence()
    fits = [make("input", bounds="data"), make("gradient"), make("output")]
    for fit in fits:
        guarantee = fit.fit(tensor).guarantee_
        assert guarantee.status == "refuted"
        assert guarantee.bounds is None
        assert "would have been" not in explain(guarantee)
        assert "no finite epsilon" in explain(guarantee)


@pytest.mark.parametrize("name", NAMES)
def test_fitting_prints_the_guarantee(tensor: Any, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fit = make(name, verbose=True).fit(tensor)
    captured = capsys.readouterr()
    assert captured.err.strip() == explain(fit.guarantee_)
    assert captured.out == ""


@pytest.mark.parametrize("name", NAMES)
def test_conventions(tensor: Any, name: str) -> None:
    original = make(name, "tucker", rank=(2, 3, 2))
    assert clone(original).get_params() == original.get_params()
    with pytest.raises(tv.NotFittedError, match=r"must be fitted first"):
        original.predict(tensor)
    fit = original.fit(tensor.coords, tensor.values)
    assert len(fit.history_) == fit.n_iter_ == PASSES
    assert fit.rmse(tensor) == pytest.approx(np.sqrt(np.mean((fit.predict(tensor.coords) - tensor.values) ** 2)))
    assert fit.model_.core.shape == (2, 3, 2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("input", {"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        ("input", {"bounds": None}, "bounds must be"),
        ("input", {"bounds": "guess"}, 'or "data"'),
        ("input", {"bounds": (2, 1)}, "lower one first"),
        ("input", {"bounds": (0.0, 0.1)}, "values must lie within bounds"),
        ("input", {"clamp": "yes"}, "clamp must be True or False"),
        ("gradient", {"clip_constant": 0.0}, "clip_constant must be a finite number above 0"),
        ("gradient", {"noisy_mode": 7}, "mode must be"),
        ("gradient", {"passes": 0}, "passes must be a whole number of at least 1"),
        ("gradient", {"model": "tensor train"}, "model must be one of"),
        ("gradient", {"start": "zeros"}, 'start must be one of "normal", "uniform"'),
        ("gradient", {"spread": "yes"}, "spread must be True or False"),
        ("output", {"spread": True, "noisy_mode": 0}, "noisy_mode has no meaning with spread=True"),
        ("output", {"lipschitz": -1.0}, "lipschitz must be a finite number above 0"),
        ("output", {"noisy_mode": "time"}, "mode must be one of"),
        ("output", {"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
        ("output", {"regularization": -1.0}, "regularization must be a finite number"),
        ("output", {"core_regularization": 0.1}, "no meaning for model"),
        ("output", {"model": "tucker", "core_regularization": -0.1}, "core_regularization must be"),
        ("output", {"rank": 0}, "rank must be a whole number"),
    ],
)
def test_parameter_errors(tensor: Any, name: str, options: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        make(name, **options).fit(tensor)


def test_privacy_inputs_have_no_defaults() -> None:
    with pytest.raises(TypeError, match="epsilon"):
        InputPerturbation(bounds=(0, 1))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="bounds"):
        InputPerturbation(epsilon=1.0)  # type: ignore[call-arg]


def test_equal_values_have_no_range() -> None:
    flat = tv.ObservedTensor([[0, 0], [1, 1]], [1.0, 1.0], shape=(2, 2))
    with pytest.raises(tv.InputError, match="not all equal"):
        make("input", bounds="data").fit(flat)


def test_divergence_is_an_error_with_a_remedy(tensor: Any) -> None:
    with pytest.raises(tv.InputError, match="Try a tenth of learning_rate"):
        make("gradient", learning_rate=50.0, passes=20).fit(tensor)
    with pytest.raises(tv.InputError, match=r"learning_rate .* diverged\. Try a tenth"):
        PublishedDescent("cp", 3, learning_rate=1e6, random_state=0).fit(tensor)


def test_the_plain_descent_claims_nothing_and_writes_nothing(tensor: Any, tmp_path: Path) -> None:
    fit = PublishedDescent("tucker", (2, 3, 2), passes=PASSES, random_state=3)
    assert clone(fit).get_params() == fit.get_params()
    fit.fit(tensor)
    assert not hasattr(fit, "guarantee_")
    for write in (fit.save, fit.write_release, fit.model_.save):
        with pytest.raises(published.ReleaseRefusedError, match="write no release"):
            write(tmp_path / "release")
    assert len(fit.history_) == fit.n_iter_ == PASSES
    assert fit.history_[-1].train_error < fit.history_[0].train_error


def test_published_settings_do_not_beat_the_constant() -> None:
    """The papers' descent with their settings, on their reference case, without any noise."""
    errors, constants = [], []
    for seed in range(6):
        problem = tv.paper_problem("cp", random_state=seed)
        truth = problem.clean_at(problem.held_out.coords)
        prediction = PublishedDescent("cp", 3, random_state=seed).fit(problem.train).predict(problem.held_out)
        errors.append(np.sqrt(np.mean((prediction - truth) ** 2)))
        constants.append(np.sqrt(np.mean((problem.train.values.mean() - truth) ** 2)))
    assert np.mean(errors) == pytest.approx(0.070, abs=0.013)
    assert np.mean(errors) > 0.9 * np.mean(constants)


PAGE = Path(__file__).parents[4] / "docs" / "published.md"


def test_the_page_runs_and_holds_what_guarantees_point_to(tensor: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/published.md", "exec"), names)
    anchors = {
        line.removeprefix("## ").lower().replace(" ", "-") for line in page.splitlines() if line.startswith("## ")
    }
    for name in NAMES:
        place, _, anchor = make(name).fit(tensor).guarantee_.proof.partition("#")
        assert place == "docs/published.md"
        assert anchor in anchors
