"""The names of a table's columns do not leave with a report, unless its owner says that they are public.

In a table with a column per thing that a person has, names are data: "HIV medication" tells more than any number.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorveil.cli.main import run

SECRETS = ["HIV medication", "film: a secret one"]


@pytest.mark.parametrize("ending", ["parquet", "npy", "npz"])
def test_no_byte_of_what_leaves_names_a_column(tmp_path: Path, ending: str) -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (5, 2))
    table = pa.table([pa.array(rows[:, k]) for k in range(2)], names=SECRETS)
    pq.write_table(table.replace_schema_metadata({"patient": "Jane Roe"}), tmp_path / "x.parquet")
    ends = [str(tmp_path / "x.parquet"), str(tmp_path / f"y.{ending}")]
    assert run(["perturb", *ends, "--epsilon", "1", "--unit", "tensor", "--bounds", "0", "1", "--owners"]) == 0
    for path in tmp_path.glob("y.*"):
        content = path.read_bytes()
        assert not any(word in content for word in (b"HIV", b"secret", b"patient", b"Jane"))
    if ending == "parquet":
        assert pq.read_table(ends[1]).column_names == ["x0", "x1"]
    said = json.loads((tmp_path / f"y.{ending}.guarantee.json").read_text())["guarantee"]["sentence"]
    assert "the tensor's shape is public" in said
    assert "names" not in said
