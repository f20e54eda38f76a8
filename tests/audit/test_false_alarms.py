"""Mechanisms whose claims are true and exhausted: an audit at confidence 0.95 calls at most a twentieth violated.

All kinds of events are looked for, so noise is on grids: in floating point the claims would be false.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tensorveil.audit import Claim, audit
from tensorveil.audit import blackbox as engine
from tensorveil_evidence.subjects.catalogue import list_subjects
from tensorveil_evidence.subjects.subject import BlackBox
from tests import chance
from tests.audit.test_blackbox import Forgetful

DELTA = float(norm.cdf(0.5 - 1.0) - np.e * norm.cdf(-0.5 - 1.0))  # of Gaussian noise with mu = 1, at epsilon = 1


def randomised_response(x: Any, rng: np.random.Generator, n: int) -> Any:
    """Ten values, of which the true one is e times as likely as each of the others."""
    return np.where(rng.random(n) < np.e / (np.e + 9), x, (x + rng.integers(1, 10, n)) % 10)


def gaussian(x: Any, rng: np.random.Generator, n: int) -> Any:
    return np.rint(1000 * (x + rng.normal(size=n)))


def discrete_laplace(x: Any, rng: np.random.Generator, n: int, scale: int = 5) -> Any:
    stop = 1 - np.exp(-1 / scale)
    return scale * x + rng.geometric(stop, n) - rng.geometric(stop, n)


def dyadic_laplace(x: Any, rng: np.random.Generator, n: int) -> Any:
    """Numbers with a fraction, none of them minus zero."""
    return np.ldexp(np.rint(np.ldexp(x + rng.laplace(size=n), 20)), -20) + 0.0


def mixed(x: Any, rng: np.random.Generator, n: int) -> Any:
    """A thousand whole numbers of different laws, one of which tells the data as far as it may."""
    y = rng.integers(-3, 4, (n, 1000))
    y[:, :300] = np.rint(rng.normal(scale=300.0, size=(n, 300)))
    y[:, 300:500] = rng.poisson(2.0, (n, 200))
    y[:, 600] = discrete_laplace(x, rng, n)
    return y


DTLDP = list_subjects()["local/DTLDP, epsilon 1"]
assert isinstance(DTLDP, BlackBox)
TIGHT = {
    "k-RR": (randomised_response, (0, 1), Claim(epsilon=1.0)),
    "gaussian, epsilon and delta": (gaussian, (0, 1), Claim(epsilon=1.0, delta=DELTA)),
    "gaussian, mu": (gaussian, (0, 1), Claim(mu=1.0)),
    "DTLDP": (DTLDP.mechanism, list(DTLDP.neighbours()), DTLDP.claim),
    "discrete laplace": (discrete_laplace, (0, 1), Claim(epsilon=1.0)),
    "fractions without minus zero": (dyadic_laplace, (0, 1), Claim(epsilon=1.0)),
}
WIDE = {"mixed vectors": (mixed, (0, 1), Claim(epsilon=1.0))}


def count_alarms(subjects: Any, trials: Any, samples: Any) -> Any:
    return {
        name: sum(
            audit(mechanism, pair, claim, samples=samples, confidence=0.95, seed=seed, batched=True).violated
            for seed in range(trials)
        )
        for name, (mechanism, pair, claim) in subjects.items()
    }


@pytest.mark.slow
def test_true_claims_are_rarely_called_violated(monkeypatch: pytest.MonkeyPatch, record_property: Any) -> None:
    """Over several hundred runs; an auditor that confirms on the draws it chose on fails."""
    trials, wide = 200, 40
    alarms = {**count_alarms(TIGHT, trials, 2_000), **count_alarms(WIDE, wide, 1_000)}
    record_property("alarms", str(alarms))
    with monkeypatch.context() as patch:
        patch.setattr(engine, "Sampler", Forgetful)
        cheating = count_alarms(TIGHT, trials // 4, 2_000)
    runs = trials * len(TIGHT) + wide * len(WIDE)
    chance.assert_rate_at_most(
        "audit: false alarms, all kinds", sum(alarms.values()), runs, 0.05, sum(cheating.values())
    )
    for name, count in alarms.items():
        assert count <= 0.05 * (trials if name in TIGHT else wide) + 6, f"{name}: {count} false alarms"
