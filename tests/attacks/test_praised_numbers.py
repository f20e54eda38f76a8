"""Sentences that say less than the truth: odds cut off at e^700, and "almost the same" where delta promises nothing.

The reader has the sentence and nothing else; it must not sound better than its numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.privacy import Approximate, Guarantee, Part, Pure, Unit
from tensorveil.report.explorer import explore, explorer_data


def promise(event: Any, delta: float, **facts: Any) -> str:
    given: dict[str, Any] = {"unit": Unit.value(), "bounds": (1, 5), "proof": "docs/guarantees.md#input", **facts}
    return Guarantee.prove(
        event=event, delta=delta, composition=[Part(name="a", statistic="b", event=event)], released=["model"],
        secure_noise=True, mechanism="a mechanism", **given,
    ).sentence()  # fmt: skip


@pytest.mark.parametrize("epsilon", [701.0, 1000.0])
def test_odds_are_never_capped(epsilon: float) -> None:
    assert f"more than e^{epsilon:g} times as likely" in promise(Pure(epsilon), 0.0)
    films: dict[str, Any] = {"shape": (9, 8), "n_entries": 40, "bounds": (1.0, 5.0), "ranks": (2, 2), "core": False}
    told = explorer_data(explore(**films, epsilon=epsilon, delta=0.0))[1]
    assert told["odds"][told["at"]] == f"e^{epsilon:g}"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.9), (0.5, 0.9), (0.5, 0.02), (0.5, 0.005)])
def test_almost_the_same_needs_a_small_delta_too(epsilon: float, delta: float) -> None:
    sentence = promise(Approximate(epsilon, delta), delta)
    assert "almost the same" not in sentence
    assert f"plus a probability of {delta:g}" in sentence
    assert ("anything may be revealed: that is more than one in 100" in sentence) == (delta > 0.01)


def test_almost_the_same_needs_a_delta_below_one_in_all() -> None:
    event = Approximate(0.5, 1e-5)
    assert "almost the same" in promise(event, 1e-5, among=1000)
    assert "almost the same" not in promise(event, 1e-5, among=50_000)
    assert "no less than one in the 100,000 values" in promise(event, 1e-5, among=100_000)


def data() -> Any:
    rng = np.random.default_rng(0)
    cells = np.argwhere(rng.random((15, 12)) < 0.9)
    tensor = tv.ObservedTensor(cells, rng.uniform(1, 5, len(cells)), (15, 12))
    return tensor.with_modes(("user", "film"))


@pytest.mark.parametrize(
    ("kind", "unit", "delta"),
    [
        (tv.PrivateCP, "value", 0.9),
        (tv.PrivateCP, "value", 0.008),
        (tv.PrivateCP, "entry", 1 / 15),
        (tv.UserLevelCP, "slice:user", 1 / 15),
    ],
)
def test_a_delta_that_promises_nothing_is_refused_before_anything_is_charged(
    kind: Any, unit: str, delta: float
) -> None:
    settings: dict[str, Any] = {"epsilon": 0.5, "delta": delta, "unit": unit, "bounds": (1, 5), "shape": (15, 12)}
    careless = kind(2, **settings)
    with pytest.raises(tv.InputError, match="delta must be"):
        careless.fit(data())
    assert not hasattr(careless, "release_id_")
    insisting = kind(2, **settings, accept_delta=True).fit(data())
    assert "anything may be revealed" in str(insisting.guarantee_)
    assert "almost the same" not in str(insisting.guarantee_)


def test_the_command_refuses_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = data()
    rows = "\n".join(f"u{i},f{j},{v}" for (i, j), v in zip(tensor.coords, tensor.values, strict=True))
    (tmp_path / "d.csv").write_text(f"user,film,value\n{rows}\n")
    asked = ["complete", str(tmp_path / "d.csv"), "--epsilon", "0.5", "--delta", "0.9", "--unit", "value",
             "--bounds", "1", "5", "--rank", "2", "-o", str(tmp_path / "release")]  # fmt: skip
    assert run(asked) == 2
    assert "--accept-delta" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "release").exists()
    assert run([*asked, "--accept-delta"]) == 0
    assert "anything may be revealed" in " ".join(capsys.readouterr().out.split())
