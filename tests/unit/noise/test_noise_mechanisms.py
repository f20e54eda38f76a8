"""Mechanisms: the noise they add, what can come out, the privacy loss by enumeration, and what they refuse."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.noise import (
    Grid,
    SecureSource,
    SeededSource,
    bernoulli_exp,
    bounded_steps,
    bounded_values_mechanism,
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_variance,
    gaussian_mechanism,
    laplace_mechanism,
    norm_laplace,
    norm_laplace_variance,
    norm_mechanism,
    rounded_gaussian,
    rounded_gaussian_variance,
    snap,
    uniform_below,
)
from tests.unit.noise.noise_cases import ChosenSource

GRID = Grid(0.25)
CALLS = {
    "laplace": lambda ints, source: laplace_mechanism(ints, GRID, 3, 1.5, source),
    "gaussian": lambda ints, source: gaussian_mechanism(ints, GRID, 3, 1.5, source),
    "norm": lambda ints, source: norm_mechanism(ints, GRID, 3, 1.5, source),
}


@pytest.mark.parametrize("kind", CALLS)
def test_values_lie_on_the_grid_and_tell_their_variance(kind: Any) -> None:
    ints = np.arange(-6, 6).reshape(4, 3)
    noisy = CALLS[kind](ints, SeededSource(3))
    draw = {
        "laplace": lambda: discrete_laplace(2, (4, 3), SeededSource(3)),
        "gaussian": lambda: rounded_gaussian(2, (4, 3), SeededSource(3)),
        "norm": lambda: norm_laplace(2, 3, 4, SeededSource(3)),
    }[kind]()
    assert (noisy.values == (ints + draw) * 0.25).all()
    variance = {
        "laplace": discrete_laplace_variance(2),
        "gaussian": rounded_gaussian_variance(2),
        "norm": norm_laplace_variance(2, 3),
    }[kind]
    assert noisy.variance == pytest.approx(variance / 16)
    assert noisy.source_secure is False
    assert CALLS[kind](ints, SecureSource()).source_secure is True
    assert noisy.values.dtype == np.float64


def test_scales_are_exact_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensitivity / epsilon is never rounded, so the guarantee is not off by a unit in the last place."""
    from tensorveil.noise import adding as mechanisms

    seen = []

    def recorded(scale: Any, *_: Any) -> Any:
        seen.append(scale)
        return np.zeros(1, np.int64)

    monkeypatch.setattr(mechanisms, "discrete_laplace", recorded)
    laplace_mechanism([0], GRID, Fraction(10, 3), 0.1, SeededSource(0))
    bounded_values_mechanism([0.0], (0.0, 1.0), SeededSource(0), epsilon=0.1)
    assert seen == [Fraction(10, 3) / Fraction(0.1), Fraction(bounded_steps(0.1)) / Fraction(0.1)]


def reachable(kind: Any, statistic: Any, window: Any) -> Any:
    """Every output within a window that some choice of words produces (words spread over all outcomes)."""
    spread = [int(2**64 * (i + 0.5) / 400) for i in range(400)] + [2**k + s for k in range(22, 62) for s in (0, 1)]
    angles = [int(2**64 * (i + 0.5) / 16) & ~3 | signs for i in range(16) for signs in range(4)]
    words = (
        [w ^ sign for w in spread for sign in (0, 1)]
        if kind != "gaussian"
        else [w for pair in itertools.product(spread, angles) for w in pair]
    )
    out = CALLS[kind](np.full(len(words), statistic), ChosenSource(words)).values
    return {float(v) for v in out if abs(v) <= window}


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_set_of_outputs_does_not_depend_on_the_data(kind: Any) -> None:
    """Neighbours reach the very same floats, bit for bit: all multiples of the step within a window."""
    window = 1.5
    every = {k * GRID.step for k in range(-6, 7)}
    for statistic in (0, 1, -2, 3):
        assert reachable(kind, statistic, window) == every


def test_the_set_of_noisy_rows_does_not_depend_on_the_data() -> None:
    every = {(a * GRID.step, b * GRID.step) for a in range(-2, 3) for b in range(-2, 3)}
    for statistic in ((0, 0), (1, -1), (0, 2)):
        noisy = norm_mechanism(np.tile(statistic, (4000, 1)), GRID, 3, 1.5, SeededSource(4)).values
        assert every <= {tuple(row) for row in noisy.tolist()}
        assert (np.rint(noisy / GRID.step) * GRID.step == noisy).all()


