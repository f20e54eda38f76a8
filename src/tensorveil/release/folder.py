"""Result folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from tensorveil.errors import InputError

# What the verbs write; --force replaces a folder only if it holds nothing else.
OUR_FILES = ("model.npz", "*-model.npz", "filled.parquet", "filled.csv", "report.html", "summary.json", "*.png")


def check_target(target: Path, *, force: bool, ours: tuple[str, ...] = OUR_FILES) -> None:
    """Refuse a target that exists, before any work is done; ``ours`` are patterns of files that may be replaced."""
    if not target.parent.is_dir():
        raise InputError(f"--output: the folder {target.parent} does not exist. Make it first.")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"--output: {target} exists and is not a folder. Choose another name.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not force:
        raise InputError(f"--output: {target} already exists. Choose another folder, or add --force to replace it.")
    if not all(_is_ours(path.relative_to(target), path, ours) for path in target.rglob("*")):
        raise InputError(
            f"--output: {target} holds other files too; --force does not remove those. Choose another folder."
        )


def _is_ours(name: Path, path: Path, ours: tuple[str, ...]) -> bool:
    """Tell whether a file, or the beginning of its path, is one that the verb writes."""
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return False
    patterns = [pattern.split("/") for pattern in ours]
    if path.is_dir():
        patterns = [parts[: len(name.parts)] for parts in patterns if len(parts) > len(name.parts)]
    return any(len(parts) == len(name.parts) and all(map(fnmatch.fnmatch, name.parts, parts)) for parts in patterns)


@contextlib.contextmanager
def staged_folder(target: Path, *, force: bool, ours: tuple[str, ...] = OUR_FILES) -> Iterator[Path]:
    """Give a folder to write into, which becomes ``target`` if nothing fails."""
    target = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow links
    check_target(target, force=force, ours=ours)
    # Beside the target: only within one file system is a rename atomic.
    staging = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    staging.mkdir()
    try:
        yield staging
        check_target(target, force=force, ours=ours)
        _swap(staging, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _swap(staging: Path, target: Path) -> None:
    """Move the finished folder into place, keeping the old one until that has worked."""
    if not target.exists():
        staging.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(6)}.old")
    target.rename(old)
    try:
        staging.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
