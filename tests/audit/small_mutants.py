"""Small mechanisms that leak in one way each, and by nothing else: without its leak every one of them is private.

All noise is on a grid, so that no mutant is found by the low bits of floating-point numbers. Neighbours are 0 and 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorveil.audit import Claim

ONE = Claim(epsilon=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmallMutant:
    """``leaky(data, rng, n)`` breaks ``claim``; ``mended`` is the same without the leak."""

    name: str
    kind: str
    leaky: Callable[..., Any]
    mended: Callable[..., Any]
    claim: Claim
    samples: int
    slow: bool = False


Mechanism = Callable[..., Any]
MUTANTS: list[SmallMutant] = []


def mutant(kind: Any, samples: Any, claim: Any = ONE, slow: bool = False) -> Callable[[Mechanism], Mechanism]:
    """Register ``mechanism(x, rng, n, leaks)``: ``leaks`` are 0 and 1 for the neighbours, or always 0 once mended."""

    def register(mechanism: Mechanism) -> Mechanism:
        MUTANTS.append(
            SmallMutant(
                name=mechanism.__name__.replace("_", " "),
                kind=kind,
                leaky=lambda x, rng, n: mechanism(x, rng, n, x),
                mended=lambda x, rng, n: mechanism(x, rng, n, 0),
                claim=claim,
                samples=samples,
                slow=slow,
            )
        )
        return mechanism

    return register


def whole(rng: np.random.Generator, n: int, width: Any = None, scale: float = 1000.0) -> Any:
    """Laplace noise, rounded: for a shift of ``scale`` its epsilon is 1."""
    return np.rint(rng.laplace(scale=scale, size=n if width is None else (n, width)))


def bell(rng: np.random.Generator, n: int, width: Any, scale: float = 1000.0) -> Any:
    return np.rint(rng.normal(scale=scale, size=(n, width)))


def seldom(rng: np.random.Generator, n: int, chance: Any) -> Any:
    return rng.random(n) < chance


# --- the four that were missed ---------------------------------------------------------------------------------------


@mutant("atom", 100_000)
def a_raw_value_amid_whole_noise(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = 1000 * x + whole(rng, n)
    return np.where(seldom(rng, n, 2e-3 * leaks), 1000 * x, y)


@mutant("atom", 20_000, slow=True)
def one_raw_value_among_a_thousand(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 1000)
    y[:, 417] += 1000 * x
    y[seldom(rng, n, 0.02 * leaks), 417] = 1000
    return y


@mutant("correlation", 20_000, slow=True)
def the_sign_of_one_correlation_among_200(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 200)
    y[:, 131] = (1 - 2 * leaks) * np.rint(0.9 * y[:, 70] + 0.436 * y[:, 131])
    return y


@mutant("support", 100_000)
def minus_zero(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = x + whole(rng, n, scale=1.0)
    return np.where(y == 0, -0.0 if leaks else 0.0, y)


# --- atoms -----------------------------------------------------------------------------------------------------------


@mutant("atom", 20_000)
def one_raw_value_among_fifty(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 50)
    y[seldom(rng, n, 0.02 * leaks), 17] = 1000
    return y


@mutant("atom", 100_000)
def five_rare_values(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    rare = rng.choice([-1203, -77, 5, 311, 2048], size=n)
    return np.where(seldom(rng, n, 0.01 * leaks), rare, whole(rng, n))


@mutant("atom", 40_000)
def a_whole_vector_left_as_it_was(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    """Each of its numbers is common by itself."""
    y = whole(rng, n, 4, scale=2.0)
    y[seldom(rng, n, 0.03 * leaks)] = [1, -1, 1, -1]
    return y


@mutant("atom", 40_000)
def a_narrow_cluster(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    """Not one value, but a few millionths of the spread around one."""
    y = np.ldexp(np.rint(rng.laplace(scale=2.0**30, size=n)), -30)
    near = 0.7 + np.ldexp(rng.integers(0, 1 << 12, n), -30)
    return np.where(seldom(rng, n, 5e-3 * leaks), np.ldexp(np.rint(np.ldexp(near, 30)), -30), y)


@mutant("atom", 20_000)
def minus_zero_among_fifty(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 50, scale=3.0)
    y[:, 31] = np.where((y[:, 31] == 0) & (leaks == 1), -0.0, y[:, 31] + 0.0)
    return y


# --- ties: noise that was used twice ---------------------------------------------------------------------------------


@mutant("repeated noise", 20_000)
def the_same_noise_now_and_then(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 5)
    again = seldom(rng, n, 0.03 * leaks)
    y[again, 3] = y[again, 1] + 250
    return y


@mutant("repeated noise", 20_000)
def opposite_noise_now_and_then(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 5)
    again = seldom(rng, n, 0.03 * leaks)
    y[again, 4] = 100 - y[again, 0]
    return y


@mutant("repeated noise", 10_000)
def equal_outputs_anywhere(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 40, scale=1e7)
    rows = np.flatnonzero(seldom(rng, n, 0.05 * leaks))
    y[rows, rng.integers(0, 20, len(rows))] = y[rows, rng.integers(20, 40, len(rows))]
    return y


@mutant("repeated noise", 10_000)
def the_same_size_with_any_sign(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 80)
    if leaks:
        y[:, 60] = y[:, 11] * rng.choice([-1, 1], n)
    return y


# --- remainders, decimals, bits --------------------------------------------------------------------------------------


@mutant("remainder", 10_000)
def more_even_numbers(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, scale=100.0)
    return y - (y % 2) * seldom(rng, n, 0.8 * leaks)


@mutant("remainder", 10_000)
def a_remainder_modulo_three(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n)
    return y - (y % 3) * seldom(rng, n, 0.8 * leaks)


@mutant("remainder", 10_000)
def a_remainder_modulo_five_in_one_of_thirty(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 30)
    y[:, 12] -= (y[:, 12] % 5) * seldom(rng, n, 0.8 * leaks)
    return y


@mutant("remainder", 10_000)
def fewer_decimals(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n) / 1000
    return np.where(seldom(rng, n, 0.6 * leaks), np.round(y, 1), y)


@mutant("low bits", 10_000)
def a_low_bit_that_is_rarely_set(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = np.rint(rng.laplace(scale=2.0**30, size=n))
    return np.ldexp(y - (y % 2) * seldom(rng, n, 0.9 * leaks), -30)


# --- parity of several outputs ---------------------------------------------------------------------------------------


@mutant("parity", 10_000)
def the_parity_of_three_signs(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 3) + 0.5
    flip = leaks * (np.sign(y).prod(axis=1) < 0)
    y[:, 0] *= 1 - 2 * flip
    return y


@mutant("parity", 10_000)
def the_parity_of_three_signs_among_thirty(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 30) + 0.5
    flip = leaks * (np.sign(y[:, [4, 11, 27]]).prod(axis=1) < 0)
    y[:, 11] *= 1 - 2 * flip
    return y


@mutant("parity", 10_000)
def the_parity_of_forty_signs(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 40) + 0.5
    flip = leaks * (np.sign(y).prod(axis=1) < 0)
    y[:, 0] *= 1 - 2 * flip
    return y


@mutant("parity", 10_000)
def an_even_sum(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 20, scale=50.0)
    y[:, 7] += (y.sum(axis=1) % 2) * leaks
    return y


# --- outputs that are no numbers, supports, lengths ------------------------------------------------------------------


@mutant("not finite", 10_000)
def the_place_of_a_hole(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 6)
    y[seldom(rng, n, 0.02), 2 + leaks] = np.nan
    return y


@mutant("not finite", 10_000)
def the_sign_of_infinity(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n)
    return np.where(seldom(rng, n, 0.02), -np.inf if leaks else np.inf, y)


@mutant("shape", 10_000)
def the_length_of_the_output(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    """Padded, as mechanisms with outputs of several lengths must be."""
    y = whole(rng, n, 12)
    length = 8 + rng.integers(0, 3, n) + leaks * (rng.random(n) < 0.1)
    y[np.arange(12) >= length[:, None]] = np.nan
    return y


@mutant("support", 20_000)
def the_end_of_the_range(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    return rng.integers(0, 1000, n) + 10 * leaks


@mutant("support", 20_000)
def a_value_that_cannot_occur(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = rng.integers(0, 40, n)
    return np.where((y == 13) & (leaks == 1), 14, y)


# --- order -----------------------------------------------------------------------------------------------------------


@mutant("order", 10_000)
def sorted_outputs_now_and_then(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 5)
    rows = seldom(rng, n, 0.5 * leaks)
    y[rows] = np.sort(y[rows], axis=1)
    return y


@mutant("order", 10_000)
def the_place_of_the_largest(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 30)
    rows = np.flatnonzero(seldom(rng, n, 0.3 * leaks))
    top = y[rows].argmax(axis=1)
    y[rows, top], y[rows, 8] = y[rows, 8], y[rows, top]
    return y


# --- second moments --------------------------------------------------------------------------------------------------


@mutant("correlation", 8_000)
def the_sign_of_one_correlation_among_80(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 80)
    y[:, 31] = (1 - 2 * leaks) * np.rint(0.9 * y[:, 70] + 0.436 * y[:, 31])
    return y


@mutant("correlation", 8_000)
def noise_that_all_outputs_share(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    """The sum of the outputs keeps its law: half of them get the noise the other way round."""
    y = bell(rng, n, 80)
    return y + leaks * np.rint(0.5 * rng.normal(scale=1000.0, size=(n, 1))) * np.where(np.arange(80) % 2, 1, -1)


@mutant("correlation", 8_000)
def a_second_row_like_the_first(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = bell(rng, n, 40).reshape(n, 2, 20)
    rows = seldom(rng, n, 0.4 * leaks)
    y[rows, 1] = np.rint(0.8 * y[rows, 0, ::-1] + 0.6 * y[rows, 1])
    return y


@mutant("spread", 8_000)
def the_spread_of_one_of_a_hundred(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    return np.rint(rng.normal(scale=1000.0 * (1 + 4 * leaks * (np.arange(100) == 64)), size=(n, 100)))


@mutant("spread", 10_000)
def noise_in_proportion_to_the_data(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    return whole(rng, n, scale=1000.0 * (1 + leaks))


@mutant("tail", 20_000)
def a_heavier_tail(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    """The same quartiles."""
    return np.rint(674.5 * rng.standard_cauchy(n)) if leaks else np.rint(1000 * rng.normal(size=n))


# --- some coordinates ------------------------------------------------------------------------------------------------


@mutant("subset", 10_000)
def a_coordinate_that_is_always_told(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    y = whole(rng, n, 60)
    told = rng.random((n, 60)) < 0.2
    told[:, 7] |= seldom(rng, n, 0.9 * leaks)
    return np.where(told, y, 0.0)


@mutant("subset", 10_000)
def a_few_shifted_coordinates_of_a_hundred(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    """Others in every run."""
    y = bell(rng, n, 100)
    return y + leaks * 4000 * (rng.random((n, 100)) < 0.05)


# --- delta and mu ----------------------------------------------------------------------------------------------------


@mutant("delta", 40_000, Claim(epsilon=1.0, delta=1e-3))
def a_rare_event_beyond_delta(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    return np.where(seldom(rng, n, 8e-3 * leaks), 321, 1000 * x + whole(rng, n))


@mutant("delta", 40_000, Claim(mu=0.5))
def a_rare_event_beyond_mu(x: Any, rng: np.random.Generator, n: int, leaks: Any) -> Any:
    return np.where(seldom(rng, n, 8e-3 * leaks), 321, 500 * x + bell(rng, n, 1)[:, 0])
