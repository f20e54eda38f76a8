"""The arrays of an HDF5 file, to stdout: run as a process of its own, which may die of the file.

The library that parses HDF5 has holes that crafted files reach, and not every release of it in wheels is mended. So the
file is opened where nothing else is: this process may open few files, write none, and take no more time than a file of
that size can need. It imports nothing of ours. `hdf5.py` starts it, and believes nothing that it says.

    python -P hdf5_reader.py PATH MOST_BYTES

It answers with a line of JSON: {"refused": WHY}, or {"arrays": {NAME: [KIND, SHAPE] or null}}, after which the numbers
of all arrays follow in this order.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

DENSEST: Final = 1040  # bytes that a stored byte can stand for, as compression has it
ELSEWHERE, DAMAGED, LARGE = "elsewhere", "damaged", "large"


class RefusedFileError(Exception):
    """The file is not read; the text is one of the three words why."""


def write_arrays(path: str, most: int, out: BinaryIO) -> None:
    """Write all arrays of a file; raise before the first byte if one of them is refused."""
    import h5py
    import numpy as np

    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(path, "r"))
            found = {name: _find_array(file, name) for name in file}
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, UnicodeError):
            raise RefusedFileError(DAMAGED) from None
        arrays = {name: item for name, item in found.items() if item is not False}
        if 3 * sum(item.nbytes for item in arrays.values() if item is not None) > most:
            raise RefusedFileError(LARGE)
        facts = {name: None if item is None else [item.dtype.str, item.shape] for name, item in arrays.items()}
        out.write(json.dumps({"arrays": facts}).encode() + b"\n")
        for item in arrays.values():
            if item is not None and item.nbytes:
                out.write(np.ascontiguousarray(item).data)


def _find_array(file: Any, name: str) -> Any:
    """Return a data set of numbers, None for other data sets, False for what is none."""
    import h5py

    # Links may lead into other files, which were not asked for.
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise RefusedFileError(ELSEWHERE)
    item = file[name]
    if not isinstance(item, h5py.Dataset):
        return False
    if item.external or item.is_virtual:
        raise RefusedFileError(ELSEWHERE)
    if item.shape is None or item.dtype.kind not in "iufb" or item.dtype.names is not None:
        return None
    if item.nbytes > DENSEST * max(item.id.get_storage_size(), 1):
        raise RefusedFileError(DAMAGED)
    return item


def _limit_this_process(path: str) -> None:
    """Allow no files to be written, and not much time."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        seconds = 30 + Path(path).stat().st_size // 1_000_000
        for what, most in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds)):
            resource.setrlimit(what, (most, most))


def main(path: str, most: int) -> None:
    """Answer for one file."""
    out = sys.stdout.buffer
    import h5py  # noqa: F401  before anything is limited

    _limit_this_process(path)
    try:
        write_arrays(path, most, out)
    except RefusedFileError as refused:
        out.write(json.dumps({"refused": str(refused)}).encode() + b"\n")
    out.flush()
    os._exit(0)  # what the file has done to this process is not to be tidied up


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
