"""Noise in parts: how much can be counted on, what it costs, and that rounded parts are as private as claimed."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tensorveil.errors import InputError
from tensorveil.federated.trust import ALLOWANCE, Trust, charged_mu, part_deviation, plan_epsilon
from tensorveil.noise import SeededSource, rounded_gaussian
from tensorveil.privacy import Composed, Gaussian, epsilon_for, gaussian_mu, split_gaussian
from tensorveil.privacy.exact import exactly
from tensorveil.rounds import Round
from tests import chance


def a_round(mu: float = 0.5, limit: Any = 1 << 24, size: int = 4) -> Any:
    return Round(name="counts", size=size, limit=limit, largest=limit, mu=mu)


def trusts() -> Iterator[Any]:
    for n, c, d in itertools.product(range(2, 9), range(4), range(4)):
        if c < n and n > 2 * d + c:
            yield Trust(kind="secure", clients=n, colluding=c, drop_outs=d)


def worst_left_out(trust: Any) -> Any:
    """Find by brute force how many honest clients a lying server can leave out of a sum that it can unmask.

    Every honest client reveals shares of mask keys of at most ``drop_outs`` clients of the server's choice; the key of
    a client comes out if, with the colluding clients' shares, there are enough. The best choice spreads them evenly.
    """
    honest = trust.clients - trust.colluding
    for left_out in range(honest, 0, -1):
        if left_out * max(trust.threshold - trust.colluding, 0) <= honest * min(trust.drop_outs, left_out):
            return left_out
    return 0


def test_counted_parts_are_those_that_no_lie_removes() -> None:
    for trust in trusts():
        to_server = trust.clients - trust.colluding - worst_left_out(trust)
        assert trust.counted == min(to_server, trust.clients - trust.drop_outs - max(trust.colluding, 1)), trust
        assert trust.counted >= 1
        # Never both secrets of one client: honest clients give one share each, colluding ones both.
        assert 2 * trust.threshold > (trust.clients - trust.colluding) + 2 * trust.colluding


@pytest.mark.parametrize("kind", ["aggregator", "secure", "local"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
def test_a_plan_costs_no_more_than_was_promised(kind: Any, epsilon: float) -> None:
    every = [Trust(kind=kind, clients=n) for n in (1, 3, 50) if n > 1 or kind != "secure"]
    for trust in every + (list(trusts()) if kind == "secure" else []):
        planned = plan_epsilon(epsilon, 1e-5, trust)
        spent = split_gaussian(gaussian_mu(planned, 1e-5), [1, 2, 3])
        cost = epsilon_for(Composed(Gaussian(charged_mu(a_round(mu), trust)) for mu in spent), 1e-5)
        assert 0.9999 * epsilon < cost <= epsilon


def test_parts_add_up_to_what_the_recipe_expects() -> None:
    for trust in (Trust(kind="secure", clients=3, drop_outs=1), Trust(kind="local", clients=7)):
        part = part_deviation(a_round(), trust)
        total = Fraction(1 << 24) / exactly(0.5)
        assert total**2 <= trust.clients * part**2 <= total**2 * (1 + Fraction(1, 10**9))


def test_what_is_charged_is_the_noise_that_is_counted_on() -> None:
    this = a_round()
    secure = Trust(kind="secure", clients=6, colluding=1, drop_outs=1)
    counted = math.sqrt(secure.counted) * float(part_deviation(this, secure))
    assert charged_mu(this, secure) == pytest.approx(this.limit / counted * float(ALLOWANCE))
    assert charged_mu(this, Trust(kind="local", clients=4)) == pytest.approx(2 * this.mu)
    assert charged_mu(this, Trust(kind="aggregator", clients=4)) == this.mu


def sum_law(sigma: Any, parts: Any, reach: Any) -> Any:
    """The law of a sum of rounded Gaussians on -reach .. reach, by convolution."""
    k = np.arange(-reach, reach + 1)
    one = stats.norm.cdf((k + 0.5) / sigma) - stats.norm.cdf((k - 0.5) / sigma)
    law = one
    for _ in range(parts - 1):
        law = np.convolve(law, one, mode="same")
    return law


@pytest.mark.parametrize(("sigma", "parts"), [(0.6, 2), (0.8, 3), (1.0, 4)])
def test_a_sum_of_rounded_parts_is_a_smooth_law_up_to_a_factor(sigma: Any, parts: Any) -> None:
    """The lemma of docs/guarantees.md#parts-of-noise, where sigma is so small that the factor shows."""
    reach = 40
    law = sum_law(sigma, parts, reach)
    # The smooth law: a Gaussian of the total variance, plus one uniform number per part, at the integers.
    fine = 200
    x = np.arange(-reach * fine, reach * fine + 1) / fine
    density = stats.norm.pdf(x, scale=sigma * math.sqrt(parts))
    kernel = np.full(fine + 1, 1.0)
    kernel[[0, -1]] = 0.5
    for _ in range(parts):
        density = np.convolve(density, kernel / fine, mode="same")
    middle = slice(reach - 5, reach + 6)
    ratio = law[middle] / density[::fine][middle]
    share = sigma**2 / 2
    bound = (parts - 1) * 2.1 * math.exp(-2 * math.pi**2 * share)
    assert np.all(np.abs(np.log(ratio)) <= bound * 1.1 + 1e-4)


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_sums_of_rounded_parts_are_as_private_as_charged(parts: Any, mu: Any) -> None:
    """At a tiny grid, by enumeration: delta at every epsilon is at most that of mu-GDP with the charged mu."""
    limit = 6
    sigma = limit / mu / math.sqrt(parts)
    law = sum_law(sigma, parts, 40 + int(12 * sigma * math.sqrt(parts)))
    charged = mu * float(ALLOWANCE)
    for shift in range(1, limit + 1):
        first, second = law[shift:], law[:-shift]
        for epsilon in np.linspace(0, 5, 26):
            delta = float(np.sum(np.maximum(first - math.exp(epsilon) * second, 0)))
            exact = stats.norm.cdf(-epsilon / charged + charged / 2) - math.exp(epsilon) * stats.norm.cdf(
                -epsilon / charged - charged / 2
            )
            assert delta <= exact + 1e-12


