"""Numbers against closed forms in high precision, against dp-accounting, and against values from the literature."""

import math
import random
import sys
from typing import Any

import pytest

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.privacy import (
    ZCDP,
    Approximate,
    Composed,
    Gaussian,
    NonPrivate,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
    delta_for,
    epsilon_for,
    gaussian_mu,
    gaussian_sigma,
    split_gaussian,
    split_pure,
    zcdp_rho,
)
from tensorveil.privacy.exact import exactly
from tensorveil.privacy.gdp import gdp_delta, mu_of_pure

mpmath = pytest.importorskip("mpmath")


def precise_delta(mu: Any, epsilon: Any) -> Any:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) with enough digits for any cancellation."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        half, slope = mu / 2, epsilon / mu
        terms = mpmath.erfc((slope - half) / mpmath.sqrt(2)), mpmath.erfc((slope + half) / mpmath.sqrt(2))
        return (terms[0] - mpmath.exp(epsilon) * terms[1]) / 2


def test_gaussian_delta_is_tight_and_never_below_the_truth() -> None:
    rng = random.Random(20260101)
    for _ in range(1500):
        mu, epsilon = 10 ** rng.uniform(-6, 2.5), 10 ** rng.uniform(-6, 3)
        if epsilon / mu > 500:
            continue
        got, truth = gdp_delta(mu, epsilon), precise_delta(mu, epsilon)
        assert got >= truth
        if truth > 1e-30:
            assert got <= truth * (1 + mpmath.mpf("1e-4" if mu < 1e-4 else "1e-7"))


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 1.0, 5.0, 40.0])
def test_pure_mechanisms_lie_within_their_gaussian(epsilon: float) -> None:
    with mpmath.workdps(50):
        corner = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        truth = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * corner)
        assert truth <= mu_of_pure(epsilon) <= truth * (1 + mpmath.mpf("1e-5"))
    # and so does the whole privacy profile of randomised response
    for step in range(21):
        assert delta_for(Gaussian(mu_of_pure(epsilon)), epsilon * step / 20) >= math.expm1(
            epsilon - epsilon * step / 20
        ) / (math.exp(epsilon - epsilon * step / 20) + math.exp(-epsilon * step / 20)) * (1 - 1e-9)


def test_known_gaussian_values() -> None:
    assert epsilon_for(Repeated(Gaussian(1 / 5), 100), 1e-6) == pytest.approx(10.99715, abs=1e-5)
    assert gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(3.730632, abs=1e-6)
    assert gaussian_sigma(1.0, 1e-5, 2 * 28.0) == pytest.approx(209, abs=0.2)  # [-1, 1] on 28 x 28
    assert epsilon_for(Gaussian(56 / 1769), 1e-5) == pytest.approx(0.097, abs=5e-4)
    assert epsilon_for(Gaussian(56 / 1.94e5), 1e-5) == pytest.approx(0.0004, abs=5e-5)
    assert epsilon_for(Gaussian(56 / 271), 1e-5) < 1
    # 28 x 28 values of range 255 with the noise of a nominal range 256: mu = 28 sqrt(2 eps) 255/256
    for nominal, mu, epsilon in ((0.1, 12.5, 130), (0.5, 27.9, 507), (1, 39.4, 945)):
        exact = 28 * math.sqrt(2 * nominal) * 255 / 256
        assert exact == pytest.approx(mu, abs=0.06)
        assert epsilon_for(Gaussian(exact), 1e-5) == pytest.approx(epsilon, abs=0.5)
    assert gaussian_sigma(1.0, 1e-6, 10.0) == pytest.approx(42.247, abs=2e-3)  # 100 steps of sensitivity 1


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 7.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.3])
def test_gaussian_epsilon_inverts_delta(mu: Any, delta: float) -> None:
    epsilon = epsilon_for(Gaussian(mu), delta)
    if epsilon == 0:
        assert precise_delta(mu, "1e-30") <= delta
        return
    assert precise_delta(mu, epsilon) <= delta
    assert precise_delta(mu, epsilon * (1 - 1e-6)) > delta


