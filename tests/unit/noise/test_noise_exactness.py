"""Exactness: at every decision boundary the samplers answer as arithmetic with 120 digits does."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NoReturn

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.noise import bernoulli_exp, discrete_laplace, norm_laplace, rounded_gaussian, uniform
from tensorveil.noise.basic import flip_fractions
from tensorveil.noise.gaussian import settle_pair
from tensorveil.noise.laplace import settle_laplace
from tensorveil.noise.norm import _propose_shells, _slack, settle_shell
from tensorveil.noise.uniform import Uniform
from tests.unit.noise.noise_cases import (
    ChosenSource,
    bits_of,
    exact_laplace,
    laplace_threshold,
    mpmath_digits,
    real_from,
)

SCALES = [
    Fraction(1, 20),
    Fraction(0.3),
    Fraction(1),
    Fraction(22, 7),
    Fraction(1000),
    Fraction(2**20) + Fraction(1, 3),
]


@pytest.fixture(autouse=True)
def many_digits() -> Iterator[Any]:
    with mpmath.workdps(mpmath_digits):
        yield


@pytest.mark.parametrize("scale", [*SCALES, Fraction(2**40)])
def test_laplace_at_its_boundaries(scale: Any) -> None:
    """The uniforms that give |k| >= m are those below P(|k| >= m): checked to the last of 191 bits on both sides."""
    for m in {1, 2, 3, max(1, int(scale)), max(1, int(5 * scale)), max(1, int(20 * scale))}:
        threshold = laplace_threshold(m, scale)
        prefix, second, third = bits_of(threshold, 63, 2)
        for sign in (0, 1):
            cases = [
                ([prefix - 1], m),
                ([prefix + 1], m - 1),
                ([prefix, second - 1], m),
                ([prefix, second + 1], m - 1),
                ([prefix, second, third - 1], m),
                ([prefix, second, third + 1], m - 1),
            ]
            for (first, *more), least in cases:
                if min(first, *more, 0) < 0:  # a threshold below 2**-63: its first word is 0 on both sides
                    continue
                source = ChosenSource([first << 1 | sign, *more], seed=m)
                k = int(discrete_laplace(scale, 1, source)[0])
                if least >= m:
                    assert abs(k) >= m
                else:
                    assert abs(k) < m
                assert k <= 0 if sign else k >= 0


@settings(max_examples=150)
@given(word=st.integers(0, 2**64 - 1), seed=st.integers(0, 99), scale=st.fractions(Fraction(1, 50), 2**40))
def test_laplace_on_any_word(word: Any, seed: int, scale: Any) -> None:
    """Whether or not more bits were needed, the draw is that of the uniform which the words spell."""
    source = ChosenSource([word], seed)
    k = int(discrete_laplace(scale, 1, source)[0])
    following = [int(w) for w in ChosenSource([], seed).uniform64(12)]
    with mpmath.workdps(mpmath_digits * 2):
        exact = exact_laplace(real_from([word >> 1, *following], 63), scale)
    assert k == (-exact if word & 1 else exact)


@pytest.mark.parametrize("word", [0, 1, 2, 2**64 - 1, 2**64 - 2, 2**20, 2**21 - 1])
@pytest.mark.parametrize("scale", [Fraction(1, 20), Fraction(1), Fraction(2**40)])
def test_laplace_at_the_ends_of_the_words(word: Any, scale: Any) -> None:
    source = ChosenSource([word], 3)
    k = int(discrete_laplace(scale, 1, source)[0])
    following = [int(w) for w in ChosenSource([], 3).uniform64(12)]
    exact = exact_laplace(real_from([word >> 1, *following], 63), scale)
    assert k == (-exact if word & 1 else exact)


def exact_pair(word_r: Any, word_a: Any, following_r: Any, following_a: Any) -> Any:
    radius = mpmath.sqrt(-2 * mpmath.log(real_from([word_r >> 1, *following_r], 63)))
    angle = real_from([word_a >> 2, *following_a], 62) * mpmath.pi / 2
    x, y = radius * mpmath.cos(angle), radius * mpmath.sin(angle)
    return (-x if word_a & 1 else x, -y if word_a & 2 else y)


@settings(max_examples=150)
@given(
    word_r=st.integers(2**30, 2**64 - 1), word_a=st.integers(0, 2**64 - 1), sigma=st.fractions(Fraction(1, 50), 2**22)
)
def test_gaussian_on_any_words(word_r: Any, word_a: Any, sigma: Any) -> None:
    """Words alone settle nearly all; then any continuation of both must agree with the answer."""
    source = ChosenSource([word_r, word_a])
    pair = rounded_gaussian(sigma, 2, source).tolist()
    if source.drawn > 2:
        return
    s = mpmath.mpf(sigma.numerator) / sigma.denominator
    for end_r in (0, 2**64 - 1):
        for end_a in (0, 2**64 - 1):
            exact = exact_pair(word_r, word_a, [end_r], [end_a])
            assert pair == [int(mpmath.floor(s * z + 0.5)) for z in exact]


@pytest.mark.parametrize("sigma", [Fraction(1, 4), Fraction(1), Fraction(100), Fraction(2**20) + Fraction(1, 3)])
@pytest.mark.parametrize("signs", [0, 1, 2, 3])
def test_gaussian_at_its_boundaries(sigma: Any, signs: Any) -> None:
    """For a fixed angle, the radius at which the first number rounds otherwise: checked to 191 bits on both sides."""
    s = mpmath.mpf(sigma.numerator) / sigma.denominator
    word_a = (12345678901234567890 >> 2) << 2 | signs
    more_a = [111, 222, 333]
    k = max(0, int(sigma * Fraction(3, 4)))
    angle = real_from([word_a >> 2, *more_a], 62) * mpmath.pi / 2
    # The radius where sigma * r * cos(angle) = k + 1/2, as a uniform; a larger uniform is a smaller radius.
    radius = (k + mpmath.mpf(1) / 2) / (s * mpmath.cos(angle))
    prefix, second, third = bits_of(mpmath.exp(-(radius**2) / 2), 63, 2)
    for (first, *more), size in [
        ([prefix - 2], k + 1),
        ([prefix + 2], k),
        ([prefix, second - 2], k + 1),
        ([prefix, second + 2], k),
        ([prefix, second, third - 2], k + 1),
        ([prefix, second, third + 2], k),
    ]:
        # Both uniforms are extended in turn: first all that the radius needs, then the angle.
        source = Interleaved(more, more_a)
        found = settle_pair(first << 1, word_a, sigma, source)
        assert abs(found[0]) == size
        assert found[0] <= 0 if signs & 1 else found[0] >= 0


class Interleaved:
    """The radius is extended twice, then the angle twice, as 40 digits (160 bits) ask; then both grow further."""

    secure = False

    def __init__(self, more_r: Any, more_a: Any) -> None:
        self.words = [*[*more_r, 77, 88][:2], *more_a[:2]]

    def uniform64(self, n: int) -> Any:
        assert n == 1
        return np.array([self.words.pop(0) if self.words else 99], dtype=np.uint64)

    def bytes(self, n: int) -> NoReturn:
        raise NotImplementedError


def test_gaussian_pairs_agree_between_kernel_and_exact() -> None:
    """The exact path alone gives what the compiled path gives, wherever the latter is certain."""
    words = ChosenSource([], 5).uniform64(400)
    for sigma in (Fraction(1, 3), Fraction(50), Fraction(2**20)):
        fast = rounded_gaussian(sigma, 400, ChosenSource(words))
        slow = [settle_pair(int(r), int(a), sigma, ChosenSource([])) for r, a in words.reshape(-1, 2)]
        assert fast.tolist() == [k for pair in slow for k in pair]


@pytest.mark.parametrize(
    ("dimension", "scale"), [(2, Fraction(1)), (3, Fraction(5, 2)), (8, Fraction(2**33)), (5, Fraction(2**20))]
)
def test_shells_agree_between_kernel_and_exact(dimension: Any, scale: Any) -> None:
    width = dimension + 2 * ((dimension + 1) // 2) + 1
    words = ChosenSource([], dimension).uniform64(40 * width)
    words[width - 1 :: 2 * width] = 2**64 - 2**20  # coins that fall only if the chance is nearly 1: it never quite is
    fast = _propose_shells(scale, dimension, 40, ChosenSource(words))
    slow = [settle_shell(row, dimension, scale, ChosenSource([])) for row in words.reshape(40, width).tolist()]
    assert fast.tolist() == [z for z, kept in slow if kept]
    assert len(fast) <= 20


@pytest.mark.parametrize("dimension", [2, 3])
def test_shells_whose_gaussians_are_next_to_zero_are_settled_exactly(dimension: Any) -> None:
    """One radius in a million lies so near 1 that the compiled path gives up: it must say so, not divide by 0."""
    width = dimension + 2 * ((dimension + 1) // 2) + 1
    words = ChosenSource([], dimension).uniform64(6 * width)
    words[dimension::width] = 2**64 - 2**40
    words[dimension + 2 :: width] = 2**64 - 2**41 if dimension > 2 else words[dimension + 2 :: width]
    words[width - 1 :: width] = 0  # every proposal is kept
    fast = _propose_shells(Fraction(2**20), dimension, 6, ChosenSource(words))
    slow = [settle_shell(row, dimension, Fraction(2**20), ChosenSource([])) for row in words.reshape(6, width).tolist()]
    assert fast.tolist() == [z for z, _ in slow]


@pytest.mark.parametrize("digits", [1, 2, 5])
def test_precision_grows_until_the_answer_is_certain(monkeypatch: pytest.MonkeyPatch, digits: Any) -> None:
    """Started with too few digits, the exact paths ask again with more and come to the same answers."""
    rows = ChosenSource([], 6).uniform64(60 * 8).reshape(60, 8).tolist()

    def answers() -> Any:
        return [
            (
                settle_laplace(row[0], Fraction(5000), ChosenSource([])),
                settle_pair(row[1], row[2], Fraction(5000), ChosenSource([])),
                settle_shell(row, 3, Fraction(50), ChosenSource([])),
                Uniform(row[3], 64, ChosenSource([])).below_exp(lambda numbers: numbers.number(Fraction(-2, 3))),
            )
            for row in rows
        ]

    expected = answers()
    monkeypatch.setattr(uniform, "FIRST_DIGITS", digits)
    assert answers() == expected


def test_shell_verdict_against_mpmath() -> None:
    """Point, rounding and coin of the exact path, recomputed independently."""
    dimension, scale = 3, Fraction(7, 4)
    width = dimension + 4 + 1
    for row in ChosenSource([], 8).uniform64(60 * width).reshape(60, width).tolist():
        z, kept = settle_shell(row, dimension, scale, ChosenSource([], 1))
        g = [*exact_pair(row[3], row[4], [0], [0]), *exact_pair(row[5], row[6], [0], [0])][:dimension]
        radius = -mpmath.mpf(7) / 4 * sum(mpmath.log(real_from([w], 64)) for w in row[:dimension])
        length = mpmath.sqrt(sum(x * x for x in g))
        assert z == [int(mpmath.floor(radius * x / length + 0.5)) for x in g]
        slack = mpmath.sqrt(dimension) / 2
        excess = mpmath.sqrt(sum(k * k for k in z)) - radius + slack
        assert excess >= 0
        assert kept == (real_from([row[-1]], 64) < mpmath.exp(-excess / (mpmath.mpf(7) / 4)))


@pytest.mark.parametrize("dimension", [2, 3, 7, 32, 1024])
def test_slack_reaches_the_corner_of_the_cube(dimension: Any) -> None:
    assert _slack(dimension) ** 2 * 4 >= dimension


@pytest.mark.parametrize("exponent", [1e-12, 0.1, 0.6931471805599453, 3.0, 40.0])
def test_bernoulli_exp_at_its_boundary(exponent: Any) -> None:
    first, second, third = bits_of(mpmath.exp(-mpmath.mpf(exponent)), 64, 2)
    for words, answer in [
        ([first - 1], True),
        ([first + 1], False),
        ([first, second - 1], True),
        ([first, second + 1], False),
        ([first, second, third - 1], True),
        ([first, second, third + 1], False),
    ]:
        assert bool(bernoulli_exp([exponent], ChosenSource(words))[0]) is answer


@given(part=st.floats(0, 1, exclude_max=True))
@settings(max_examples=100)
def test_rounding_up_at_its_boundary(part: Any) -> None:
    """P(up) is the fraction itself, to the last bit of the float, however small."""
    exact = Fraction(part)
    words, rest = [], exact
    for _ in range(18):
        scaled = rest * 2**64
        words.append(int(scaled))
        rest = scaled - words[-1]
    assert rest == 0
    assert not flip_fractions(np.array([part]), ChosenSource(words))[0]  # the uniform equals the fraction
    if exact > 0:
        below = int(exact * 2 ** (64 * 18)) - 1
        before = [below >> (64 * (17 - i)) & (2**64 - 1) for i in range(18)]
        assert flip_fractions(np.array([part]), ChosenSource(before))[0]


def test_draws_in_progress_are_never_abandoned() -> None:
    """A doubtful draw keeps its first word: its outcome stays within what that word allows."""
    scale = Fraction(10)
    prefix = bits_of(laplace_threshold(7, scale), 63, 0)[0]
    seen = {int(discrete_laplace(scale, 1, ChosenSource([prefix << 1], seed))[0]) for seed in range(60)}
    assert seen == {6, 7}


def test_one_dimension_is_laplace() -> None:
    words = ChosenSource([], 4).uniform64(50)
    assert (
        norm_laplace(3, 1, 50, ChosenSource(words))[:, 0].tolist()
        == discrete_laplace(3, 50, ChosenSource(words)).tolist()
    )
