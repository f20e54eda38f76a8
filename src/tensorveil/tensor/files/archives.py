"""Zip archives of NumPy arrays, read without trusting them: sizes are compared before anything is allocated.

What an archive of ours holds is listed in it, with digests: damage to names and tables of the archive, which its own
checksums do not cover, is found too.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory

__all__ = ["check_members", "list_members", "open_archive", "read_bytes", "read_json", "read_member"]

MAGIC: Final = b"PK\x03\x04"
_DEFLATE: Final = 1040  # no compressed byte stands for more
_KINDS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_LIST, _HEADER = "members", ""  # where a header lists digests, and under which name its own


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open an archive; refuse one that could not be what it says, or would not fit into memory."""
    check_file_memory(path.stat().st_size)  # of which the table of contents may claim any part
    archive = zipfile.ZipFile(path)
    try:
        members = archive.infolist()
        names = [member.filename for member in members]
        if len(set(names)) != len(names):
            raise ValueError("a name occurs twice")
        for member in members:
            if member.compress_type not in _KINDS or member.flag_bits & _ENCRYPTED:
                raise ValueError("a member is encrypted, or compressed in a way that is not used here")
            if member.file_size > _DEFLATE * max(member.compress_size, 1):
                raise ValueError("a member cannot be as long as it says")
        check_file_memory(2 * sum(member.file_size for member in members))
    except BaseException:
        archive.close()
        raise
    return archive


def read_bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a whole member, which checks its checksum."""
    return archive.read(name)


def read_json(archive: zipfile.ZipFile, name: str) -> Any:
    """Read a member that is JSON."""
    try:
        return json.loads(archive.read(name))
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None


def read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array; one whose header does not fit the bytes that follow is refused, and so are pickled objects."""
    with archive.open(name) as member:
        shape, fortran, kind = _read_header(member)
        content = member.read()  # to the end, which checks the checksum
    if kind.hasobject or any(not isinstance(size, int) or size < 0 for size in shape):
        raise ValueError("the array holds objects, or has no valid shape")
    if math.prod(shape) * kind.itemsize != len(content):
        raise ValueError("the array is not as long as it says")
    array = np.frombuffer(content, kind) if kind.itemsize else np.empty(math.prod(shape), kind)
    return np.array(array.reshape(shape, order="F" if fortran else "C"))


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(member)
    raise ValueError("a version of the format that is not used here")


def list_members(facts: Mapping[str, Any], contents: Mapping[str, bytes | NDArray[Any]]) -> dict[str, Any]:
    """Return the facts of an archive's header with a digest of every member, and of the header itself."""
    own = {_HEADER: _digest(_plain(facts))}
    return {**facts, _LIST: own | {name: _digest(content) for name, content in contents.items()}}


def check_members(facts: Mapping[str, Any], contents: Mapping[str, bytes | NDArray[Any]], names: Iterable[str]) -> None:
    """Refuse an archive that does not hold exactly what its header lists, or something else under the same name.

    ``names`` are all that the archive holds beside its header, and ``contents`` what was read of them. Files of an
    early version list nothing.
    """
    if _LIST not in facts:
        return
    listed, own = facts[_LIST], {name: fact for name, fact in facts.items() if name != _LIST}
    if not isinstance(listed, dict) or set(listed) != {_HEADER, *names} or {_HEADER, *contents} != set(listed):
        raise InputError("path holds other parts than it lists: the file is damaged, or was changed. Get it again.")
    known = {_HEADER: _plain(own), **contents}
    if any(_digest(content) != listed[name] for name, content in known.items()):
        raise InputError("path holds parts that were changed since they were written. Get the file again.")


def _plain(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True).encode()


def _digest(content: bytes | NDArray[Any]) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    found = hashlib.sha256(f"{content.dtype.str} {list(content.shape)} ".encode())
    if content.size and content.dtype.itemsize:
        found.update(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