def test_large_integer_sensitivities_are_not_rounded() -> None:
    from tensorveil.noise.uniform import fraction

    whole: Any = np.int64(2**60 + 1)
    short: Any = np.float32(0.1)
    assert fraction(whole, "x") == 2**60 + 1
    assert fraction(short, "x") == Fraction(float(short))
    assert fraction(Fraction(1, 3), "x") == Fraction(1, 3)


@pytest.mark.parametrize("parameter", [{"epsilon": 1.0}, {"mu": 0.7}])
def test_bounded_outputs_do_not_depend_on_the_data(parameter: Any) -> None:
    """With noise of +-1 step about either value, outputs are drawn from one public list of floats."""
    low, high = 0.1, 0.7
    steps = bounded_steps(next(iter(parameter.values())))
    width = (high - low) / steps
    for value in (low, high, 0.3, 0.123456789):
        noisy = bounded_values_mechanism(np.full(500, value), (low, high), SeededSource(1), **parameter).values
        places = np.rint((noisy - low) / width)
        assert (low + places * width == noisy).all()


def test_laplace_loss_by_enumeration() -> None:
    """P(out | x) / P(out | x') never exceeds exp(epsilon) for statistics within the L1 sensitivity."""
    sensitivity, epsilon = 3, 0.8
    scale = sensitivity / epsilon
    a = math.exp(-1 / scale)

    def log_p(k: Any) -> Any:
        return math.log((1 - a) / (1 + a)) - abs(k) / scale

    worst = 0.0
    for x in itertools.product(range(-sensitivity, sensitivity + 1), repeat=2):
        if sum(map(abs, x)) <= sensitivity:
            for out in itertools.product(range(-12, 13), repeat=2):
                worst = max(worst, sum(log_p(o) - log_p(o - m) for o, m in zip(out, x, strict=True)))
    assert worst <= epsilon * (1 + 1e-12)
    assert worst == pytest.approx(epsilon)


@given(
    moved=st.lists(st.integers(-50, 50), min_size=2, max_size=5),
    out=st.lists(st.integers(-200, 200), min_size=5, max_size=5),
)
@settings(max_examples=200)
def test_norm_loss_is_bounded_by_the_triangle_inequality(moved: Any, out: Any) -> None:
    length = math.hypot(*moved)
    if length > 0:
        epsilon, out = 1.3, out[: len(moved)]
        scale = length / epsilon
        loss = (math.hypot(*(o - m for o, m in zip(out, moved, strict=True))) - math.hypot(*out)) / scale
        assert abs(loss) <= epsilon * (1 + 1e-12)


def gaussian_curve(mu: Any, epsilon: float) -> Any:
    """delta(epsilon) of mu-GDP (Balle and Wang 2018, theorem 8)."""

    def upper(t: Any) -> Any:
        return 0.5 * math.erfc(t / math.sqrt(2))

    return upper(epsilon / mu - mu / 2) - math.exp(epsilon) * upper(epsilon / mu + mu / 2)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_rounded_gaussian_is_gdp_by_enumeration(sigma: Any, shift: Any) -> None:
    """The hockey-stick divergence of the rounded law never exceeds that of the continuous one at the same mu."""

    def p(k: Any) -> Any:
        low, high = (abs(k) - 0.5) / sigma, (abs(k) + 0.5) / sigma
        return 0.5 * (math.erfc(low / math.sqrt(2)) - math.erfc(high / math.sqrt(2)))

    mu, reach = shift / sigma, int(12 * sigma) + shift + 2
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        delta = math.fsum(max(0.0, p(k - shift) - math.exp(epsilon) * p(k)) for k in range(-reach, reach + 1))
        assert delta <= gaussian_curve(mu, epsilon) + 1e-14
        if sigma >= 10:
            assert delta == pytest.approx(gaussian_curve(mu, epsilon), abs=2e-3)


