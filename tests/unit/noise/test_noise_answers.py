"""Answers on a grid: windows, two points, kept or noisy, staircase; laws by enumeration, doubt by chosen words."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensorveil.noise import SeededSource
from tensorveil.noise.dyadic import WORDS, chance_below, exp_at_least, exp_at_most, log_at_least
from tensorveil.noise.responses import KeepOrLaplace, TwoPoints, Windows, chances
from tensorveil.noise.staircase import StaircaseSampler, Stairs, best_stairs, settle_stairs, stairs_variance
from tests.chance import assert_fits
from tests.unit.noise.noise_cases import ChosenSource

ONES = (1 << 64) - 1


def columns(n: int) -> Any:
    return np.zeros(n, dtype=np.int64)


def tally(codes: Any, low: Any, high: Any) -> Any:
    clipped = np.clip(codes, low, high)
    return np.bincount(clipped - low, minlength=high - low + 1)


def window_law(last: Any, width: Any, chance: Any, index: Any) -> Any:
    p = chance / WORDS
    law = np.full(last + width, (1 - p) / last)
    law[index : index + width] = p / width
    return law


@pytest.mark.parametrize(("last", "width", "index"), [(1, 1, 0), (3, 1, 2), (7, 3, 0), (7, 3, 7), (16, 5, 9)])
def test_windows_follow_their_law(last: Any, width: Any, index: Any) -> None:
    chance = int(0.6 * WORDS)
    n = 40_000
    answers = Windows(last=last, chances=chances([chance]), widths=np.array([width]))
    codes = answers.draw(np.full(n, index), columns(n), SeededSource(last + width))

    def law(factor: Any) -> Any:
        return window_law(last, width, int(min(0.99, 1 - 0.4 / factor**2) * WORDS), index)

    assert_fits(f"window {last} {width} {index}", tally(codes, 0, last + width - 1), law)


def test_the_coin_of_a_window_is_exact_to_the_last_bit() -> None:
    chance = (1 << 63) + 12345
    answers = Windows(last=4, chances=chances([chance]), widths=np.array([1]))
    for word, inside in [(0, True), (chance - 1, True), (chance, False), (ONES, False)]:
        code = answers.draw(np.array([2]), columns(1), ChosenSource([word, 0]))[0]
        assert (code == 2) == inside


def test_places_that_one_word_does_not_settle_are_drawn_anew_with_the_coin_kept() -> None:
    answers = Windows(last=3, chances=chances([1 << 63]), widths=np.array([3]))
    inside = answers.draw(np.array([1]), columns(1), ChosenSource([0, ONES, 1 << 62]))
    assert 1 <= inside[0] < 4
    outside = answers.draw(np.array([1]), columns(1), ChosenSource([ONES, ONES, 1 << 62]))
    assert outside[0] in (0, 4, 5)


def test_two_points_round_and_answer() -> None:
    n = 60_000
    answers = TwoPoints(last=8, chances=chances([int(0.75 * WORDS)]))
    for index in (0, 2, 8):
        ones = answers.draw(np.full(n, index), columns(n), SeededSource(index)).sum()
        share = 0.25 + 0.5 * index / 8

        def law(factor: Any, share: Any = share) -> Any:
            wrong = share if factor == 1 else share + (0.05 if factor > 1 else -0.05)
            return [1 - wrong, wrong]

        assert_fits(f"two points {index}", [n - ones, ones], law)


@pytest.mark.parametrize(("scale", "chance"), [(0.7, 0.0), (2.5, 0.3), (20.0, 0.9)])
def test_kept_or_laplace_follows_its_law(scale: Any, chance: Any) -> None:
    n, reach = 60_000, 60
    answers = KeepOrLaplace(chances=chances([int(chance * WORDS)]), scales=(Fraction(scale),))
    codes = answers.draw(np.full(n, 5), columns(n), SeededSource(7)) - 5

    def law(factor: Any) -> Any:
        a = math.exp(-1 / (scale * factor))
        k = np.arange(-reach, reach + 1)
        noise = (1 - a) / (1 + a) * a ** np.abs(k)
        noise[0] = noise[-1] = a**reach / (1 + a)
        kept = np.where(k == 0, chance, 0.0)
        return (1 - chance) * noise + kept

    assert_fits(f"kept or laplace {scale}", tally(codes, -reach, reach), law)


def test_doubtful_laplace_words_are_settled_with_more_bits() -> None:
    answers = KeepOrLaplace(chances=chances([0]), scales=(Fraction(3),))
    source = ChosenSource([0, 2, 1 << 60])  # a uniform next to 0: a huge magnitude, settled by intervals
    assert answers.draw(np.array([0]), columns(1), source)[0] > 100
    assert source.drawn > 2


def stairs_law(stairs: Any, reach: Any, epsilon: Any = None) -> Any:
    b = math.exp(-float(stairs.epsilon if epsilon is None else epsilon))
    share = stairs.chance / WORDS if stairs.tread < stairs.last else 1.0
    m = np.arange(reach + 1)
    block, place = m // stairs.last, m % stairs.last
    rest = max(stairs.last - stairs.tread, 1)
    inside = np.where(place < stairs.tread, share / stairs.tread, (1 - share) / rest)
    sizes = (1 - b) * b**block * inside
    law = np.concatenate([sizes[:0:-1] / 2, [sizes[0] / 2], sizes[1:] / 2])
    return law / (1 - sizes[0] / 2)


@pytest.mark.parametrize(("last", "epsilon"), [(1, 1.0), (2, 0.5), (5, 1.0), (16, 3.0), (64, 6.0)])
def test_staircase_follows_its_law(last: Any, epsilon: float) -> None:
    stairs = best_stairs(Fraction(epsilon), last)
    n, reach = 60_000, int(30 * last / epsilon) + last
    codes = StaircaseSampler(stairs=(stairs,)).draw(np.full(n, 3), columns(n), SeededSource(last)) - 3

    def law(factor: Any) -> Any:
        wrong = Stairs(last=last, epsilon=Fraction(epsilon * factor**2), tread=stairs.tread, chance=stairs.chance)
        found = stairs_law(wrong, reach)
        return found / found.sum()

    assert_fits(f"staircase {last} {epsilon}", tally(codes, -reach, reach), law)


@pytest.mark.parametrize("last", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_no_shift_of_the_staircase_exceeds_epsilon(last: Any, epsilon: float) -> None:
    stairs = best_stairs(Fraction(epsilon), last)
    law = stairs_law(stairs, 12 * last)
    logs = np.log(law[law > 0])
    worst = max(float(np.max(logs[shift:] - logs[:-shift])) for shift in range(1, last + 1))
    assert worst <= epsilon + 1e-9
    assert worst >= epsilon - 1e-6  # and nothing is wasted
    middle = len(law) // 2
    assert np.all(np.diff(law[middle:]) <= 1e-12 * law[middle:-1])


def test_staircase_variance_is_that_of_its_law_and_the_optimum_is_known() -> None:
    for last, epsilon in [(1, 1.0), (8, 2.0), (30, 5.0)]:
        stairs = best_stairs(Fraction(epsilon), last)
        reach = int(60 * last / epsilon) + 4 * last
        law, k = stairs_law(stairs, reach), np.arange(-reach, reach + 1)
        assert stairs.variance == pytest.approx(float(law @ k**2), rel=1e-6)
    # Geng and Viswanath's continuous optimum, Delta = 1
    for epsilon in (1.0, 4.0, 8.0):
        b = math.exp(-epsilon)
        optimum = (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2
        assert best_stairs(Fraction(epsilon), 4096).variance / 4096**2 == pytest.approx(optimum, rel=1e-3)


def test_doubtful_stairs_are_settled_and_minus_zero_is_rejected() -> None:
    stairs = best_stairs(Fraction(1), 6)
    assert settle_stairs([ONES - 1, 0, 0], stairs, SeededSource(0)) == 0
    assert settle_stairs([ONES, 0, 0], stairs, SeededSource(0)) is None
    # A place beyond its bound: the tread stays, the place is drawn anew.
    found = settle_stairs([ONES - 1, 0, ONES], stairs, SeededSource(0))
    assert found is not None
    assert 0 <= found < stairs.tread
    source = ChosenSource([ONES, 0, 0, 4, 0, 0])  # minus zero, then a uniform next to 0
    code = StaircaseSampler(stairs=(stairs,)).draw(np.array([0]), columns(1), source)[0]
    assert code > 6 * 30


def test_treads_as_wide_as_a_block_have_no_rest() -> None:
    assert stairs_variance(4, 0.5, np.array([4.0]), np.array([1.0]))[0] > 0
    stairs = Stairs(last=4, epsilon=Fraction(1, 1000), tread=4, chance=0)
    codes = StaircaseSampler(stairs=(stairs,)).draw(np.zeros(2000, dtype=np.int64), columns(2000), SeededSource(2))
    assert codes.std() == pytest.approx(math.sqrt(stairs.variance), rel=0.2)
    assert settle_stairs([2, ONES, 0], stairs, SeededSource(0)) is not None


def test_dyadic_chances_round_down() -> None:
    third = chance_below(lambda numbers: numbers.number(Fraction(1, 3)))
    assert Fraction(third, WORDS) <= Fraction(1, 3) < Fraction(third + 1, WORDS)
    assert chance_below(lambda numbers: numbers.number(Fraction(2))) == ONES
    assert exp_at_most(Fraction(1)) < exp_at_least(Fraction(1))
    assert float(log_at_least(Fraction(2))) == pytest.approx(math.log(2), rel=1e-15)
