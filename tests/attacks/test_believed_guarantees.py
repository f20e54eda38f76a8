"""A guarantee file is believed: someone edits its epsilon, its event or its unit, or puts another model beside it.

The attacker holds a release folder and an editor. What is loaded from an edited folder, and what a ledger is charged
for it, must not be what the attacker wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.privacy import Guarantee, Pure, event_to_json
from tensorveil.release.fill import Fill


def fit(**changes: Any) -> Any:
    rng = np.random.default_rng(0)
    cells = np.argwhere(rng.random((10, 8)) < 0.7)
    data = tv.ObservedTensor(cells, rng.uniform(1, 5, len(cells)), (10, 8))
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value", "bounds": (1, 5), "method": "input"}
    return tv.PrivateCP(2, sweeps=2, **(promise | changes)).fit(data)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tv.write_release(fit(), tmp_path / "release", fill=Fill(coords=[[0, 0], [9, 7]], format="csv"))


def edit(release: Path, change: Callable[[dict[str, Any]], object], *, digest: bool = True) -> None:
    """Change the facts as an editor would; without the digest, as one who removes what is in the way."""
    path = release / "guarantee.json"
    facts = json.loads(path.read_text())
    change(facts)
    if not digest:
        facts.pop("digest", None)
    path.write_text(json.dumps(facts))


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "epsilon": lambda facts: facts.update(epsilon=0.001),
    "delta": lambda facts: facts.update(delta=1e-9),
    "event": lambda facts: facts.update(event=event_to_json(Pure(0.001))),
    "event and epsilon": lambda facts: facts.update(event=event_to_json(Pure(0.001)), epsilon=0.001),
    "no event": lambda facts: facts.update(event=None),
    "no parts": lambda facts: facts.update(event=event_to_json(Pure(0.001)), epsilon=0.001, composition=[]),
    "one part": lambda facts: facts["composition"][0].update(event=event_to_json(Pure(2.0))),
    "unit": lambda facts: facts.update(unit="entry"),
    "bounds": lambda facts: facts.update(bounds=[0.0, 9.0]),
    "conditions": lambda facts: facts.update(conditions=["everybody agreed"]),
}


@pytest.mark.parametrize("change", EDITS)
def test_an_edited_guarantee_is_not_loaded(release: Path, change: str) -> None:
    edit(release, EDITS[change])
    with pytest.raises(tv.InputError):
        tv.load_release(release)


@pytest.mark.parametrize("change", ["epsilon", "event", "event and epsilon", "no event", "no parts", "one part"])
def test_an_edited_number_is_found_without_any_digest(release: Path, change: str) -> None:
    """Accounting alone refutes it, so a ledger never gets to charge what the attacker wrote."""
    edit(release, EDITS[change], digest=False)
    with pytest.raises(tv.InputError, match=r"costs? more|must have an event|must list its parts"):
        Guarantee.from_json((release / "guarantee.json").read_text())


@pytest.mark.parametrize("name", ["model.npz", "filled.csv", "MODEL_CARD.md", "report.html"])
def test_an_edited_file_is_found(release: Path, name: str) -> None:
    tv.load_release(release)
    with (release / name).open("ab") as file:
        file.write(b"epsilon = 0.001\n")
    with pytest.raises(tv.InputError, match=f"{name} is not the file that was released"):
        tv.load_release(release)


def test_another_model_does_not_get_the_guarantee(release: Path, tmp_path: Path) -> None:
    data = tv.synthetic_cp((10, 8), 2, random_state=0).train
    tv.CP(2, solver="als", sweeps=2).fit(data).save(release / "model.npz")  # without any noise
    with pytest.raises(tv.InputError, match="not the file that was released"):
        tv.load_release(release)
    other = tv.write_release(fit(epsilon=9.0), tmp_path / "other")
    (release / "model.npz").write_bytes((other / "model.npz").read_bytes())
    with pytest.raises(tv.InputError, match="not the file that was released"):
        tv.load_release(release)


@pytest.mark.parametrize("digest", [True, False])
def test_digests_that_are_taken_away_are_missed(release: Path, digest: bool) -> None:
    edit(release, lambda facts: facts.pop("files", None), digest=digest)
    with pytest.raises(tv.InputError):
        tv.load_release(release)


def test_a_mark_that_is_edited_away_is_missed(tmp_path: Path) -> None:
    folder = tv.write_release(fit(noise_seed=1), tmp_path / "seeded", allow_not_private=True)
    for path in list(folder.iterdir()):
        path.rename(path.with_name(path.name.removeprefix("NOT-PRIVATE-")))
    edit(folder, lambda facts: facts.update(secure_noise=True))
    with pytest.raises(tv.InputError):
        tv.load_release(folder)
