"""What ties the files of a release together: the guarantee's file holds a digest of every other one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.privacy.sealing import seal

__all__ = ["bind_file", "bind_files", "check_files"]

FILES = "files"


def bind_files(facts: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the facts with the SHA-256 digests of all files that are in the folder so far."""
    return _bind(facts, sorted(path for path in folder.iterdir() if path.is_file()))


def bind_file(facts: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the facts with the digest of a single file, which stands outside of the release."""
    return _bind(facts, [path])


def _bind(facts: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    return seal({**facts, FILES: {path.name: _digest(path) for path in paths}})


def check_files(facts: Mapping[str, Any], folder: Path, *, needed: str) -> None:
    """Refuse a folder in which a file is no longer the one that was bound.

    A file that is missing altogether may be: a model can be passed on without its report. The needed one may not.
    """
    bound = facts.get(FILES)
    if not isinstance(bound, dict) or "digest" not in facts:
        raise InputError(
            f"{folder} has no digests of its files, so nothing ties the model to the guarantee. It was written by an "
            "early version, or changed: release again. Model and guarantee alone can be read with load_model and "
            "Guarantee.from_json."
        )
    if needed not in bound:
        raise InputError(f"the guarantee in {folder} does not speak of {needed}. Get the release again.")
    if not (folder / needed).is_file():
        raise InputError(f"file not found: {folder / needed}. Get the release again.")
    for name, digest in bound.items():
        path = folder / name
        if Path(name).name != name:
            raise InputError(f"{folder} names files outside of itself. It was not written by this program.")
        if path.is_file() and _digest(path) != digest:
            raise InputError(f"{path} is not the file that was released: it was changed or exchanged. Get it again.")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
