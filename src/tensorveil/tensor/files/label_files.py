"""Public lists of labels in files: a column of a table, an array in JSON, or one label per line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory
from tensorveil.tensor.files.dialect import decode_text
from tensorveil.tensor.files.formats import formats, read_guarded, read_table
from tensorveil.tensor.modes import is_near

__all__ = ["read_labels"]

# What the only column of a list may be called, besides its mode: another first line could be a label.
_NAMES = {"code", "codes", "id", "ids", "index", "item", "items", "key", "keys", "label", "labels", "name", "names",
          "number", "title", "titles"}  # fmt: skip


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
    if found and isinstance(found[0], str) and found[0].strip().casefold() == mode.casefold():
        raise InputError(f"labels: the first label in {path.name} is the name of mode {mode!r}. Take it off the list.")
    return _as_numbers(found) if all(isinstance(label, str) for label in found) else found


def _is_table(path: Path) -> bool:
    return any(
        path.name.lower().endswith(ending) for each in formats().values() if each.is_table for ending in each.endings
    )


def _read_column(path: Path, column: str | None, mode: str) -> list[Any]:
    names = read_table(path).column_names
    if column is None and len(names) == 1:
        column = names[0]
        if path.suffix.lower() != ".parquet" and not _is_name(column, mode):
            raise InputError(
                f"labels: the first line of {path.name}, {column!r}, could be a label or the name of the column. If it "
                f"is a name, say so: labels={mode}={path.name}:{column}. If it is a label, write {mode!r} above it, or "
                "call the file .txt: there every line is a label."
            )
    if column is None or column not in names:
        wrong = "has several columns" if column is None else f"has no column {column!r}"
        raise InputError(
            f"labels: {path.name} {wrong}; it has {', '.join(map(repr, names))}. Name the one that holds the labels: "
            f"labels={mode}={path.name}:{names[0]}."
        )
    found: list[Any] = read_table(path, text=[column]).column(column).to_pylist()
    return found


def _is_name(header: str, mode: str) -> bool:
    """Tell whether the only column of a list is called as columns are.

    >>> _is_name("film_id", "film"), _is_name("Films", "film"), _is_name("Alien", "film"), _is_name("101", "film")
    (True, True, False, False)
    """
    words = {*re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", header).casefold())}
    return bool(words & (_NAMES | {mode.casefold()})) or is_near(header, [mode])


def _read_lines(path: Path, column: str | None) -> list[Any]:
    if column is not None:
        raise InputError(f"labels: {path.name} is no table, and has no columns. Give a CSV, TSV or Parquet file.")
    check_file_memory(2 * path.stat().st_size)
    text: str = read_guarded(lambda: decode_text(path.read_bytes()), "a list with one label per line", path.name)
    if text.lstrip("\ufeff \t\r\n").startswith("[") and text.rstrip().endswith("]"):
        return _read_array(text.strip("\ufeff"), path)
    return [line for line in text.split("\n") if line.strip()]


def _read_array(text: str, path: Path) -> list[Any]:
    """Return the labels of an array in JSON; of lines in brackets, that are none, the lines."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        if path.suffix.lower() != ".json":
            return [line for line in text.split("\n") if line.strip()]
        found = None
    if not isinstance(found, list) or not all(type(label) in (str, int) for label in found):
        raise InputError(
            f"labels: {path.name} must hold one array of texts or of whole numbers to be read as JSON. Write one label "
            "per line into a file that ends in .txt."
        )
    if len({type(label) for label in found}) > 1:
        raise InputError(f"labels: {path.name} holds texts and numbers. Write all labels as texts, or all as numbers.")
    return found


def _as_numbers(labels: list[str]) -> list[Any]:
    """Return labels as whole numbers if that is how all of them are written."""
    plain = [label.strip() for label in labels]
    if all(label.isascii() and label.removeprefix("-").isdigit() and len(label) < 19 for label in plain):
        numbers = [int(label) for label in plain]
        if [str(number) for number in numbers] == plain:
            return numbers
    return list(labels)
