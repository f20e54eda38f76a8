"""Vectors conditioned on a cap: kernel against intervals, word by word; heights and shares against closed forms."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from tensorveil.errors import InputError
from tensorveil.kernels import sphere_draws
from tensorveil.local.cap_share import cap_share, height_constant
from tensorveil.noise import SeededSource
from tensorveil.noise.caps import Caps, settle_cap
from tests.chance import assert_fits, assert_second_moment

TOP = (1 << 64) - 1
CASES = [
    (2, 0.4, False),
    (3, 0.02, False),
    (7, 0.2, False),
    (8, 1.0, True),
    (5, 0.0, False),
    (3, 0.0, True),
    (1, 0.0, False),
]


def unit_rows(n: int, d: Any, seed: int = 0) -> Any:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(("d", "gamma", "flat"), CASES)
def test_kernel_and_intervals_agree_on_every_word(d: Any, gamma: Any, flat: Any) -> None:
    n, source = 40, SeededSource(d)
    width = 2 * ((d + 1) // 2)
    words = source.uniform64(n * width).reshape(n, width)
    words[0, 0], words[1, 0], words[2, 0] = 3, TOP, TOP - (1 << 22)  # far out, next to 0, and nearly so
    trials = source.uniform64(n * 24).reshape(n, 12, 2)
    trials[3, 0, 0] = 5
    u, inside = unit_rows(n, d), np.arange(n) % 2 == 0
    law = Caps(gamma=gamma, flat=flat, step=2.0**-20)
    out, verdicts = np.empty((n, d), dtype=np.int64), np.empty(n, dtype=np.int8)
    sphere_draws.caps(words, trials, u, inside, gamma, flat, law.step, out, verdicts)
    assert np.count_nonzero(verdicts == sphere_draws.DOUBTFUL) <= 4
    for i in np.flatnonzero(verdicts != sphere_draws.DOUBTFUL).tolist():
        found = settle_cap(words[i].tolist(), trials[i].tolist(), u[i], bool(inside[i]), law, source)
        if verdicts[i] == sphere_draws.SETTLED:
            assert found == out[i].tolist()
        elif not (inside[i] and gamma > 0):  # inside, "again" means that the trials at hand ran out
            assert found is None


def test_a_fine_grid_makes_doubt_and_intervals_settle_it() -> None:
    law = Caps(gamma=0.3, flat=False, step=2.0**-46)
    u, inside = unit_rows(60, 4), np.arange(60) % 3 > 0
    codes = law.draw(u, inside, SeededSource(5))
    vectors = codes * law.step
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-12)
    heights = (vectors * u).sum(axis=1)
    assert np.all((heights >= 0.3 - 1e-12) == inside)


@pytest.mark.parametrize(("d", "gamma"), [(2, 0.5), (3, 0.3), (16, 0.1), (16, 0.4)])
@pytest.mark.parametrize("inside", [True, False])
def test_heights_have_the_conditioned_law(d: Any, gamma: Any, inside: Any) -> None:
    n = 20_000
    u = unit_rows(1, d)[0]
    codes = Caps(gamma=gamma, flat=False, step=2.0**-20).draw(
        np.broadcast_to(u, (n, d)).copy(), np.full(n, inside), SeededSource(d)
    )
    heights = codes * 2.0**-20 @ u
    edges = np.linspace(gamma, 1, 25) if inside else np.linspace(-1, gamma, 25)
    counts = np.histogram(np.clip(heights, edges[0], edges[-1]), bins=edges)[0]

    def law(factor: Any) -> Any:
        # (t + 1) / 2 is Beta((d - 1) / 2, (d - 1) / 2); its shape is like an inverse square of a scale
        shape = (d - 1) / 2 / factor**6
        cdf = stats.beta.cdf((edges + 1) / 2, shape, shape)
        return np.diff(cdf) / (cdf[-1] - cdf[0])

    assert_fits(f"heights {d} {gamma} {inside}", counts, law)


def test_the_rest_of_the_vector_has_no_preferred_direction() -> None:
    n, d = 30_000, 6
    u = unit_rows(1, d)[0]
    codes = Caps(gamma=0.5, flat=False, step=2.0**-20).draw(
        np.broadcast_to(u, (n, d)).copy(), np.ones(n, dtype=bool), SeededSource(1)
    )
    vectors = codes * 2.0**-20
    rest = vectors - (vectors @ u)[:, None] * u
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    basis = np.linalg.svd(u[None])[2][1:]
    for k, coordinate in enumerate((rest @ basis.T).T):
        assert_second_moment(f"rest {k}", coordinate, 1 / (d - 1))


def test_gaussian_heights_above_gamma() -> None:
    n, d, gamma = 20_000, 3, 1.5
    u = unit_rows(1, d)[0]
    codes = Caps(gamma=gamma, flat=True, step=2.0**-16).draw(
        np.broadcast_to(u, (n, d)).copy(), np.ones(n, dtype=bool), SeededSource(2)
    )
    heights = codes * 2.0**-16 @ u
    edges = np.concatenate([np.linspace(gamma, 3.5, 20), [np.inf]])
    counts = np.histogram(np.maximum(heights, gamma), bins=edges)[0]
    assert_fits("gaussian heights", counts, lambda f: np.diff(stats.norm.cdf(edges / f)) / stats.norm.sf(gamma / f))


@pytest.mark.parametrize("d", [2, 3, 10, 64, 784, 3072])
def test_shares_of_caps_are_enclosed(d: Any) -> None:
    with mpmath.workdps(50):
        for height in (0.05, 0.3, 1.0, 1.9, 2.1, 4.0, 8.0):
            gamma = height / math.sqrt(d)
            if gamma >= 1:
                continue
            low, high = cap_share(d, gamma)
            a = mpmath.mpf(d - 1) / 2
            exact = mpmath.betainc(a, mpmath.mpf(1) / 2, 0, 1 - mpmath.mpf(gamma) ** 2, regularized=True) / 2
            assert low <= exact <= high
            assert high - low <= 1e-9 * low
        constant = mpmath.gamma(mpmath.mpf(d) / 2) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(mpmath.mpf(d - 1) / 2))
        assert height_constant(d) == pytest.approx(float(constant), rel=1e-14)


def test_impossible_caps_are_refused() -> None:
    assert cap_share(1, 0.0) == (0.5, 0.5)
    with pytest.raises(InputError, match="gamma"):
        cap_share(3, 1.0)
    with pytest.raises(InputError, match="gamma"):
        cap_share(1, 0.5)