def test_large_and_small_extremes() -> None:
    assert epsilon_for(Gaussian(1e-8), 1e-5) == 0.0
    assert epsilon_for(Gaussian(1000.0), 1e-5) == pytest.approx(500_000 + 1000 * 4.2649, rel=1e-4)
    assert delta_for(Gaussian(1e-3), 5.0) <= 1e-300
    assert delta_for(Gaussian(1e3), 1.0) == 1.0
    assert delta_for(Gaussian(1.0), 1e6) <= 1e-300
    assert epsilon_for(Gaussian(1.0), 0.0) == math.inf
    assert epsilon_for(Gaussian(0.0), 0.0) == 0.0
    assert epsilon_for(Repeated(Gaussian(1e-200), 10**9), 1e-9) == 0.0


def test_pure_adds_up() -> None:
    assert epsilon_for(Repeated(Pure(0.1), 10), 0.0) == 1.0
    assert epsilon_for(Composed([Pure(0.1), Pure(0.2)]), 0.0) == 0.3
    assert epsilon_for(Composed([Pure(0.5), Pure(0.5)]), 1e-6) == 1.0
    assert delta_for(Composed([Pure(0.5), Pure(0.5)]), 1.0) == 0.0
    assert delta_for(Pure(1.0), 0.0) == pytest.approx((math.e - 1) / (math.e + 1), rel=1e-12)


def brute_force_mixture(pures: Any, mu: Any, epsilon: float) -> Any:
    """Sum over all outcomes of randomised responses, one by one, in high precision."""
    total = mpmath.mpf(0)
    with mpmath.workdps(40):
        for signs in range(2 ** len(pures)):
            loss, weight = mpmath.mpf(0), mpmath.mpf(1)
            for place, pure in enumerate(pures):
                sign = 1 if signs >> place & 1 else -1
                loss += sign * mpmath.mpf(pure)
                weight *= 1 / (1 + mpmath.exp(-sign * mpmath.mpf(pure)))
            if mu:
                total += weight * precise_delta(mu, epsilon - loss)
            else:
                total += weight * max(0, 1 - mpmath.exp(epsilon - loss))
    return total


@pytest.mark.parametrize("pures", [[0.3], [0.1, 0.1, 0.1, 0.5], [2.0, 1.0, 0.25, 0.25, 0.25]])
@pytest.mark.parametrize("mu", [0.0, 0.05, 0.4, 3.0])
def test_mixtures_are_exact(pures: Any, mu: Any) -> None:
    event = Composed([*map(Pure, pures), Gaussian(mu)])
    for epsilon in (0.0, 0.2, 0.7, 2.5):
        truth = brute_force_mixture(pures, mu, epsilon)
        got = delta_for(event, epsilon)
        assert got >= truth * (1 - mpmath.mpf("1e-15")) - mpmath.mpf("1e-30")
        assert got <= truth * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-13")


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (Composed([Pure(0.1), Gaussian(0.18)]), 1e-6),
        (Composed([Repeated(Pure(0.05), 100), Gaussian(0.3)]), 1e-6),
        (Composed([Pure(0.05), Pure(0.1), Pure(0.2), Gaussian(1.0)]), 1e-5),
    ],
)
def test_mixtures_agree_with_privacy_loss_distributions(event: Any, delta: float) -> None:
    pytest.importorskip("dp_accounting")
    from tensorveil.privacy.loss import loss_delta, loss_epsilon
    from tensorveil.privacy.profile import profile_of

    library = loss_epsilon(profile_of(event), delta)
    assert epsilon_for(event, delta) <= library
    assert epsilon_for(event, delta) == pytest.approx(library, rel=1e-5)
    assert delta_for(event, 0.5) == pytest.approx(loss_delta(profile_of(event), 0.5), rel=1e-5)


def test_long_mixtures_use_the_library_or_a_sound_bound() -> None:
    pytest.importorskip("dp_accounting")
    event = Composed([Repeated(Pure(0.01), 500), Gaussian(0.3)])
    best, native = epsilon_for(event, 1e-6), epsilon_for(event, 1e-6, method="native")
    assert best <= native <= 1.25 * best
    assert native <= 5 + epsilon_for(Gaussian(0.3), 1e-6)
    assert delta_for(event, 1.0) <= delta_for(event, 1.0, method="native")


