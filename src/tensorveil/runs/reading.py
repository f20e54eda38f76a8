"""Tensor files, read as the options say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorveil.tensor import ObservedTensor


def read_tensor(
    path: str,
    *,
    modes: Sequence[str] | None,
    value: str | None,
    file_format: str | None,
    indices: bool,
    no_header: bool,
    variable: str | None,
    **options: Any,
) -> ObservedTensor:
    """Read a tensor file; options that were not given are left to the reader."""
    from tensorveil.tensor import read

    given: dict[str, Any] = {"modes": modes, "value": value, "format": file_format, "variable": variable}
    given |= {"labels": False if indices else None, "header": False if no_header else None}
    return read(path, **{name: setting for name, setting in (given | options).items() if setting is not None})
