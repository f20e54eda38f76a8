"""Flows of Tor, VPN and other traffic: CIC-Darknet2020 (Darknet.CSV), or the two sets it was made of, in one table.

Numbers are squashed by a public map, sign(x) log(1 + |x|), because their ranges are not declared anywhere. Flows are
interspersed as in Yuan et al. (section 5.1.1), who cut those of Tor into 200 segments and put them between the others:
here every kind is cut so, because in a file that is sorted by kind the last fifth would hold a single one otherwise.
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
SEGMENTS = 200
FLOW_KINDS = ("NonVPN", "Tor", "VPN")


def read(folder: Path) -> Parts:
    """Read CIC-Darknet2020; the last fifth is for tests, as in Yuan et al."""
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
    return _cut(np.stack(columns, axis=1), y, len(KINDS))


def read_flows(path: Path) -> Parts:
    """Read ISCXTor2016 and ISCXVPN2016 as one table: 23 features of time, and a label of three kinds."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table: Any = parquet.read_table(path)
        y = np.array([FLOW_KINDS.index(label) for label in table["label"].to_pylist()], dtype=np.int64)
        names = [name for name in table.column_names if name not in ("label", "application")]
        columns = [np.asarray(table[name].to_numpy(), dtype=np.float64) for name in names]
    except (pa.ArrowInvalid, OSError, KeyError, ValueError):
        raise damage_error(path) from None
    if not columns or len(y) < 5:
        raise damage_error(path)
    return _cut(np.stack(columns, axis=1), y, len(FLOW_KINDS))


def _cut(x: np.ndarray, y: np.ndarray, classes: int) -> Parts:
    """Intersperse the kinds and keep the last fifth for tests."""
    order = intersperse(y)
    whole = Samples(x=squash(x[order]), y=y[order], classes=classes)
    first = len(y) - int(TEST_SHARE * len(y))
    bounds = (-LARGEST, LARGEST)
    return Parts(train=whole.take(slice(0, first)), test=whole.take(slice(first, None)), bounds=bounds)


def intersperse(y: np.ndarray, segments: int = SEGMENTS) -> np.ndarray:
    """Return the order in which the k-th segments of all kinds stand side by side, each kind in its own order.

    >>> intersperse(np.array([0, 0, 0, 0, 1, 1]), 2).tolist()
    [0, 1, 4, 2, 3, 5]
    """
    cut = [np.array_split(np.flatnonzero(y == kind), segments) for kind in np.unique(y)]
    out: np.ndarray = np.concatenate([part for parts in zip(*cut, strict=True) for part in parts])
    return out


def squash(x: np.ndarray) -> np.ndarray:
    """Return sign(x) log(1 + |x|), within declared bounds; NaN becomes 0."""
    whole = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
    with np.errstate(over="ignore"):
        out = np.sign(whole) * np.log1p(np.abs(whole))
    bounded: np.ndarray = np.clip(out, -LARGEST, LARGEST)
    return bounded
