"""What exactness rests on: intervals that enclose, float errors within their bounds, and coins that agree."""

import math
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from typing import Any, NoReturn

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.kernels import noise_draws, noise_norm
from tensorveil.noise import basic, gaussian, norm
from tensorveil.noise.interval import Interval, arithmetic, negate, pi_times
from tests.unit.noise.noise_cases import ChosenSource, real_from

unit = st.fractions(Fraction(1, 10**30), 1 - Fraction(1, 10**30), max_denominator=10**40)


def encloses(interval: Any, value: Any, digits: Any) -> None:
    low, high = mpmath.mpf(str(interval.lo)), mpmath.mpf(str(interval.hi))
    own = abs(value) * mpmath.mpf(10) ** (-2 * digits - 20)  # what the reference itself may be off
    assert low - own <= value <= high + own
    assert high - low <= mpmath.mpf(10) ** (5 - digits) * max(1, abs(value))


@settings(max_examples=60)
@given(a=unit, b=unit, digits=st.sampled_from([40, 80, 160]))
def test_intervals_enclose_and_are_narrow(a: Any, b: Any, digits: Any) -> None:
    numbers = arithmetic(digits)
    x, y = numbers.number(a), numbers.number(-b)
    with mpmath.workdps(2 * digits + 40):
        p, q = mpmath.mpf(a.numerator) / a.denominator, -mpmath.mpf(b.numerator) / b.denominator
        encloses(numbers.add(x, y), p + q, digits)
        encloses(numbers.subtract(x, y), p - q, digits)
        encloses(numbers.multiply(x, y), p * q, digits)
        encloses(numbers.divide(y, x), q / p, digits)
        encloses(numbers.ln(x), mpmath.log(p), digits)
        encloses(numbers.exp(y), mpmath.exp(q), digits)
        encloses(numbers.sqrt(x), mpmath.sqrt(p), digits)
        encloses(negate(x), -p, digits)
        cos, sin = numbers.cos_sin_quarter(x)
        encloses(cos, mpmath.cos(p * mpmath.pi / 2), digits)
        encloses(sin, mpmath.sin(p * mpmath.pi / 2), digits)


def test_intervals_do_not_depend_on_the_current_context() -> None:
    """A caller may have set the decimals' context to few digits; the answers must not change."""
    numbers = arithmetic(40)

    def results() -> Any:
        x = numbers.number(Fraction(2, 7))
        return [numbers.ln(x), numbers.exp(negate(x)), numbers.sqrt(x), *numbers.cos_sin_quarter(x)]

    expected = results()
    with localcontext() as context:
        context.prec = 3
        assert results() == expected
    assert getcontext().prec != 3
    assert negate(Interval(Decimal("1." + "3" * 60), Decimal(2))).hi == Decimal("-1." + "3" * 60)


@pytest.mark.parametrize("bits", [10, 200, 1000])
def test_pi(bits: Any) -> None:
    with mpmath.workdps(400):
        assert abs(pi_times(bits) - mpmath.pi * mpmath.mpf(2) ** bits) < 1


@pytest.mark.parametrize(
    ("function", "exact", "low", "high"),
    [
        (math.log, mpmath.log, 2.0**-44, 1.0),
        (lambda x: math.exp(-x), lambda x: mpmath.exp(-x), 0.0, 45.0),
        (math.cos, mpmath.cos, 0.0, math.pi / 2),
        (math.sin, mpmath.sin, 0.0, math.pi / 2),
    ],
)
def test_this_machine_keeps_the_promise_on_elementary_functions(function: Any, exact: Any, low: Any, high: Any) -> None:
    """The kernels' bounds assume 4 units in the last place; the compiled functions are the same library's."""
    for x in np.random.default_rng(1).uniform(low, high, 3000).tolist():
        value = exact(mpmath.mpf(x))
        assert abs(function(x) - value) <= 4 * math.ulp(abs(float(value)))


def test_gaussian_errors_stay_within_half_their_bound() -> None:
    words = ChosenSource([], 11).uniform64(4000)
    with mpmath.workdps(60):
        for r, a in words.reshape(-1, 2).tolist():
            x, y, error, radius = noise_draws.polar(np.uint64(r), np.uint64(a))
            length = mpmath.sqrt(-2 * mpmath.log(real_from([r >> 1], 63)))
            angle = real_from([a >> 2], 62) * mpmath.pi / 2
            assert abs(abs(x) - length * mpmath.cos(angle)) <= error / 2
            assert abs(abs(y) - length * mpmath.sin(angle)) <= error / 2
            assert radius == pytest.approx(float(length))


@pytest.mark.parametrize("dimension", [1, 5, 32])
def test_radius_errors_stay_within_half_their_bound(dimension: Any) -> None:
    words = ChosenSource([], 12).uniform64(200 * dimension).reshape(-1, dimension)
    with mpmath.workdps(60):
        for row in words:
            total, error = noise_norm.radius_of(row, dimension)
            exact = -sum(mpmath.log(real_from([w], 64)) for w in row.tolist())
            assert abs(total - exact) <= error / 2


def test_few_bits_are_always_doubtful() -> None:
    assert noise_draws.polar(np.uint64(5), np.uint64(1))[2] == math.inf
    assert noise_draws.polar(np.uint64(2**64 - 1), np.uint64(1))[2] == math.inf
    assert noise_norm.radius_of(np.array([2**63, 7], np.uint64), 2)[1] == math.inf


@pytest.mark.parametrize(
    ("propose", "arguments"),
    [
        (gaussian._propose_gaussian, (Fraction(5, 2), 150)),
        (gaussian._propose_gaussian, (Fraction(1, 7), 150)),
        (gaussian._propose_gaussian, (Fraction(2**39), 60)),
        (norm._propose_products, (Fraction(1, 3), 2, 150)),
        (norm._propose_products, (Fraction(2**30), 3, 60)),
    ],
)
def test_coins_by_floats_and_by_intervals_agree(monkeypatch: pytest.MonkeyPatch, propose: Any, arguments: Any) -> None:
    """Declaring every float worthless sends every coin to the exact path: the outcomes must be the same."""
    original = basic.accept
    fast = propose(*arguments, ChosenSource([], 21))
    module = gaussian if propose is gaussian._propose_gaussian else norm
    asked = []

    def distrusting(exponents: Any, errors: Any, exact: Any, source: Any) -> Any:
        def recorded(i: Any) -> Any:
            asked.append(i)
            return exact(i)

        return original(exponents, np.full_like(errors, np.inf), recorded, FirstWords(source, len(exponents)))

    monkeypatch.setattr(module, "accept", distrusting)
    slow = propose(*arguments, ChosenSource([], 21))
    assert len(asked) == arguments[-1]
    assert fast.tolist() == slow.tolist()


class FirstWords:
    """The coins' words come from the stream; extensions are fixed, since they must not matter here."""

    secure = False

    def __init__(self, source: Any, n: int) -> None:
        self.source = source
        self.n: int | None = n

    def uniform64(self, n: int) -> Any:
        if n == self.n:
            self.n = None
            return self.source.uniform64(n)
        return np.full(n, 2**63 + 12345, dtype=np.uint64)

    def bytes(self, n: int) -> NoReturn:
        raise NotImplementedError
