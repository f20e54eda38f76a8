"""Shell, Python and federation write the same release: the same files, and a report among them."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.release.fill import Fill
from tensorveil.runs.cells import Filling, find_missing
from tensorveil.runs.complete import OpenRun, complete_openly
from tensorveil.runs.federate import Promise
from tensorveil.runs.private import PrivateRun, release_privately
from tensorveil.runs.reading import Reading
from tensorveil.runs.simulate import Simulation, simulate_federation
from tests.flows.federated_parties import DECLARED, PROMISE, ratings
from tests.flows.federated_parties import SHAPE as FEDERATED
from tests.flows.private_cases import SHAPE, complete, write_table

FILES = {"MODEL_CARD.md", "guarantee.json", "model.npz", "report.html"}


def names(folder: Path) -> Any:
    return {path.name for path in Path(folder).iterdir()}


def private_cp(**changes: Any) -> Any:
    promise: dict[str, Any] = {"epsilon": 2.0, "delta": 0.0, "unit": "value", "bounds": (1, 5), "sweeps": 2}
    return tv.PrivateCP(2, **(promise | changes))


def test_shell_python_and_federation_write_the_same_files(tmp_path: Path) -> None:
    path = write_table(tmp_path / "ratings.csv")
    assert complete(path, tmp_path / "shell", "--no-fill") == 0
    indices = write_table(tmp_path / "indices.csv", indices=True)
    slices = ["--delta", "1e-5", "--unit", "slice:user", "--bounds", "1", "5", "--indices", "--value", "rating"]
    command = ["complete", str(indices), "--epsilon", "2", *slices, "--private-shape", ",".join(map(str, SHAPE))]
    assert run([*command, "-o", str(tmp_path / "shell, slices")]) == 0
    tv.write_release(private_cp().fit(tv.read(path, value="rating")), tmp_path / "python")
    release_privately(
        PrivateRun(
            reading=Reading(file=path, value="rating"), estimator=private_cp(), output=tmp_path / "python, whole run"
        )
    )
    ratings().write(tmp_path / "ratings.npz")
    federated = ["federate", "simulate", str(tmp_path / "ratings.npz"), *DECLARED, *PROMISE, "--trust", "secure"]
    assert run([*federated, "-o", str(tmp_path / "federated")]) == 0
    promise = Promise(epsilon=5.0, delta=1e-5, bounds=(1, 5), trust="aggregator", sweeps=0)
    reading = Reading(file=tmp_path / "ratings.npz", shape=FEDERATED)
    simulate_federation(Simulation(promise=promise, reading=reading, output=tmp_path / "federated, python"))
    written = {place.name: names(place) for place in tmp_path.iterdir() if place.is_dir()}
    assert len(written) == 6
    assert written == dict.fromkeys(written, FILES)


def test_filled_cells_stand_in_the_same_file(tmp_path: Path) -> None:
    path = write_table(tmp_path / "ratings.csv")
    assert complete(path, tmp_path / "shell") == 0
    tensor = tv.read(path, value="rating")
    fill = Fill(coords=find_missing(tensor).T, format="csv")
    tv.write_release(private_cp().fit(tensor), tmp_path / "python", fill=fill)
    release_privately(
        PrivateRun(
            reading=Reading(file=path, value="rating"),
            estimator=private_cp(),
            output=tmp_path / "run",
            filling=Filling(format="csv"),
        )
    )
    assert names(tmp_path / "shell") == names(tmp_path / "python") == names(tmp_path / "run") == {*FILES, "filled.csv"}
    cells = [[line.rpartition(",")[0] for line in (tmp_path / name / "filled.csv").read_text().splitlines()]
             for name in ("shell", "python", "run")]  # fmt: skip
    assert cells[0] == cells[1] == cells[2]


def test_every_release_has_a_report_that_could_be_drawn(tmp_path: Path) -> None:
    ratings().write(tmp_path / "ratings.npz")
    promise = Promise(epsilon=5.0, delta=1e-5, bounds=(1, 5), trust="aggregator", sweeps=0)
    reading = Reading(file=tmp_path / "ratings.npz", shape=FEDERATED)
    simulate_federation(Simulation(promise=promise, reading=reading, output=tmp_path / "federated"))
    tv.write_release(
        private_cp().fit(tv.read(write_table(tmp_path / "ratings.csv"), value="rating")), tmp_path / "python"
    )
    for name in ("federated", "python"):
        page = (tmp_path / name / "report.html").read_text(encoding="utf-8")
        assert "could not be drawn" not in page
        assert tv.load_release(tmp_path / name)[1].sentence() in html.unescape(" ".join(page.split()))


@pytest.mark.parametrize("kind", [tv.CP, tv.Tucker, tv.LowRankMatrix])
def test_open_runs_can_be_called_from_python(tmp_path: Path, kind: Any) -> None:
    path = write_table(tmp_path / "ratings.csv")
    records: list[Any] = []
    asked = OpenRun(
        reading=Reading(file=path, bounds=(1, 5)),
        estimator=kind(2, sweeps=3, random_state=0),
        output=tmp_path / "result",
        filling=Filling(format="csv"),
    )
    done = complete_openly(asked, progress=records.append)
    assert records
    assert names(done.output) == set(done.summary.files) == {"model.npz", "filled.csv", "report.html", "summary.json"}
    with pytest.raises(tv.InputError, match="force=True"):
        complete_openly(asked)
