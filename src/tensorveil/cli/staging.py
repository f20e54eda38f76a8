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
OUR_FILES = ("model.npz", "*-model.npz", "filled.parquet", "filled.csv", "summary.json", "*.png")


def check_target(target: Path, *, force: bool) -> None:
    """Refuse a target that exists, before any work is done."""
    if not target.parent.is_dir():
        raise InputError(f"--output: the folder {target.parent} does not exist. Make it first.")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"--output: {target} exists and is not a folder. Choose another name.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not force:
        raise InputError(f"--output: {target} already exists. Choose another folder, or add --force to replace it.")
    foreign = [path for path in target.iterdir() if not _is_ours(path)]
    if foreign:
        raise InputError(
            f"--output: {target} holds other files too; --force does not remove those. Choose another folder."
        )


def _is_ours(path: Path) -> bool:
    return path.is_file() and any(fnmatch.fnmatch(path.name, pattern) for pattern in OUR_FILES)


@contextlib.contextmanager
def staged_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """Give a folder to write into, which becomes ``target`` if nothing fails."""
    target = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow links
    check_target(target, force=force)
    # Beside the target: only within one file system is a rename atomic.
    staging = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    staging.mkdir()
    try:
        yield staging
        check_target(target, force=force)
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
