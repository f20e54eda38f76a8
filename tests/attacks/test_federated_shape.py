"""A simulated federation publishes the largest index that occurs: one user more changes the released shape."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import InputError
from tensorveil.runs.federate import Promise
from tensorveil.runs.reading import Reading
from tensorveil.runs.simulate import Simulation, simulate_federation

PROMISE = ["--bounds", "1", "5", "--epsilon", "1", "--delta", "1e-5", "--trust", "secure"]


def write_neighbours(tmp_path: Path) -> Any:
    """Two files; in one of them there is one user more, who alone rated the last film."""
    rng = np.random.default_rng(0)
    rows = [f"{user},{film},{rng.integers(1, 6)}" for user in range(60) for film in rng.choice(25, 5, replace=False)]
    places = tmp_path / "without.csv", tmp_path / "with.csv"
    for place, more in zip(places, ([], ["60,31,5"]), strict=True):
        place.write_text("\n".join(["user,film,value", *rows, *more]) + "\n")
    return places


def released_shape(folder: Path) -> Any:
    model: Any = tv.load_release(folder)[0]
    return model.shape, [line for line in (folder / "MODEL_CARD.md").read_text().splitlines() if "shape" in line]


def test_without_a_declared_shape_the_command_refuses_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for k, place in enumerate(write_neighbours(tmp_path)):
        code = run(["federate", "simulate", str(place), "--indices", *PROMISE, "-o", str(tmp_path / str(k))])
        said.append((code, capsys.readouterr().err, (tmp_path / str(k)).exists()))
    assert said[0] == said[1]
    assert said[0][0] == 2
    assert "--private-shape" in said[0][1]
    assert not said[0][2]


def test_without_a_declared_shape_python_refuses_both(tmp_path: Path) -> None:
    promise = Promise(epsilon=1.0, delta=1e-5, bounds=(1, 5), trust="secure")
    for place in write_neighbours(tmp_path):
        reading = Reading(file=place, indices=True)
        with pytest.raises(InputError, match="declared shape"):
            simulate_federation(Simulation(promise=promise, reading=reading, output=tmp_path / "release"))


def test_with_a_declared_shape_neighbours_release_the_same_one(tmp_path: Path) -> None:
    found = []
    for k, place in enumerate(write_neighbours(tmp_path)):
        declared = ["--private-shape", "100,40"]
        command = ["federate", "simulate", str(place), "--indices", *declared, *PROMISE, "-o", str(tmp_path / str(k))]
        assert run(command) == 0
        found.append(released_shape(tmp_path / str(k)))
        facts = json.loads((tmp_path / str(k) / "guarantee.json").read_text())
        assert facts["epsilon"] == 1.0
    assert found[0] == found[1]
    assert found[0][0] == (100, 40)


def test_labels_that_are_numbered_by_what_occurs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in write_neighbours(tmp_path):
        command = ["federate", "simulate", str(place), "--private-shape", "100,40", *PROMISE, "-o", str(tmp_path / "r")]
        assert run(command) == 2
        assert "indices" in capsys.readouterr().err
