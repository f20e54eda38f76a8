"""In unit entry success, exit code and words depended on positions: each neighbour was told apart with certainty."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tests.released import mask_released

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
NAMES = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|release-\d+|d-\d+")
USUAL = "0,0,3\n1,1,4\n3,2,5\n"
NEIGHBOURS = {
    "an entry in a cell that has one": (USUAL, USUAL + "0,0,5\n"),
    "an entry beyond the shape": (USUAL, USUAL + "4,0,5\n"),
    "a negative index": (USUAL, USUAL + "-1,0,5\n"),
    "an index that is no number": (USUAL, USUAL + "x,0,5\n"),
    "no value": (USUAL, USUAL + "2,0,\n"),
    "a value that is no number": (USUAL, USUAL + "2,0,nan\n"),
    "an infinite value": (USUAL, USUAL + "2,0,inf\n"),
    "a value that is no number at all": (USUAL, USUAL + "2,0,none\n"),
    "the only entry": ("0,0,3\n", ""),
    "the last index": (USUAL, "0,0,3\n1,1,4\n"),
}


@pytest.mark.parametrize("which", NEIGHBOURS)
def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
    said = []
    for number, rows in enumerate(NEIGHBOURS[which]):
        (tmp_path / f"d-{number}.csv").write_text("user,film,value\n" + rows)
        output = tmp_path / f"release-{number}"
        code = run(["complete", str(tmp_path / f"d-{number}.csv"), *ENTRY, "-o", str(output)])
        captured = capsys.readouterr()
        files = sorted(path.name for path in output.iterdir()) if output.exists() else []
        said.append((code, mask_released(NAMES.sub("-", captured.out)), NAMES.sub("-", captured.err), files))
    assert said[0] == said[1]
    assert said[0][0] == 0


def test_a_shape_that_was_read_off_the_data_does_not_decide() -> None:
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": (6, 4)}
    with_last, without = np.array([[0, 0], [5, 3]]), np.array([[0, 0]])
    for coords in (with_last, without):
        fitted = tv.PrivateCP(1, **promise).fit(tv.ObservedTensor(coords, np.ones(len(coords))))
        assert fitted.model_.shape == (6, 4)


def test_values_tell_nothing_by_failing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = set()
    for number, value in enumerate(("5", "1e300", "inf", "-inf")):
        (tmp_path / "d.csv").write_text(f"user,film,value\na,x,3\na,y,2\nb,x,{value}\n")
        promise = ["--epsilon", "1", "--unit", "value", "--bounds", "1", "5", "--rank", "1"]
        codes.add(run(["complete", str(tmp_path / "d.csv"), *promise, "-o", str(tmp_path / f"release-{number}")]))
    assert codes == {0}
