"""One list of local mechanisms: adding one takes its own module and an entry; an incomplete one fails at import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil.local
from tensorveil.errors import InputError
from tensorveil.local import LocalMechanism, choose, mechanism_from_json, mechanism_to_json, names
from tensorveil.local.catalogue import all_mechanisms, find_mechanism, mechanisms
from tensorveil_evidence.subjects.catalogue import list_subjects

TOY = '''
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tensorveil.local.staircase import StairsLaw
from tensorveil.local.entrywise import Entrywise
from tensorveil.noise.staircase import StaircaseSampler, best_stairs


@dataclass(frozen=True, kw_only=True, eq=False)
class Toy(Entrywise):
    """Staircase noise under another name."""

    command: ClassVar[str] = "toy"
    label: ClassVar[str] = "a toy"
    proof: ClassVar[str] = "docs/guarantees.md#staircase"

    def _law(self, epsilon):
        return StairsLaw(stairs=best_stairs(epsilon, self.last))

    def _answers(self, laws):
        return StaircaseSampler(stairs=tuple(law.stairs for law in laws))

    def _decode_places(self, codes, column, laws):
        return codes - 0.5 * self.last
'''
LATE = """
import json, sys
from tensorveil.local import names
names.MECHANISMS["toy"] = "toy_mechanism:Toy"
from tensorveil.cli.main import run
code = run(["perturb", "--help"])
light = not {"numpy", "rich", "tensorveil.local.contract"} & set(sys.modules)
code += run(["perturb", *sys.argv[1:]])
print(json.dumps({"code": code, "light": light}))
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module and an entry in the list: all that a new mechanism takes."""
    (tmp_path / "toy_mechanism.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(names.MECHANISMS, "toy", "toy_mechanism:Toy")
    yield find_mechanism("toy")
    sys.modules.pop("toy_mechanism", None)


def test_a_new_mechanism_is_stored_chosen_and_audited(toy: Any) -> None:
    mechanism = toy(shape=(2,), epsilon=1.0, unit="tensor", bounds=(0, 1))
    assert type(mechanism_from_json(json.loads(json.dumps(mechanism_to_json(mechanism))))) is toy
    assert "Toy" in {candidate.name for candidate in choose((2,), 1.0, "tensor", bounds=(0, 1)).candidates}
    assert {"local/toy, epsilon 1", "local/toy, epsilon 6"} <= set(list_subjects())
    assert not list_subjects()["local/toy, epsilon 1"].audit(samples=2_000).violated


def test_the_command_knows_a_new_mechanism_and_stays_light(toy: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((4, 2), 0.5))
    options = ["--owners", "--epsilon", "4", "--unit", "tensor", "--bounds", "0", "1", "--mechanism", "toy"]
    done = subprocess.run(
        [sys.executable, "-c", LATE, "x.npy", "y.npy", *options],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    shown, _, last = done.stdout.strip().rpartition("\n")
    assert json.loads(last) == {"code": 0, "light": True}, done.stderr
    assert "|toy]" in shown.replace("\n", "").replace(" ", "")
    assert json.loads((tmp_path / "y.npy.guarantee.json").read_text())["mechanism"]["mechanism"] == "Toy"


def test_every_mechanism_is_public_and_agrees_with_the_list() -> None:
    assert list(mechanisms()) == list(names.MECHANISMS)
    for name, kind in all_mechanisms().items():
        assert getattr(tensorveil.local, name) is kind
        assert name in tensorveil.local.__all__
        assert kind.perturbs in ("entries", "tensors")
        assert ("points" in kind.options()) == (kind.perturbs == "entries")
    assert find_mechanism("gaussian").options() == {"bounds", "radius", "delta"}
    with pytest.raises(InputError, match="mechanism must be one of k-rr"):
        find_mechanism("nothing")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tensorveil.local.nothing
    assert set(tensorveil.local.__all__) <= set(dir(tensorveil.local))


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ('    command: ClassVar[str] = "toy"\n', r"lacks command \(its name in names.py and for --mechanism\)"),
        ('    proof: ClassVar[str] = "docs/guarantees.md#staircase"\n', "lacks proof"),
        (
            "    def _decode_places(self, codes, column, laws):\n        return codes - 0.5 * self.last\n",
            "_decode_places",
        ),
    ],
)
def test_an_incomplete_mechanism_fails_at_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: Any, words: Any
) -> None:
    assert left_out in TOY
    (tmp_path / "broken_mechanism.py").write_text(TOY.replace(left_out, ""))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(names.MECHANISMS, "toy", "broken_mechanism:Toy")
    with pytest.raises(TypeError, match="local mechanism Toy is incomplete: it lacks") as caught:
        mechanisms()
    assert caught.match(words)


def test_a_class_without_anything_is_told_all_that_it_lacks() -> None:
    with pytest.raises(TypeError) as caught:
        type("Empty", (LocalMechanism,), {})
    for piece in ("command", "label", "proof", "perturbs", "candidates", "_randomize_rows", "worst_tensor"):
        assert piece in str(caught.value)


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [
        ("other", "tensorveil.local.staircase:Staircase", "the class calls itself 'staircase'"),
        ("other", "tensorveil.local.staircase:Stair", "is not a LocalMechanism"),
        ("other", "tensorveil.local.basis:Basis", "is not a LocalMechanism"),
    ],
)
def test_a_wrong_entry_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, address: Any, words: Any) -> None:
    monkeypatch.setitem(names.MECHANISMS, name, address)
    with pytest.raises(TypeError, match=words):
        mechanisms()


@pytest.mark.parametrize("name", list(all_mechanisms()))
def test_neighbours_are_as_declared(name: str) -> None:
    for mechanism in all_mechanisms()[name].examples(2.0).values():
        for first, second in mechanism.neighbours():
            assert first.shape == second.shape == mechanism.shape
            assert np.all(np.isfinite(mechanism.perturb(np.stack([first, second]))))
