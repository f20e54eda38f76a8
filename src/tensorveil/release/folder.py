"""Folders that appear whole, on the disk, or not at all: the one way in which anything here writes a folder."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorveil.errors import InputError

__all__ = ["check_folder", "write_folder"]


def check_folder(target: str | os.PathLike[str], *, ours: Sequence[str] = (), force: bool = False) -> None:
    """Refuse a folder that cannot be written, before any work is done for it. An empty folder can.

    Parameters
    ----------
    target
        The folder to make; the one above it must exist.
    ours
        Patterns of the files that an earlier run may have left in the folder, such as ``"*.png"`` or ``"inner/*.npz"``.
        None, the default, for folders that are never overwritten: releases and diagnostics.
    force
        Whether a folder that holds nothing but ``ours`` may be replaced.
    """
    place = _absolute(target)
    if not place.parent.is_dir():
        raise InputError(f"folder: {place.parent} does not exist. Make it first.")
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise InputError(f"folder: {target} already exists and is not a folder. Choose another name.")
    if not place.exists() or not any(place.iterdir()):
        return
    if not ours:
        raise InputError(f"folder: {target} already exists, and releases are never overwritten. Choose another name.")
    if not force:
        raise InputError(f"folder: {target} already exists. Choose another name, or add force=True to replace it.")
    if not all(_is_ours(path.relative_to(place), path, ours) for path in place.rglob("*")):
        raise InputError(
            f"folder: {target} holds other files too; force=True does not remove those. Choose another name."
        )


@contextlib.contextmanager
def write_folder(target: str | os.PathLike[str], *, ours: Sequence[str] = (), force: bool = False) -> Iterator[Path]:
    """Yield a folder to write into, which becomes ``target`` if nothing fails; parameters as for `check_folder`."""
    place = _absolute(target)
    check_folder(place, ours=ours, force=force)
    # Beside the target, because a rename is atomic only within one file system.
    staging = place.with_name(f".{place.name}.{secrets.token_hex(6)}.part")
    staging.mkdir()
    try:
        yield staging
        for path in (*staging.rglob("*"), staging):
            _flush(path)
        check_folder(place, ours=ours, force=force)
        _move(staging, place, replace=force)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _flush(place.parent)


def _absolute(target: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow links


def _is_ours(name: Path, path: Path, ours: Sequence[str]) -> bool:
    """Tell whether a path is a file of ours, or a folder that one of our files lies in."""
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return False
    patterns = [pattern.split("/") for pattern in ours]
    if path.is_dir():
        patterns = [parts[: len(name.parts)] for parts in patterns if len(parts) > len(name.parts)]
    return any(len(parts) == len(name.parts) and all(map(fnmatch.fnmatch, name.parts, parts)) for parts in patterns)


def _flush(path: Path) -> None:
    """Write a file, or the names in a folder, through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(staging: Path, target: Path, *, replace: bool) -> None:
    """Move the finished folder into place; one that is replaced is kept until that has worked."""
    if not replace or not target.exists():
        staging.rename(target)  # fails if another process has put files there meanwhile
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(6)}.old")
    target.rename(old)
    try:
        staging.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