def test_zcdp_conversion_is_the_best_over_orders() -> None:
    for rho, delta in ((0.5, 1e-6), (0.01, 1e-9), (20.0, 1e-3)):
        bounds = []
        for step in range(1, 200_000, 7):
            alpha = 1 + step / 1000
            bounds.append(
                alpha * rho + (-math.log(delta) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)) / (alpha - 1)
            )
        assert epsilon_for(ZCDP(rho), delta) == pytest.approx(min(bounds), rel=1e-4)
        assert epsilon_for(ZCDP(rho), delta) <= min(bounds) * (1 + 1e-9)
        assert delta_for(ZCDP(rho), min(bounds)) == pytest.approx(delta, rel=1e-2)
        # Gaussian noise is zCDP, so its exact cost cannot be larger
        assert epsilon_for(Gaussian(math.sqrt(2 * rho)), delta) <= epsilon_for(ZCDP(rho), delta)


def test_zcdp_with_others() -> None:
    assert epsilon_for(ZCDP(0.5), 0.0) == math.inf
    together = Composed([ZCDP(0.1), Gaussian(math.sqrt(0.2)), Pure(0.01)])
    assert epsilon_for(together, 1e-6) == pytest.approx(epsilon_for(ZCDP(0.2 + 0.01**2 / 2), 1e-6), rel=1e-9)
    assert epsilon_for(Composed([ZCDP(1e-9), Pure(2.0)]), 1e-6) <= 2.01


def test_approximate_adds_both() -> None:
    event = Composed([Approximate(0.2, 1e-7), Approximate(0.3, 2e-7), Pure(0.5)])
    assert epsilon_for(event, 3e-7) == 1.0
    assert epsilon_for(event, 2.9e-7) == math.inf
    assert delta_for(event, 1.0) == 3e-7
    assert epsilon_for(Approximate(0.7, 0.0), 0.0) == 0.7
    both = Composed([Approximate(0.2, 5e-7), Gaussian(0.2)])
    assert epsilon_for(both, 1e-6) == pytest.approx(0.2 + epsilon_for(Gaussian(0.2), 5e-7), rel=1e-12)


def test_nothing_and_everything() -> None:
    assert epsilon_for(Composed([]), 0.0) == epsilon_for(Repeated(NonPrivate(), 0), 0.0) == 0.0
    assert epsilon_for(Composed([Pure(1.0), NonPrivate()]), 0.5) == math.inf
    assert delta_for(Parallel([Pure(1.0), NonPrivate()]), 100.0) == 1.0
    assert epsilon_for(Parallel([]), 0.0) == 0.0


def test_parallel_takes_the_worst() -> None:
    parts = Parallel([Pure(0.2), Gaussian(0.1), Pure(0.3)])
    assert epsilon_for(parts, 1e-6) == max(epsilon_for(part, 1e-6) for part in parts.events)
    twice = Repeated(Parallel([Pure(0.1), Pure(0.4)]), 2)
    assert epsilon_for(twice, 0.0) == 0.8
    mixed = Composed([Gaussian(0.1), Parallel([Pure(0.1), Gaussian(0.2)])])
    assert epsilon_for(mixed, 1e-6) == epsilon_for(Composed([Gaussian(0.1), Pure(0.1), Gaussian(0.2)]), 1e-6)
    uneven = Composed([Parallel([Repeated(Pure(0.1), 3), Pure(0.2)]), Pure(0.5)])
    assert epsilon_for(uneven, 0.0) == 0.8


