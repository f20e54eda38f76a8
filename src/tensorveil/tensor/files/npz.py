"""NumPy's .npz archives without pickled objects: the project's own file, which keeps a whole tensor, and dense arrays.

Members of a tensor's file: `about` (UTF-8 JSON: version, shape, bounds, modes, origin, and digests of all members),
`index_0` ... (smallest unsigned type), `values`, and per labelled mode `labels_k`, or `labels_k_text` with
`labels_k_ends` for strings.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, TensorveilError
from tensorveil.tensor.files.archives import MAGIC, check_members, list_members, open_archive, read_member
from tensorveil.tensor.files.file_format import Array, DenseFile, Format, Layout
from tensorveil.tensor.files.npy import check_numeric
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.origin import Origin

VERSION = 1
ABOUT = "about"


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write everything that the tensor knows, and a digest of every part."""
    members: dict[str, NDArray[Any]] = {"values": tensor.values}
    for axis, mode in enumerate(tensor.modes):
        members[f"index_{axis}"] = tensor.columns[axis].astype(np.min_scalar_type(tensor.shape[axis] - 1))
        if mode.labels is not None:
            members |= _label_members(f"labels_{axis}", mode.labels)
    about = {
        "tensorveil": VERSION,
        "shape": tensor.shape,
        "bounds": tensor.bounds,
        "modes": [mode.name for mode in tensor.modes],
        "origin": tensor.origin.to_json(),
    }
    if any(mode.bins is not None for mode in tensor.modes):
        about["bins"] = [mode.bins for mode in tensor.modes]
    with path.open("wb") as file:
        # No member is an object array, so nothing is pickled; early numpy 2 has no switch to say so.
        text = np.frombuffer(json.dumps(list_members(about, members)).encode(), np.uint8)
        np.savez_compressed(file, **{ABOUT: text}, **members)  # type: ignore[arg-type]


def _label_members(key: str, labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    if labels.dtype.kind != "T":
        return {key: labels}
    parts = [label.encode() for label in labels.tolist()]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return {f"{key}_text": np.frombuffer(b"".join(parts), np.uint8), f"{key}_ends": ends}


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read and check a tensor; names in `layout.modes` replace the stored ones."""
    facts: dict[str, Any] | None = None
    with suppress(zipfile.BadZipFile, zlib.error, OSError, EOFError, LookupError, TypeError, ArithmeticError):
        try:
            facts = _read_members(path)
        except TensorveilError:
            raise
        except (ValueError, NotImplementedError, RuntimeError, SyntaxError):
            facts = None
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
    with open_archive(path) as archive:
        about = json.loads(read_member(archive, f"{ABOUT}.npy").tobytes())
        if about["tensorveil"] != VERSION:
            raise ValueError
        names = {name.removesuffix(".npy") for name in archive.namelist()} - {ABOUT}
        arrays = {name: read_member(archive, f"{name}.npy") for name in names}
    check_members(about, arrays, names)
    columns = [arrays[f"index_{axis}"] for axis in range(len(about["modes"]))]
    _check_columns(columns, arrays["values"])
    widths = about.get("bins", [None] * len(about["modes"]))
    modes = [
        Mode(name, _read_labels(arrays, f"labels_{axis}"), width)
        for axis, (name, width) in enumerate(zip(about["modes"], widths, strict=True))
    ]
    return {
        "columns": columns,
        "values": arrays["values"],
        "shape": about["shape"],
        "bounds": about["bounds"],
        "modes": modes,
        "origin": Origin.from_json(about.get("origin", {})),
    }


def _check_columns(columns: Sequence[NDArray[Any]], values: NDArray[Any]) -> None:
    """Refuse indices that would be cut, wrapped or repeated to fit."""
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        raise ValueError
    for column in columns:
        if column.dtype.kind not in "iu" or column.shape != values.shape:
            raise InputError(
                "path must hold whole-number indices, as many in every mode as there are values. It was not written "
                "by this program, or is damaged."
            )


def _read_labels(arrays: Mapping[str, NDArray[Any]], key: str) -> NDArray[Any] | None:
    if key in arrays:
        return arrays[key]
    if f"{key}_text" not in arrays:
        return None
    text, ends = arrays[f"{key}_text"].tobytes(), arrays[f"{key}_ends"].tolist()
    starts = [0, *ends[:-1]]
    if any(not isinstance(end, int) or start > end for start, end in zip(starts, ends, strict=True)):
        raise ValueError
    if (ends[-1] if ends else 0) != len(text):
        raise ValueError
    parts = [text[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    return np.array(parts, dtype=np.dtypes.StringDType())


def read_array(path: Path, variable: str | None) -> DenseFile:
    """Read the only array of an archive, or the one named ``variable``."""
    with open_archive(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if variable is None and len(names) == 1:
            variable = names[0]
        if variable not in names:
            raise InputError(f"{path.name} holds {len(names)} arrays. Name one of them with variable='...'.")
        return DenseFile(values=check_numeric(read_member(archive, f"{variable}.npy"), path))


def write_array(values: Array, path: Path, columns: Sequence[str] | None) -> None:
    """Write the array as ``values``."""
    with path.open("wb") as file:
        np.savez_compressed(file, values=values)


FORMAT = Format(
    name="npz",
    endings=(".npz",),
    magic=(MAGIC,),
    read=read_tensor,
    write=write_tensor,
    read_array=read_array,
    write_array=write_array,
)