@pytest.mark.parametrize("parameter", [{"epsilon": 2.0}, {"mu": 2.0}, {"epsilon": 1e-4}, {"epsilon": 1e5}])
def test_bounded_values_are_perturbed_about_themselves(parameter: Any) -> None:
    low, high = -0.3, 1.9
    values = np.linspace(low, high, 20_000)
    noisy = bounded_values_mechanism(values, (low, high), SeededSource(6), **parameter)
    noise = noisy.values - values
    spread = math.sqrt(noisy.variance)
    assert abs(noise.mean()) < 7 * spread / math.sqrt(len(values))
    assert noise.std() == pytest.approx(spread, rel=0.07)
    value = next(iter(parameter.values()))
    width = high - low
    expected = math.sqrt(2) * width / value if "epsilon" in parameter else width / value
    assert spread == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("parameter", [1e-6, 0.1, 1.0, 7.0, 1e3, 1e9])
def test_bounds_are_cut_finely_enough(parameter: Any) -> None:
    steps = bounded_steps(parameter)
    assert steps & (steps - 1) == 0
    assert 2**12 <= steps <= 2**40
    assert steps == 2**40 or steps / parameter >= 2**20 * 0.99


def test_values_at_the_bounds_are_at_most_all_steps_apart() -> None:
    from tensorveil.noise.adding import place_values

    for low, high in ((0.1, 0.7), (-1e-3, 1e9), (1.0, 1.0 + 2.0**-40), (0.0, 5e-324), (-1e308, 7e307)):
        for steps in (2**12, 2**21, 2**40):
            inside = np.array([low, low / 2 + high / 2, high])
            places = place_values(inside, low, high, steps)
            assert places.min() >= 0
            assert places.max() <= steps