def test_sampling_agrees_with_the_library_and_helps() -> None:
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    event = Repeated(SampledGaussian(1.0, 0.01), 200)
    library = PLDAccountant()
    library.compose(accounting.PoissonSampledDpEvent(0.01, accounting.GaussianDpEvent(1.0)), 200)
    assert epsilon_for(event, 1e-6) == pytest.approx(library.get_epsilon(1e-6), rel=1e-5)
    assert epsilon_for(event, 1e-6) < epsilon_for(Repeated(Gaussian(1.0), 200), 1e-6) / 10
    assert epsilon_for(SampledGaussian(1.0, 1.0), 1e-6) == epsilon_for(Gaussian(1.0), 1e-6)
    more = Composed([event, ZCDP(0.01), Approximate(0.1, 1e-7)])
    assert epsilon_for(event, 1e-6) + 0.1 < epsilon_for(more, 1e-6) < epsilon_for(event, 1e-6) + 0.9
    assert delta_for(more, epsilon_for(more, 1e-6)) < 1e-4
    assert epsilon_for(event, 0.0) == math.inf


def test_gaussians_agree_with_the_library() -> None:
    accounting = pytest.importorskip("dp_accounting")
    for mu, delta in ((0.2, 1e-6), (1.0, 1e-5), (3.0, 1e-8)):
        assert epsilon_for(Gaussian(mu), delta) == pytest.approx(
            accounting.get_epsilon_gaussian(1 / mu, delta), rel=1e-8
        )


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorveil\[accounting\]"'):
        epsilon_for(SampledGaussian(1.0, 0.01), 1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_calibration_is_tight_and_private(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert epsilon_for(Gaussian(mu), delta) <= epsilon
    assert epsilon_for(Gaussian(mu * (1 + 1e-6)), delta) > epsilon
    assert precise_delta(mu, epsilon) <= delta
    for shrink in (1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-3):
        assert epsilon_for(Gaussian(mu * (1 - shrink)), delta) <= epsilon
    for sensitivity in (1.0, 0.3, 17.0):
        sigma = gaussian_sigma(epsilon, delta, sensitivity)
        assert precise_delta(sensitivity / sigma, epsilon) <= delta
    rho = zcdp_rho(epsilon, delta)
    assert epsilon_for(ZCDP(rho), delta) <= epsilon
    assert epsilon_for(ZCDP(rho * (1 + 1e-6)), delta) > epsilon
    assert math.sqrt(2 * rho) <= mu


def test_splits_stay_within_the_whole() -> None:
    for shares in ([1, 1, 1], [0.1, 0.7, 0.2], [3, 1e-3], [1] * 77):
        parts = split_pure(1.0, shares)
        assert sum(map(exactly, parts)) <= 1
        assert epsilon_for(Composed(map(Pure, parts)), 0.0) <= 1.0
        assert sum(parts) == pytest.approx(1.0, rel=1e-12)
        parts = split_gaussian(0.37, shares)
        assert sum(exactly(part) ** 2 for part in parts) <= exactly(0.37) ** 2
        assert epsilon_for(Composed(map(Gaussian, parts)), 1e-6) <= epsilon_for(Gaussian(0.37), 1e-6)
        assert parts[0] / parts[1] == pytest.approx(math.sqrt(shares[0] / shares[1]))


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian_mu(1.0, 0.0),
        lambda: gaussian_mu(0.0, 1e-6),
        lambda: gaussian_sigma(1.0, 1e-6, 0.0),
        lambda: zcdp_rho(1.0, 0.0),
        lambda: split_pure(1.0, []),
        lambda: split_pure(1.0, [1, 0]),
        lambda: split_gaussian(-1.0, [1]),
        lambda: epsilon_for(Pure(1.0), 1.0),
        lambda: epsilon_for(Pure(1.0), 0.1, method="guess"),
        lambda: delta_for(Pure(1.0), -1.0),
        lambda: Pure(-1.0),
        lambda: Pure(math.inf),
        lambda: Gaussian(math.nan),
        lambda: Approximate(1.0, 1.0),
        lambda: SampledGaussian(1.0, 0.0),
        lambda: SampledGaussian(1.0, 1.5),
        lambda: Repeated(Pure(1.0), -1),
        lambda: Repeated(Pure(1.0), 1.5),  # type: ignore[arg-type]
        lambda: Composed([1.0]),  # type: ignore[list-item]
        lambda: Parallel(["x"]),  # type: ignore[list-item]
    ],
)
def test_refusals(call: Any) -> None:
    with pytest.raises(InputError):
        call()
