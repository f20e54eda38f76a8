"""HDF5 files, as MATLAB 7.3 writes them: read in a process of their own, which may die of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, MissingDependencyError, TensorveilError
from tensorveil.memory import check_file_memory, file_too_large, memory_limit
from tensorveil.tensor.files import hdf5_reader
from tensorveil.tensor.files.mat_elements import NOT_NUMERIC, Variables

LONGEST_LINE: Final = 1 << 24


def read_hdf5(path: Path) -> Variables:
    """Return all numeric arrays of the file, in MATLAB's axis order, and the names of what else it holds."""
    if find_spec("h5py") is None:
        raise MissingDependencyError(
            'MATLAB 7.3 files need h5py, which is not installed. Run: pip install "tensorveil[matlab]"'
        )
    with start_reader(path) as answer:
        try:
            facts = json.loads(answer.readline(LONGEST_LINE))
            if "refused" not in facts:
                return _take_arrays(facts["arrays"], answer)
        except TensorveilError:
            raise
        except Exception:  # the reader has died, or says what none would say
            facts = {}
    raise _refuse(facts.get("refused"))


@contextmanager
def start_reader(path: Path) -> Iterator[IO[bytes]]:
    """Start a reader of a file, and end it; what it says can be anything, if the file has taken it over."""
    words = [sys.executable, "-P", hdf5_reader.__file__, str(path), str(memory_limit())]
    places = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **places}
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def _take_arrays(facts: Mapping[str, Any], answer: IO[bytes]) -> Variables:
    """Read the arrays that were announced, as large as they were announced."""
    wanted = {name: None if fact is None else _describe(*fact) for name, fact in facts.items()}
    check_file_memory(3 * sum(math.prod(item[1]) * item[0].itemsize for item in wanted.values() if item is not None))
    return {name: NOT_NUMERIC if item is None else _take_array(*item, answer) for name, item in wanted.items()}


def _describe(kind: Any, shape: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the kind and the shape of an array of numbers; nothing else is taken."""
    found = np.dtype(kind)
    if found.kind not in "iufb":
        raise ValueError("not numbers")
    return found, tuple(int(size) for size in shape)


def _take_array(kind: np.dtype[Any], shape: tuple[int, ...], answer: IO[bytes]) -> NDArray[Any]:
    array = np.empty(shape, kind)
    if array.nbytes:
        content = answer.read(array.nbytes)
        if len(content) != array.nbytes:
            raise ValueError("the reader has died")
        array = np.frombuffer(bytearray(content), kind).reshape(shape)
    return array.T


def _refuse(why: Any) -> InputError:
    if why == hdf5_reader.ELSEWHERE:
        return InputError("path must hold its data itself; this file takes them from others. Copy what you need.")
    if why == hdf5_reader.LARGE:
        return file_too_large()
    return InputError("path must be a readable MATLAB .mat file. The file is damaged or has another format.")
