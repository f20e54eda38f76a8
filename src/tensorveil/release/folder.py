"""Folders that appear whole, on the disk, or not at all: the one way in which anything here writes a folder."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import random
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorveil.errors import InputError
from tensorveil.tensor.files.atomic import name_beside, neighbours
from tensorveil.tensor.files.renaming import exchange_names, hold_lock, is_held

__all__ = ["check_folder", "find_leftovers", "write_folder"]

STAGED, REPLACED = "part", "old"
ATTEMPTS = 6


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
    try:
        place.lstat()
    except FileNotFoundError:
        _put_back(place)
    except OSError as error:
        raise InputError(f"folder: {target} cannot be used ({error.strerror}). Choose another name.") from None
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
def write_folder(
    target: str | os.PathLike[str], *, ours: Sequence[str] = (), force: bool = False, private: bool = False
) -> Iterator[Path]:
    """Yield a folder to write into, which becomes ``target`` if nothing fails; parameters as for `check_folder`.

    While the block runs nobody else can write this target, so what is entered here can be finished: the place is
    there, may be written to, and is reserved. With ``private`` only the owner can read what is written.
    """
    place = _absolute(target)
    check_folder(place, ours=ours, force=force)
    with _reserve(place, private=private) as staging:
        try:
            yield staging
            if private:
                _close_to_others(staging)
            for path in (*staging.rglob("*"), staging):
                _flush(path)
            check_folder(place, ours=ours, force=force)
            _move(staging, place, replace=force, private=private)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    _flush(place.parent)


def find_leftovers(target: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Return what runs that were killed have left beside a folder: hidden folders that nobody is writing any more."""
    place = _absolute(target)
    return tuple(path for path in _neighbours(place, STAGED, REPLACED) if not is_held(path))


@contextlib.contextmanager
def _reserve(place: Path, *, private: bool) -> Iterator[Path]:
    """Make the folder to write into, and hold it, so that other runs can tell it from what was left behind."""
    # Beside the target, because a rename is atomic only within one file system.
    staging = name_beside(place, STAGED)
    for attempt in range(ATTEMPTS):
        try:
            staging.mkdir(mode=0o700 if private else 0o777)
        except OSError as error:
            raise InputError(f"folder: {place} cannot be made ({error.strerror}). Choose another place.") from None
        with hold_lock(staging):
            if not any(is_held(path) for path in _neighbours(place, STAGED) if path != staging):
                yield staging
                return
            staging.rmdir()
        # Two that came at the same moment both step back; the one that returns first goes on.
        if attempt + 1 < ATTEMPTS:
            time.sleep(random.uniform(0.02, 0.2))
    raise InputError(f"folder: another run is writing {place}. Wait for it, or choose another name.")


def _neighbours(place: Path, *endings: str) -> list[Path]:
    return [path for path in neighbours(place, *endings) if path.is_dir() and not path.is_symlink()]


def _put_back(place: Path) -> None:
    """Give an earlier result its name back, where a run was killed while it replaced it."""
    for old in _neighbours(place, REPLACED)[:1]:
        old.rename(place)


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


def _close_to_others(folder: Path) -> None:
    """Leave everything in a folder to its owner alone."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _move(staging: Path, target: Path, *, replace: bool, private: bool) -> None:
    """Move the finished folder into place; one that is replaced goes at the same moment.

    It leaves its permissions to the new one, unless that is private: what was there may have been open to all.
    """
    if not replace or not target.exists():
        staging.rename(target)  # fails if another process has put files there meanwhile
        return
    if not private:
        _keep_permissions(target, staging)
    if exchange_names(staging, target):
        shutil.rmtree(staging, ignore_errors=True)  # the earlier result by now
        return
    old = name_beside(target, REPLACED)
    target.rename(old)
    try:
        staging.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _keep_permissions(old: Path, new: Path) -> None:
    """Let nobody read a new folder, or a file in it, who could not read the one that it replaces."""
    for path in (new, *new.rglob("*")):
        earlier = old / path.relative_to(new)
        if earlier.exists():
            path.chmod(stat.S_IMODE(earlier.stat().st_mode) & 0o777)