REFUSED = [
    ("epsilon must be finite and above 0", lambda s: laplace_mechanism([1], GRID, 1, 0.0, s)),
    ("epsilon must be finite and above 0", lambda s: laplace_mechanism([1], GRID, 1, float("nan"), s)),
    ("epsilon must be finite and above 0", lambda s: norm_mechanism([[1]], GRID, 1, -2.0, s)),
    ("mu must be finite and above 0", lambda s: gaussian_mechanism([1], GRID, 1, float("inf"), s)),
    ("l1_sensitivity_steps must be finite and above 0", lambda s: laplace_mechanism([1], GRID, 0, 1.0, s)),
    ("l2_sensitivity_steps must be finite and above 0", lambda s: gaussian_mechanism([1], GRID, -1, 1.0, s)),
    ("ints must be signed integers", lambda s: laplace_mechanism([1.5], GRID, 1, 1.0, s)),
    ("ints must be signed integers", lambda s: laplace_mechanism(np.array([1], np.uint64), GRID, 1, 1.0, s)),
    ("ints must be signed integers", lambda s: laplace_mechanism([True], GRID, 1, 1.0, s)),
    ("ints must stay below 2\\*\\*62", lambda s: laplace_mechanism([2**62], GRID, 1, 1.0, s)),
    ("ints must stay below 2\\*\\*62", lambda s: laplace_mechanism([-(2**63)], GRID, 1, 1.0, s)),
    ("rows must be a matrix", lambda s: norm_mechanism([1, 2], GRID, 1, 1.0, s)),
    ("scale must be at most 2\\*\\*40 steps", lambda s: laplace_mechanism([1], GRID, 2**41, 1.0, s)),
    ("sigma must be at most 2\\*\\*40 steps", lambda s: rounded_gaussian(2.0**41, 1, s)),
    ("sigma must be at most 2\\*\\*40 steps", lambda s: discrete_gaussian(2.0**41, 1, s)),
    ("scale must be at least 2\\*\\*-40 steps", lambda s: discrete_laplace(1e-300, 1, s)),
    ("size must not be negative", lambda s: discrete_laplace(1.0, -1, s)),
    ("size must not be negative", lambda s: norm_laplace(1.0, 2, -1, s)),
    ("dimension must be between 1 and 1024", lambda s: norm_laplace(1.0, 0, 1, s)),
    ("dimension must be between 1 and 1024", lambda s: norm_laplace(1.0, 1025, 1, s)),
    ("too small for norm-shaped noise", lambda s: norm_laplace(0.3, 200, 1, s)),
    ("exponents must be finite and at least 0", lambda s: bernoulli_exp([0.5, -1234.0], s)),
    ("exponents must be finite and at least 0", lambda s: bernoulli_exp([math.nan], s)),
    ("bound must be between 1 and 2", lambda s: uniform_below(0, 1, s)),
    ("bound must be between 1 and 2", lambda s: uniform_below(2**63 + 1, 1, s)),
    ("give either epsilon", lambda s: bounded_values_mechanism([1.0], (0.0, 1.0), s)),
    ("give either epsilon", lambda s: bounded_values_mechanism([1.0], (0.0, 1.0), s, epsilon=1.0, mu=1.0)),
    ("bounds must be two finite numbers", lambda s: bounded_values_mechanism([1.0], (1.0, 0.0), s, epsilon=1.0)),
    ("bounds must be two finite numbers", lambda s: bounded_values_mechanism([1.0], (0.0, math.inf), s, epsilon=1.0)),
    ("values must lie within bounds", lambda s: bounded_values_mechanism([1234.5], (0.0, 1.0), s, epsilon=1.0)),
    ("values must lie within bounds", lambda s: bounded_values_mechanism([math.nan], (0.0, 1.0), s, epsilon=1.0)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals_name_the_rule_and_no_data(message: Any, call: Any) -> None:
    source = ChosenSource([])
    with pytest.raises(InputError, match=message) as caught:
        call(source)
    assert source.drawn == 0, "a refused call must not draw"
    assert "1234" not in str(caught.value)
    assert str(2**62) not in str(caught.value)


def test_shapes_and_empty_statistics() -> None:
    for shape in ((), (0,), (2, 0), (2, 3, 4)):
        ints = np.zeros(shape, dtype=np.int32)
        assert laplace_mechanism(ints, GRID, 1, 1.0, SeededSource(1)).values.shape == shape
        assert gaussian_mechanism(ints, GRID, 1, 1.0, SeededSource(1)).values.shape == shape
        assert bounded_values_mechanism(ints, (0.0, 1.0), SeededSource(1), mu=1.0).values.shape == shape
        assert discrete_gaussian(3, shape, SeededSource(1)).shape == shape
    assert norm_mechanism(np.zeros((0, 3), int), GRID, 1, 1.0, SeededSource(1)).values.shape == (0, 3)


def test_blocks_leave_no_seam() -> None:
    """Draws beyond one block of words are as those of the next blocks of the same stream."""
    from tensorveil.noise.uniform import BLOCK

    for draw in (discrete_laplace, rounded_gaussian):
        long = draw(9.5, BLOCK + 1001, SeededSource(8))
        short = draw(9.5, BLOCK, SeededSource(8))
        assert (long[:BLOCK] == short).all()
        assert len(np.unique(long[BLOCK:])) > 10
    for draw in (discrete_laplace, rounded_gaussian, discrete_gaussian):
        assert draw(9.5, 2 * BLOCK + 3, SeededSource(8)).shape == (2 * BLOCK + 3,)
    assert norm_laplace(9.5, 5, BLOCK // 4, SeededSource(8)).shape == (BLOCK // 4, 5)


def test_a_release_from_start_to_end() -> None:
    """A bounded sum per row: contributions snapped, summed exactly, noised, and near the truth."""
    rng = np.random.default_rng(0)
    values = rng.uniform(1, 5, size=(50, 4))
    grid = Grid.for_scale(4 / 0.5)
    sums = snap(values, grid).sum(axis=0)
    noisy = laplace_mechanism(sums, grid, int(snap([5.0], grid)[0] - snap([1.0], grid)[0]), 0.5, SecureSource())
    assert np.abs(noisy.values - values.sum(axis=0)).max() < 40 * math.sqrt(noisy.variance)
    assert noisy.variance == pytest.approx(2 * 8**2, rel=1e-6)


def test_the_page_runs_and_holds_every_proof_that_is_cited() -> None:
    import re
    from pathlib import Path

    import tensorveil.noise

    page = (Path(__file__).parents[3] / "docs" / "explanation" / "noise.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "noise.md", "exec"), {})
    anchors = {h.lower().replace(" ", "-") for h in re.findall(r"^## (.*)$", page, re.MULTILINE)}
    sources = Path(tensorveil.noise.__file__).parent.glob("*.py")
    cited = {a for source in sources for a in re.findall(r"docs/explanation/noise\.md#([a-z-]+)", source.read_text())}
    assert len(cited) >= 6
    assert cited <= anchors
