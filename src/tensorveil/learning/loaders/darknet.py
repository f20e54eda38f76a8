"""CIC-Darknet2020: Darknet.CSV, flows with some 80 measured columns and the traffic's kind in the column Label.

Numbers are squashed by a public map, sign(x) log(1 + |x|), because their ranges are not declared anywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.learning.loaders.parts import Parts, damage_error
from tensorveil.learning.samples import Samples

LABEL = "Label"
KINDS = ("non-tor", "nonvpn", "tor", "vpn")
TEXT = ("Flow ID", "Src IP", "Dst IP", "Timestamp", "Label.1")
LARGEST = 50.0  # bound of a squashed number, above log(1 + 1e21)
TEST_SHARE = 0.2


def read(folder: Path) -> Parts:
    """Read the flows; the last fifth is for tests, as in Yuan et al. (section 5.1.1)."""
    import pyarrow as pa
    from pyarrow import csv

    path = folder / "Darknet.CSV"
    kinds = dict.fromkeys((*TEXT, LABEL), pa.string())
    try:
        table: Any = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=kinds))
        labels = [str(value).strip().lower() for value in table[LABEL].to_pylist()]
        y = np.array([KINDS.index(label) for label in labels], dtype=np.int64)
        names = [name for name in table.column_names if name not in (*TEXT, LABEL)]
        columns = [np.asarray(table[name].to_numpy(), dtype=np.float64) for name in names]
    except (pa.ArrowInvalid, KeyError, ValueError):
        raise damage_error(path) from None
    if not columns or len(y) < 5:
        raise damage_error(path)
    x = squash(np.stack(columns, axis=1))
    first = len(y) - int(TEST_SHARE * len(y))
    whole = Samples(x=x, y=y, classes=len(KINDS))
    bounds = (-LARGEST, LARGEST)
    return Parts(train=whole.take(slice(0, first)), test=whole.take(slice(first, None)), bounds=bounds)


def squash(x: np.ndarray) -> np.ndarray:
    """Return sign(x) log(1 + |x|), within declared bounds; NaN becomes 0."""
    whole = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
    with np.errstate(over="ignore"):
        out = np.sign(whole) * np.log1p(np.abs(whole))
    bounded: np.ndarray = np.clip(out, -LARGEST, LARGEST)
    return bounded
