"""A tensor that is not as declared is answered like any other: by a report, with the same words and the same files.

Whether a value lies outside of the bounds, or is missing, is known to the owner alone. A command that fails, or a
message, would tell it to whoever waits for the report.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorveil.cli.main import run
from tensorveil.local import DTLDP, ExactGaussian
from tensorveil.noise import SeededSource

INSIDE = np.array([[0.2, 0.9], [0.5, 0.1]])
OUTSIDE = [1.0 + 1e-12, -3.0, 1e308, np.nan, np.inf, -np.inf, 5e-324, -0.0]
WAYS = [
    ["--bounds", "0", "1"],
    ["--bounds", "0", "1", "--mechanism", "dtldp"],
    ["--bounds", "0", "1", "--mechanism", "hybrid"],
    ["--bounds", "0", "1", "--mechanism", "gaussian", "--delta", "1e-5"],
    ["--bounds", "0", "1", "--basis", "dct:2"],
    ["--radius", "1"],
]


def everything_seen(folder: Path, x: Any, options: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What the collector sees besides the noisy numbers: exit code, words, names and sizes of files, the promise."""
    folder.mkdir()
    np.save(folder / "x.npy", x)
    words = ["perturb", str(folder / "x.npy"), str(folder / "y.npy"), "--epsilon", "1", "--unit", "tensor", *options]
    code = run(words)
    shown = capsys.readouterr()
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert np.all(np.isfinite(np.load(folder / "y.npy")))
    promise = json.loads((folder / "y.npy.guarantee.json").read_text())
    return code, *(text.replace(str(folder), "") for text in shown), files, promise


@pytest.mark.parametrize("options", WAYS, ids=" ".join)
def test_nothing_but_the_report_depends_on_the_tensor(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = everything_seen(tmp_path / "inside", INSIDE, options, capsys)
    assert seen[0] == 0
    for k, strange in enumerate(OUTSIDE):
        x = INSIDE.copy()
        x[1, 0] = strange
        assert everything_seen(tmp_path / str(k), x, options, capsys) == seen


def test_a_value_off_the_grid_does_not_fail_either() -> None:
    mechanism = DTLDP(shape=(2,), epsilon=1.0, unit="tensor", bounds=(0, 255), points=256, rounding=False)
    assert mechanism.perturb([7.25, 300.0]).shape == (2,)


def test_a_missing_cell_does_not_fail_a_table(tmp_path: Path) -> None:
    columns = {"a": pa.array([True, None]), "b": pa.array([1, None]), "c": pa.array([0.5, 0.25])}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    ends = [str(tmp_path / name) for name in ("x.parquet", "y.parquet")]
    assert run(["perturb", *ends, "--epsilon", "1", "--unit", "tensor", "--bounds", "0", "1"]) == 0
    assert pq.read_table(tmp_path / "y.parquet").num_rows == 2


def test_a_tensor_of_a_ball_keeps_the_length_that_its_noise_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the noise, the places of two tensors are no further apart than declared, whatever the numbers are."""
    from tensorveil.local import gaussian

    monkeypatch.setattr(gaussian, "rounded_gaussian", lambda sigma, count, source: np.zeros(count, dtype=np.int64))
    mechanism = ExactGaussian(shape=(40,), epsilon=1.0, delta=1e-5, unit="tensor", radius=1.0)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 40)) * 10.0 ** rng.integers(-323, 300, (400, 1))
    rows[:40] = rng.choice(OUTSIDE, (40, 40))
    places = mechanism.randomize(rows, source=SeededSource(0)).astype(object)
    centre = mechanism.randomize(np.zeros(40), source=SeededSource(0)).astype(object)
    assert all(4 * ((row - centre) ** 2).sum() <= mechanism.sensitivity_steps**2 for row in places)
