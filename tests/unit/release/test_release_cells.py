from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorveil.errors import InputError
from tensorveil.models.tables import cells_table
from tensorveil.release.cells import read_asked
from tensorveil.tensor import Mode
from tensorveil.tensor.files.formats import write_table

DAYS = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
MODES = (Mode("code", ["007", "7", "a,b"]), Mode("year", [1990, 2000]), Mode("day", DAYS), Mode("slot", None))
SHAPE = (3, 2, 2, 4)
COLUMNS = np.array([[0, 2, 1], [1, 0, 0], [0, 1, 1], [3, 0, 2]], dtype=np.int32)


@pytest.mark.parametrize("name", ["cells.csv", "cells.tsv", "cells.parquet"])
def test_cells_survive_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_table(cells_table(COLUMNS, np.array([1.0, 2.0, 3.0]), MODES, "value"), path)
    np.testing.assert_array_equal(read_asked(path, MODES, SHAPE)[0], COLUMNS)
    assert list(tmp_path.iterdir()) == [path]


def test_gzipped_and_reordered_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv.gz"
    path.write_bytes(gzip.compress(b"slot,extra,day,year,code\n3,x,2024-01-01,2000,007\n"))
    np.testing.assert_array_equal(read_asked(path, MODES, SHAPE)[0], COLUMNS[:, :1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("code,year,day\n7,2000,2024-01-01\n", r"missing \['slot'\]"),
        ("code,year,day,slot\nmallory,2000,2024-01-01,0\n", "not seen"),
        ("code,year,day,slot\n7,2000,2024-01-01,9\n", "inside the model's shape"),
        ("code,year,day,slot\n7,2000,2024-01-01,x9\n", "0-based indices"),
        ("code,year,day,slot\n7,mallory,2024-01-01,0\n", "cannot be read"),
        ("code,year,day,slot\n7,,2024-01-01,0\n", "empty cells"),
        ("code,year,day,slot\n7,2000\n", "Line 2 has 2 fields"),
        ("", "the file is empty"),
    ],
)
def test_bad_tables_are_refused_without_quoting_them(tmp_path: Path, text: Any, words: Any) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_asked(path, MODES, SHAPE)[0]
    assert "mallory" not in str(caught.value)
    assert "x9" not in str(caught.value)


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.parquet"):
        read_asked(tmp_path / "cells.xlsx", MODES, SHAPE)[0]
    with pytest.raises(InputError, match="not found"):
        read_asked(tmp_path / "cells.csv", MODES, SHAPE)[0]
    (tmp_path / "cells.parquet").write_text("no")
    with pytest.raises(InputError, match="readable Parquet file"):
        read_asked(tmp_path / "cells.parquet", MODES, SHAPE)[0]
    for name in ("cells.xlsx", "cells.csv.gz", "cells"):
        with pytest.raises(InputError, match="must end in"):
            write_table(pa.table({}), tmp_path / name)
    (tmp_path / "a.b.CSV").write_text("code,year,day,slot\n007,2000,2024-01-01,3\n")
    np.testing.assert_array_equal(read_asked(tmp_path / "a.b.CSV", MODES, SHAPE)[0], COLUMNS[:, :1])
    with pytest.raises(InputError, match="must end in"):
        read_asked(tmp_path / "gz", MODES, SHAPE)[0]


def test_the_value_column_never_hides_a_mode(tmp_path: Path) -> None:
    modes = (Mode("value", None), Mode("other", None))
    table = cells_table(COLUMNS[:2], np.ones(3), modes, "value")
    assert table.column_names == ["value", "other", "predicted_value"]
    pq.write_table(table, tmp_path / "cells.parquet")
