"""NumPy's .npz archives without pickled objects: the project's own file, which keeps a whole tensor, and dense arrays.

Members of a tensor's file: `about` (UTF-8 JSON: version, shape, bounds, modes, origin), `index_0` ... (smallest
unsigned type), `values`, and per labelled mode `labels_k`, or `labels_k_text` with `labels_k_ends` for strings.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.files.file_format import Array, DenseFile, Format, Layout
from tensorveil.tensor.files.npy import check_numeric
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.origin import Origin

VERSION = 1


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write everything that the tensor knows."""
    about = {
        "tensorveil": VERSION,
        "shape": tensor.shape,
        "bounds": tensor.bounds,
        "modes": [mode.name for mode in tensor.modes],
        "origin": tensor.origin.to_json(),
    }
    members: dict[str, NDArray[Any]] = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "values": tensor.values,
    }
    for axis, mode in enumerate(tensor.modes):
        members[f"index_{axis}"] = tensor.columns[axis].astype(np.min_scalar_type(tensor.shape[axis] - 1))
        if mode.labels is not None:
            members |= _label_members(f"labels_{axis}", mode.labels)
    with path.open("wb") as file:
        # No member is an object array, so nothing is pickled; early numpy 2 has no switch to say so.
        np.savez_compressed(file, **members)  # type: ignore[arg-type]


def _label_members(key: str, labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    if labels.dtype.kind != "T":
        return {key: labels}
    parts = [label.encode() for label in labels.tolist()]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return {f"{key}_text": np.frombuffer(b"".join(parts), np.uint8), f"{key}_ends": ends}


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read and check a tensor; names in `layout.modes` replace the stored ones."""
    facts: dict[str, Any] | None = None
    with suppress(zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, TypeError):
        facts = _read_members(path)
    if facts is None:
        raise InputError(
            "path must be a tensorveil .npz file. The file is damaged, or another program wrote it: load "
            "its arrays with numpy and pass them to ObservedTensor or ObservedTensor.from_dense."
        )
    if layout.modes is not None:
        facts["modes"] = layout.modes
    facts |= {key: item for key, item in options.items() if key not in facts or item is not None}
    origin = facts.pop("origin")
    if layout.value is not None:  # there is one column of values, which was looked at if it is named
        origin = replace(origin, value_named=True)
    tensor = ObservedTensor.from_columns(facts.pop("columns"), facts.pop("values"), **facts)
    return tensor.with_origin(origin.then(tensor.origin))


def _read_members(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        about = json.loads(archive["about"].tobytes())
        if about["tensorveil"] != VERSION:
            raise ValueError
        values = archive["values"]
        names = about["modes"]
        columns = np.empty((len(names), len(values)), np.int32)
        for axis in range(len(names)):
            columns[axis] = archive[f"index_{axis}"]
        modes = [Mode(name, _read_labels(archive, f"labels_{axis}")) for axis, name in enumerate(names)]
        return {
            "columns": columns,
            "values": values,
            "shape": about["shape"],
            "bounds": about["bounds"],
            "modes": modes,
            "origin": Origin.from_json(about.get("origin", {})),
        }


def _read_labels(archive: Any, key: str) -> NDArray[Any] | None:
    if key in archive:
        return np.asarray(archive[key])
    if f"{key}_text" not in archive:
        return None
    text, ends = archive[f"{key}_text"].tobytes(), archive[f"{key}_ends"].tolist()
    starts = [0, *ends[:-1]]
    parts = [text[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    return np.array(parts, dtype=np.dtypes.StringDType())


def read_array(path: Path, variable: str | None) -> DenseFile:
    """Read the only array of an archive, or the one named ``variable``."""
    arrays: dict[str, Array] | None = None
    with suppress(ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        arrays = dict(np.load(path, allow_pickle=False))
    if arrays is None:
        raise InputError(f"{path.name} cannot be read as npz without pickled objects.")
    if variable is None and len(arrays) == 1:
        variable = next(iter(arrays))
    if variable not in arrays:
        raise InputError(f"{path.name} holds {len(arrays)} arrays. Name one of them with variable='...'.")
    return DenseFile(values=check_numeric(arrays[variable], path))


def write_array(values: Array, path: Path, columns: Sequence[str] | None) -> None:
    """Write the array as ``values``."""
    with path.open("wb") as file:
        np.savez_compressed(file, values=values)


FORMAT = Format(
    name="npz",
    endings=(".npz",),
    read=read_tensor,
    write=write_tensor,
    read_array=read_array,
    write_array=write_array,
)
