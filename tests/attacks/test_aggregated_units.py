"""What is promised about a mean of reports holds for every owner, whichever of the report files theirs stands in.

The largest epsilon of several files says nothing if they protect different things, and the largest epsilon need not
come with the largest delta.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.cli.main import run


def report(folder: Path, name: str, *options: str) -> str:
    np.save(folder / "x.npy", np.full((400, 4), 0.5))
    target = str(folder / name)
    assert run(["perturb", str(folder / "x.npy"), target, "--owners", "--bounds", "0", "1", *options]) == 0
    return target


def aggregate(folder: Path, *reports: str) -> int:
    return run(["aggregate", *reports, "-o", str(folder / "mean.npz"), "--json"])


@pytest.mark.parametrize("unit", [["local-entry"], ["tensor", "--differ", "1"]])
def test_single_entries_are_not_promised_as_whole_tensors(
    tmp_path: Path, unit: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = report(tmp_path, "whole.npy", "--epsilon", "4", "--unit", "tensor")
    entries = report(tmp_path, "entries.npy", "--epsilon", "2", "--unit", *unit)
    assert aggregate(tmp_path, whole, entries) == 2
    assert "one unit" in " ".join(capsys.readouterr().err.split())


def test_the_largest_delta_is_promised_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pure = report(tmp_path, "pure.npy", "--epsilon", "4", "--unit", "tensor")
    gaussian = ["--epsilon", "1", "--unit", "tensor", "--mechanism", "gaussian", "--delta", "1e-3"]
    noisy = report(tmp_path, "noisy.npy", *gaussian)
    capsys.readouterr()
    assert aggregate(tmp_path, pure, noisy) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)["guarantee"]
    assert (said["epsilon"], said["delta"]) == (4.0, 1e-3)
