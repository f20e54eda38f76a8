"""Public lists of labels in files: a table with one column, or with a column that is named; else one label per line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory
from tensorveil.tensor.files.dialect import decode_text
from tensorveil.tensor.files.formats import formats, read_guarded, read_table

__all__ = ["read_labels"]


def read_labels(place: str, mode: str) -> list[Any]:
    """Read the list of labels in a file, ``films.csv``, or in a column of it, ``films.csv:title``.

    Labels of text files that are all whole numbers become numbers.
    """
    path, column = Path(place), None
    if not path.is_file():
        name, colon, column = place.rpartition(":")
        if not colon or not Path(name).is_file():
            raise InputError(f"labels: file not found: {place}. Try labels={mode}=list.csv or {mode}=list.csv:column.")
        path = Path(name)
    found = _read_column(path, column, mode) if _is_table(path) else _read_lines(path, column)
    return _as_numbers(found) if all(isinstance(label, str) for label in found) else found


def _is_table(path: Path) -> bool:
    return any(
        path.name.lower().endswith(ending) for each in formats().values() if each.is_table for ending in each.endings
    )


def _read_column(path: Path, column: str | None, mode: str) -> list[Any]:
    names = read_table(path).column_names
    if column is None and len(names) == 1:
        column = names[0]
    if column is None or column not in names:
        wrong = "has several columns" if column is None else f"has no column {column!r}"
        raise InputError(
            f"labels: {path.name} {wrong}; it has {', '.join(map(repr, names))}. Name the one that holds the labels: "
            f"labels={mode}={path.name}:{names[0]}."
        )
    found: list[Any] = read_table(path, text=[column]).column(column).to_pylist()
    return found


def _read_lines(path: Path, column: str | None) -> list[str]:
    if column is not None:
        raise InputError(f"labels: {path.name} is no table, and has no columns. Give a CSV, TSV or Parquet file.")
    check_file_memory(2 * path.stat().st_size)
    text: str = read_guarded(lambda: decode_text(path.read_bytes()), "a list with one label per line", path.name)
    return [line for line in text.split("\n") if line.strip()]


def _as_numbers(labels: list[str]) -> list[Any]:
    """Return labels as whole numbers if that is how all of them are written."""
    plain = [label.strip() for label in labels]
    if all(label.isascii() and label.removeprefix("-").isdigit() and len(label) < 19 for label in plain):
        numbers = [int(label) for label in plain]
        if [str(number) for number in numbers] == plain:
            return numbers
    return list(labels)
