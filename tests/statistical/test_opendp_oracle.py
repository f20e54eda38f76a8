"""OpenDP's samplers as an oracle: independent code for the same laws. Its draws cannot be seeded."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensorveil.noise import SeededSource, discrete_gaussian, discrete_laplace
from tests import chance

dp = pytest.importorskip("opendp.prelude", reason="OpenDP is an oracle for tests only")
N = 20_000


@pytest.fixture(autouse=True)
def contributed_features() -> Iterator[Any]:
    dp.enable_features("contrib")
    yield
    dp.disable_features("contrib")


def opendp_draws(kind: Any, scale: Any) -> Any:
    make, metric = {
        "laplace": (dp.m.make_laplace, dp.l1_distance(T=int)),
        "gaussian": (dp.m.make_gaussian, dp.l2_distance(T=float)),
    }[kind]
    domain = dp.vector_domain(dp.atom_domain(T=int), size=N)
    return np.array(make(domain, metric, scale=scale)([0] * N))


@pytest.mark.parametrize("scale", [0.7, 3.0, 12.5])
@pytest.mark.parametrize(("kind", "draw"), [("laplace", discrete_laplace), ("gaussian", discrete_gaussian)])
def test_same_law_as_opendp(kind: Any, draw: Any, scale: Any) -> None:
    ours = draw(scale, 4 * N, SeededSource(int(scale)))
    wrong = [draw(scale * factor, 4 * N, SeededSource(5)) for factor in (chance.WRONG, 1 / chance.WRONG)]
    chance.assert_same_law(f"opendp {kind} {scale}", opendp_draws(kind, scale), ours, wrong)