def test_drawn_parts_have_the_deviation_that_is_charged() -> None:
    trust = Trust(kind="secure", clients=5, drop_outs=1)
    this = a_round(size=30_000)
    part = part_deviation(this, trust)
    drawn: Any = sum(rounded_gaussian(part, this.size, SeededSource(k)) for k in range(trust.counted))
    share = trust.counted / trust.clients
    chance.assert_second_moment("counted parts of noise", drawn / 2**20, (this.limit / 2**20) ** 2 * 4 * share)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 12))
def test_trust_that_cannot_be_kept_is_refused(n: int, c: Any, d: Any) -> None:
    possible = n >= 2 and c < n and n > 2 * d + c
    if possible:
        assert 1 <= Trust(kind="secure", clients=n, colluding=c, drop_outs=d).counted <= n
    else:
        with pytest.raises(InputError):
            Trust(kind="secure", clients=n, colluding=c, drop_outs=d)


def test_other_refusals() -> None:
    with pytest.raises(InputError, match="kind must be one of"):
        Trust(kind="hope", clients=3)
    with pytest.raises(InputError, match="for kind='secure' only"):
        Trust(kind="local", clients=3, drop_outs=1)
    with pytest.raises(InputError, match="at least 16 grid steps"):
        charged_mu(a_round(mu=10.0, limit=100), Trust(kind="secure", clients=4))
    with pytest.raises(InputError, match="noise must be"):
        Trust(kind="local", clients=3, noise="yes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not described"):
        Trust.from_json({"kind": "local"})
    trust = Trust(kind="secure", clients=5, colluding=1, drop_outs=1)
    assert Trust.from_json(trust.to_json()) == trust
