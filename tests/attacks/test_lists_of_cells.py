"""A list of cells to fill becomes a public file: in unit entry it may be the private list of entries itself."""

from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run

ENTRY = [
    "--epsilon",
    "1",
    "--unit",
    "entry",
    "--bounds",
    "1",
    "5",
    "--indices",
    "--private-shape",
    "4,3",
    "--rank",
    "1",
]


def test_entries_are_not_listed_in_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "d.csv"
    data.write_text("user,film,value\n0,0,3\n3,2,4\n")
    assert run(["complete", str(data), "-o", str(tmp_path / "release"), *ENTRY, "--at", str(data)]) == 2
    assert not (tmp_path / "release").exists()
    assert "predict" in capsys.readouterr().err  # after the release, from the model


def test_python_is_refused_as_well(tmp_path: Path) -> None:
    import tensorveil as tv
    from tensorveil.runs.cells import Filling
    from tensorveil.runs.private import PrivateRun, release_privately
    from tensorveil.runs.reading import Reading

    data = tmp_path / "d.csv"
    data.write_text("user,film,value\n0,0,3\n3,2,4\n")
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": (4, 3)}
    run_ = PrivateRun(
        reading=Reading(file=data, indices=True),
        estimator=tv.PrivateCP(1, **promise),
        output=tmp_path / "release",
        filling=Filling(at=data),
    )
    with pytest.raises(tv.InputError, match="published"):
        release_privately(run_)


def test_the_order_of_a_list_does_not_show(tmp_path: Path) -> None:
    """In unit value the list is public as a set; a list in the order of held-out values would tell these."""
    data, filled = tmp_path / "d.csv", []
    data.write_text("user,film,value\na,x,3\nb,y,4\na,y,1\nb,x,2\n")
    for name, rows in (("one", "a,x\nb,y\na,y\n"), ("two", "b,y\na,y\na,x\n")):
        (tmp_path / f"{name}.csv").write_text(f"user,film\n{rows}")
        promise = ["--epsilon", "1", "--unit", "value", "--bounds", "1", "5", "--rank", "1", "--filled-format", "csv"]
        asked = ["--at", str(tmp_path / f"{name}.csv"), "-o", str(tmp_path / name)]
        assert run(["complete", str(data), *promise, *asked]) == 0
        lines = (tmp_path / name / "filled.csv").read_text().splitlines()
        filled.append([line.rsplit(",", 1)[0] for line in lines])
    assert filled[0] == filled[1]
