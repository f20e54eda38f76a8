"""Files that appear complete or not at all, and that nobody can read who could not read what they replace."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tensorveil.errors import InputError
from tensorveil.tensor.files.renaming import hold_lock, is_held

__all__ = ["name_beside", "neighbours", "new_file", "replace_file"]

LONGEST: Final = 200  # bytes of a name; longer ones leave no room for what is added to them


@contextmanager
def replace_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a new, empty file in the same folder that becomes `path` if the block ends without an error.

    A file that is replaced leaves its permissions to the new one, from the first byte on. A new one that is ``private``
    can be read by its owner alone.
    """
    temporary = name_beside(path, "tmp")
    known = 0o600 if private else _permissions(path)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if known is None else 0o600))
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if known is not None:
            with suppress(OSError):  # a file system without permissions
                temporary.chmod(known)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a new, empty file as `replace_file` does, which never takes the place of another one.

    While the block runs no other run can begin to write this file.
    """
    temporary = name_beside(path, "tmp")
    try:
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error.strerror}). Choose another place.") from None
        with hold_lock(temporary):
            if any(is_held(other) for other in neighbours(path, "tmp") if other != temporary):
                raise InputError(f"another run is writing {path}. Wait for it, or choose another name.")
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            if os.path.lexists(path):
                raise InputError(f"{path} exists by now. Choose another name.")
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def name_beside(path: Path, ending: str) -> Path:
    """Return a hidden name in the same folder that no other file has; renaming is atomic only within a file system.

    Names that are no text are refused here, before anything is made or charged for them: some libraries cannot open
    such files, and nothing can print their names.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise InputError("names of files and folders to write must be text in UTF-8. Choose another name.") from None
    return path.with_name(f"{_stem(path)}{secrets.token_hex(8)}.{ending}")


def neighbours(path: Path, *endings: str) -> list[Path]:
    """Return what is there under names that `name_beside` gives, whoever made it."""
    stem, beside = _stem(path), []
    with suppress(OSError):  # a folder that cannot be listed may still be written to
        beside = list(path.parent.iterdir())
    token = re.compile(rf"{re.escape(stem)}[0-9a-f]{{16}}\.({'|'.join(endings)})")
    return sorted(found for found in beside if token.fullmatch(found.name))


def _stem(path: Path) -> str:
    name = path.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return f".{name}."


def _permissions(path: Path) -> int | None:
    """Return the permissions of a file that is there already."""
    with suppress(OSError):
        found = path.lstat()
        return stat.S_IMODE(found.st_mode) & 0o777 if stat.S_ISREG(found.st_mode) else None
    return None
