"""The black-box audit: its confidence is true, it has power, and it says what it saw."""

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensorveil.audit import Claim, audit
from tensorveil.audit import blackbox as engine
from tensorveil.audit.sampling import CHUNK, Sampler
from tensorveil.audit.structure import lowest_bit
from tensorveil.errors import InputError
from tests import chance

LAW = ("law",)


def laplace(scale: Any, size: Any = ()) -> Any:
    return lambda x, rng, n: x + rng.laplace(scale=scale, size=(n, *size))


def gaussian(sigma: Any, size: Any = ()) -> Any:
    return lambda x, rng, n: x + rng.normal(scale=sigma, size=(n, *size))


def false_alarms(mechanism: Any, pair: Any, claim: Any, trials: Any, **options: Any) -> Any:
    options = {"samples": 800, "confidence": 0.95, "batched": True, **options}
    return sum(audit(mechanism, pair, claim, seed=seed, **options).violated for seed in range(trials))


@pytest.mark.parametrize(
    ("name", "mechanism", "pair", "claim"),
    [
        ("laplace", laplace(1.0), (0.0, 1.0), Claim(epsilon=1.0)),
        ("laplace in the plane", laplace(1.0, (2,)), (np.zeros(2), np.full(2, 0.5)), Claim(epsilon=1.0)),
        ("gaussian", gaussian(1.0), (0.0, 1.0), Claim(mu=1.0)),
    ],
)
def test_a_true_claim_is_rarely_called_violated(
    name: str, mechanism: Any, pair: Any, claim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At confidence 0.95, at most a twentieth; an auditor that confirms on the draws it chose on fails this test."""
    trials = 200
    alarms = false_alarms(mechanism, pair, claim, trials, kinds=LAW)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "Sampler", Forgetful)
        cheating = false_alarms(mechanism, pair, claim, trials // 3, kinds=LAW)  # fewer: it fails nearly every time
    chance.assert_rate_at_most(f"audit: false alarms, {name}", alarms, trials, 0.05, cheating)


class Forgetful(Sampler):
    """Hands out the same draws three times: to learn scores, to choose their thresholds, and to confirm them."""

    def draw(self, data: Any, count: Any) -> Any:
        half = np.concatenate(list(super().chunks(data, count // 2)))
        rows = np.resize(half, (count, half.shape[1]))
        self.kept = {**getattr(self, "kept", {}), id(data): rows}
        return rows

    def chunks(self, data: Any, count: Any) -> Iterator[Any]:
        rows = self.kept[id(data)]
        yield np.resize(rows, (count, rows.shape[1]))


@pytest.mark.parametrize(
    ("mechanism", "pair", "claim"),
    [
        (laplace(1 / chance.WRONG), (0.0, 1.0), Claim(epsilon=1.0)),
        (laplace(1 / chance.WRONG, (4,)), (np.zeros(4), np.array([1.0, 0, 0, 0])), Claim(epsilon=1.0)),
        (gaussian(1 / chance.WRONG), (0.0, 1.0), Claim(mu=1.0)),
        (gaussian(1 / chance.WRONG, (8,)), (np.zeros(8), np.full(8, 8**-0.5)), Claim(mu=1.0)),
    ],
)
def test_noise_too_small_by_a_fifth_is_found(mechanism: Any, pair: Any, claim: Any) -> None:
    verdict = audit(mechanism, pair, claim, samples=60_000, batched=True, kinds=LAW)
    assert verdict.violated
    assert verdict.lower_bound > 1.05
    assert verdict.confidence == 0.999


def test_a_true_claim_stands_and_the_power_is_told() -> None:
    verdict = audit(laplace(1.0), (0.0, 1.0), Claim(epsilon=1.0), samples=60_000, batched=True, kinds=LAW)
    assert not verdict.violated
    assert 0.9 < verdict.lower_bound <= 1.0
    assert "no violation found" in str(verdict)
    assert "Power" in str(verdict)
    assert "Can be missed at any level: events rarer than about 1 in 750, " in str(verdict)
    assert "proved" not in str(verdict)
    # The same draws refute every smaller claim.
    smaller = audit(laplace(1.0), (0.0, 1.0), Claim(epsilon=0.9), samples=60_000, batched=True, kinds=LAW)
    assert smaller.violated
    facts = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert facts["verdict"] == "no violation found"
    assert facts["power"]["ceiling"] > 8
    assert 1.0 < facts["power"]["detectable"] < 1.1
    # Every point of the curve lies above the claimed one, up to its confidence bounds.
    for point in verdict.curve:
        allowed = float(verdict.claim.least_missed(point.false_positive_at_most))
        assert point.missed_at_most >= allowed - 1e-12


def test_delta_covers_what_epsilon_does_not() -> None:
    def leaks_seldom(x: Any, rng: np.random.Generator, n: int) -> Any:
        return np.where(rng.random(n) < 0.01, 1000.0 + x, laplace(1.0)(x, rng, n))

    assert audit(leaks_seldom, (0.0, 1.0), Claim(epsilon=1.0), samples=40_000, batched=True).violated
    covered = audit(
        leaks_seldom, (0.0, 1.0), Claim(epsilon=1.0, delta=0.012), samples=40_000, batched=True, kinds=("law", "atom")
    )
    assert not covered.violated


def test_an_atom_is_found() -> None:
    """A value is left as it was once in five hundred times."""

    def keeps(x: Any, rng: np.random.Generator, n: int) -> Any:
        return np.where(rng.random(n) < 0.002, x, x + rng.laplace(size=n))

    verdict = audit(keeps, (0.3, 1.1), Claim(epsilon=1.0), samples=100_000, batched=True, kinds=("law", "atom"))
    assert verdict.violated
    assert verdict.witness is not None
    assert verdict.witness.kind == "atom"
    assert "output 0 is" in verdict.witness.event
    assert verdict.lower_bound > 2


def test_a_grid_that_starts_at_the_data_is_found() -> None:
    """Integer noise on numbers that were not rounded: the remainder is the data's."""

    def unrounded(x: Any, rng: np.random.Generator, n: int) -> Any:
        return x + np.round(rng.laplace(scale=2.0**10, size=n)) * 2.0**-10

    verdict = audit(
        unrounded, (0.30001, 0.70002), Claim(epsilon=1.0), samples=8_000, batched=True, kinds=("law", "support")
    )
    assert verdict.violated
    assert verdict.witness is not None
    assert verdict.witness.kind == "support"
    assert 0 in verdict.witness.hits


def test_floating_point_noise_is_found_by_its_low_bits() -> None:
    verdict = audit(laplace(1.0), (0.0, 1.0), Claim(epsilon=1.0), samples=20_000, batched=True)
    assert verdict.violated
    assert verdict.witness is not None
    assert verdict.witness.kind == "low bits"
    # Around 1 every sum is a multiple of 2**-53; around 0 it need not be.
    rng = np.random.default_rng(5)
    assert lowest_bit(laplace(1.0)(1.0, rng, 50_000)).min() >= -53
    assert np.mean(lowest_bit(laplace(1.0)(0.0, rng, 50_000)) < -53) > 0.2


def unreachable(outputs: Any, centre: Any) -> Any:
    """Tell which outputs none of the 2**53 uniforms of numpy's sampler of Laplace noise can give around a centre."""
    log = np.frompyfunc(math.log, 1, 1)
    shift = outputs - centre
    half = np.exp(-np.abs(shift)) / 2
    near = np.rint(np.where(shift < 0, half, 1.0 - half) * 2.0**53)
    found = np.zeros(len(outputs), dtype=bool)
    for k in range(-40, 41):
        u = (near + k) * 2.0**-53
        word = np.where(u >= 0.5, (2.0 - u) - u, u + u)
        logs = np.asarray(log(np.where(word > 0, word, 1.0)), dtype=float)
        noise = np.where(u >= 0.5, 0.0 - logs, 0.0 + logs)
        found |= (word > 0) & (centre + noise == outputs)
    return ~found


def test_outputs_that_one_neighbour_cannot_give_exactly() -> None:
    """By inversion of the sampler, not by counting: half of the small outputs under 0 cannot come from 0.75."""
    rng = np.random.default_rng(1)
    here = laplace(1.0)(0.0, rng, 20_000)
    small = here[(here > 0.1) & (here < 0.2)]
    assert not unreachable(small, 0.0).any()
    assert np.mean(unreachable(small, 0.75)) > 0.3


def test_infinities_are_outputs_too() -> None:
    def overflows(x: Any, rng: np.random.Generator, n: int) -> Any:
        return np.where(rng.random(n) < (0.5 if x else 0.01), np.nan, rng.normal(size=n))

    verdict = audit(overflows, (0, 1), Claim(epsilon=1.0), samples=2_000, batched=True)
    assert verdict.violated
    assert "not finite" in {witness.kind for witness in verdict.violations}


def test_the_worst_of_several_pairs_counts() -> None:
    pairs = [(0.0, 0.5), (0.0, 1.0), (0.0, 0.1)]
    verdict = audit(laplace(1.0), pairs, Claim(epsilon=0.7), samples=20_000, batched=True, kinds=LAW)
    assert verdict.violated
    assert verdict.witness is not None
    assert verdict.witness.pair == 1
    assert "of pair 2" in verdict.witness.sentence()
    assert verdict.events > 3


def test_a_score_of_the_users_own_is_used() -> None:
    """The parity of some of the outputs tells everything, and no score sees it that does not know which ones."""
    told = slice(0, 24, 2)

    def parity(x: Any, rng: np.random.Generator, n: int) -> Any:
        bits = rng.integers(0, 2, (n, 24))
        bits[:, 0] = (bits[:, 2:24:2].sum(axis=1) + x) % 2
        return bits

    plain = audit(parity, (0, 1), Claim(epsilon=1.0), samples=4_000, batched=True)
    assert not plain.violated
    known = audit(
        parity, (0, 1), Claim(epsilon=1.0), samples=4_000, batched=True,
        scores={"parity": lambda y: y[:, told].sum(axis=1) % 2},
    )  # fmt: skip
    assert known.violated
    assert known.witness is not None
    assert known.witness.kind == "given"


def test_one_by_one_and_batched_agree_and_a_seed_repeats() -> None:
    def one(x: Any, rng: np.random.Generator) -> Any:
        return x + rng.laplace(scale=0.25)

    single = audit(one, (0.0, 1.0), Claim(epsilon=1.0), samples=2_000)
    assert single.violated
    assert audit(one, (0.0, 1.0), Claim(epsilon=1.0), samples=2_000) == single
    assert audit(laplace(0.25), (0.0, 1.0), Claim(epsilon=1.0), samples=2_000, batched=True).violated


def test_nothing_to_look_at_is_no_violation() -> None:
    """Outputs that are always the same offer no event at all."""
    verdict = audit(lambda data, rng: 0.0, (0.0, 1.0), Claim(epsilon=1.0), samples=80, kinds=("law",))
    assert not verdict.violated
    assert (verdict.events, verdict.lower_bound, verdict.witness) == (0, 0.0, None)


def test_progress_reaches_the_end() -> None:
    seen = []
    audit(
        laplace(1.0), (0.0, 1.0), Claim(epsilon=1.0), samples=3 * CHUNK, batched=True,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen[-1] == (6 * CHUNK, 6 * CHUNK)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("mechanism", "options", "words"),
    [
        (laplace(1.0), {"samples": 10}, "samples must"),
        (laplace(1.0), {"confidence": 1.0}, "confidence must"),
        (laplace(1.0), {"kinds": ("colour",)}, "kinds must"),
        (laplace(1.0), {"neighbours": [0.0, 1.0]}, "neighbours must"),
        (lambda x, rng, n: ["text"] * n, {}, "must return numbers"),
        (lambda x, rng, n: np.zeros(3), {}, "one output per run"),
        (lambda x, rng, n: np.zeros((n, 0)), {}, "1 to 4096"),
        (lambda x, rng, n: np.zeros((n, 1 + int(x))), {}, "the same number of numbers"),
        (lambda x, rng, n: np.full(n, 2**60), {}, "above 2\\*\\*53"),
    ],
)
def test_bad_input_is_refused(mechanism: Any, options: Any, words: Any) -> None:
    options = {"neighbours": (0.0, 1.0), "samples": 100, **options}
    with pytest.raises(InputError, match=words):
        audit(mechanism, options.pop("neighbours"), Claim(epsilon=1.0), batched=True, **options)
