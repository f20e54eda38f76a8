"""Models in files: a zip of .npy arrays and a JSON header, readable without running anything from it.

Members: ``header.json``, which lists all others with their digests; ``factor_0.npy``, ...; ``core.npy`` (Tucker);
``bias_0.npy``, ... (if any); ``labels_0.npy`` (numbers, dates) or ``labels_0.json`` (text); ``extra_NAME.npy`` for what
only some models have.
``numpy.load`` opens the arrays too.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, TensorveilError
from tensorveil.memory import file_too_large
from tensorveil.models.link import IDENTITY, LINKS
from tensorveil.tensor import Mode
from tensorveil.tensor.files.archives import (
    check_members,
    list_members,
    open_archive,
    read_bytes,
    read_json,
    read_member,
)
from tensorveil.tensor.files.atomic import replace_file

Result = TypeVar("Result")
FORMAT = "tensorveil-model"
# Models with a link need version 2: what reads version 1 would predict their linear part.
VERSION = 2
HEADER = "header.json"
_EXTRA = "extra_"  # prefix of arrays that only some models have
# A fixed date makes equal models equal files, byte for byte.
ZIP_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """The contents of a model file, before a model is built from them."""

    kind: str
    offset: float
    bounds: tuple[float, float] | None
    modes: tuple[Mode, ...]
    factors: tuple[NDArray[Any], ...]
    biases: tuple[NDArray[Any], ...] | None
    core: NDArray[Any] | None = field(default=None)
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    link: str = IDENTITY.name
    loss: str = "gaussian"
    value_name: str = "value"


def write_model(path: str | os.PathLike[str], stored: StoredModel) -> None:
    """Write the file whole or not at all."""
    if stored.link not in LINKS:
        raise InputError(
            f"a model with the link {stored.link!r} cannot be saved: files know {', '.join(LINKS)}. Give the loss one "
            "of these links."
        )
    plain = (stored.link, stored.loss) == (IDENTITY.name, "gaussian")
    arrays = {f"factor_{m}": factor for m, factor in enumerate(stored.factors)}
    arrays |= {f"bias_{m}": bias for m, bias in enumerate(stored.biases or ())}
    if stored.core is not None:
        arrays["core"] = stored.core
    arrays |= {f"{_EXTRA}{name}": array for name, array in stored.extra.items()}
    members: dict[str, bytes | NDArray[Any]] = {f"{name}.npy": np.asanyarray(array) for name, array in arrays.items()}
    for m, mode in enumerate(stored.modes):
        if mode.labels is not None and _label_kind(mode) == "text":
            members[f"labels_{m}.json"] = _json(mode.labels.tolist())
        elif mode.labels is not None:
            members[f"labels_{m}.npy"] = mode.labels
    header = {
        "format": FORMAT,
        "version": 1 if plain else VERSION,
        "kind": stored.kind,
        "order": len(stored.factors),
        "offset": stored.offset,
        "bounds": stored.bounds,
        "biases": stored.biases is not None,
        "modes": [_describe(mode) for mode in stored.modes],
        **({} if plain else {"link": stored.link, "loss": stored.loss}),
        "value": stored.value_name,
    }
    with atomic_file(Path(path)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add_text(archive, HEADER, _json(list_members(header, members)))
        for name, content in members.items():
            if isinstance(content, bytes):
                _add_text(archive, name, content)
            else:
                _add_array(archive, name, content)


def read_model(path: str | os.PathLike[str]) -> StoredModel:
    """Read and check a model file."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"model file not found: {source}. Models are written by model.save(path).")

    def read() -> StoredModel:
        with open_archive(source) as archive:
            return _read_archive(archive, _read_header(archive, source))

    return guard_model(source, read)


def guard_model(path: str | os.PathLike[str], read: Callable[[], Result]) -> Result:
    """Read a model, or build it from what was read; what goes wrong is an error that says that the file is damaged."""
    try:
        return read()
    except TensorveilError:
        raise
    except MemoryError:
        problem: InputError = file_too_large()
    except Exception:  # a file may hold anything, and the text of what it leads to may quote it
        problem = InputError(
            f"{os.fspath(path)} is not a readable tensorveil model: the file is damaged or of another kind. "
            "Write it again with model.save(path)."
        )
    raise problem


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name only when everything has been written."""
    if not path.parent.is_dir():
        raise InputError(f"folder not found: {path.parent}. Make it first.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as model.npz.")
    with replace_file(path) as temporary, temporary.open("wb") as file:
        yield file


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _add_text(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, ZIP_DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def _add_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    info = zipfile.ZipInfo(name, ZIP_DATE)
    with archive.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _describe(mode: Mode) -> dict[str, Any]:
    """Return what the header says of a mode: of its bins only if it has some, so that other files stay as they were."""
    return {"name": mode.name, "labels": _label_kind(mode), **({} if mode.bins is None else {"bins": mode.bins})}


def _label_kind(mode: Mode) -> str | None:
    """Say how labels are stored: numbers and dates as an array, text as JSON."""
    if mode.labels is None:
        return None
    return "text" if mode.labels.dtype.kind == "T" else "array"


def _read_header(archive: zipfile.ZipFile, source: Path) -> Mapping[str, Any]:
    if HEADER not in archive.namelist():
        raise InputError(f"{source} is not a tensorveil model: it has no {HEADER}.")
    header = read_json(archive, HEADER)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{source} is not a tensorveil model: its header names another format.")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise InputError(f"{source} has no valid format version. Write it again with model.save(path).")
    if version > VERSION:
        raise InputError(
            f"{source} has format version {version}; this tensorveil reads up to {VERSION}. Upgrade tensorveil."
        )
    return header


def _read_archive(archive: zipfile.ZipFile, header: Mapping[str, Any]) -> StoredModel:
    order = range(int(header["order"]))
    bounds = header["bounds"]
    names = [name for name in archive.namelist() if name != HEADER]
    members = {
        name: read_member(archive, name) if name.endswith(".npy") else read_bytes(archive, name) for name in names
    }
    check_members(header, members, names)
    arrays = {name.removesuffix(".npy"): item for name, item in members.items() if isinstance(item, np.ndarray)}
    modes = tuple(
        Mode(name=str(entry["name"]), labels=_read_labels(members, m, entry["labels"]), bins=entry.get("bins"))
        for m, entry in enumerate(header["modes"])
    )
    return StoredModel(
        kind=str(header["kind"]),
        offset=float(header["offset"]),
        bounds=None if bounds is None else check_bounds(bounds),
        modes=modes,
        factors=tuple(arrays[f"factor_{m}"] for m in order),
        biases=tuple(arrays[f"bias_{m}"] for m in order) if header["biases"] else None,
        core=arrays.get("core"),
        value_name=str(header.get("value", "value")),
        extra={name.removeprefix(_EXTRA): array for name, array in arrays.items() if name.startswith(_EXTRA)},
        link=str(header.get("link", IDENTITY.name)),
        loss=str(header.get("loss", "gaussian")),
    )


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Return bounds that are finite, and in order."""
    low, high = float(bounds[0]), float(bounds[1])
    if len(bounds) != 2 or not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("bounds must be two finite numbers, the lower one first")
    return low, high


def _read_labels(members: Mapping[str, Any], m: int, kind: str | None) -> NDArray[Any] | None:
    if kind is None:
        return None
    if kind == "array":
        return np.asarray(members[f"labels_{m}.npy"])
    labels = json.loads(members[f"labels_{m}.json"])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("labels must be texts")
    return np.array(labels, dtype=np.dtypes.StringDType())
