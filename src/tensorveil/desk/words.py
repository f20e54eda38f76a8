"""Messages in the words of the page: the library says bounds=(1, 5), whoever fills in the page sees two fields."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["in_page_words"]

# What the page has a field for.
PHRASES: Final = {
    "the tensor has more cells than max_cells. Name the cells you want with at=FILE, raise max_cells, or write the "
    "model alone with filling=None.": "there are more cells than the desk fills in. Leave the filled cells out; the "
    "model in the release predicts those that are wanted. If a column of moments is a mode, put it into bins.",
    "Remove one, or pass duplicates='mean' (or sum, first, last) to merge them.": "Remove one, or choose above what "
    "becomes of a cell with several values.",
    "or pass missing='drop' to leave them out": "or take those rows out of the file",
    "labels={'film': films}": "a file with one label per line",
    "add indices=True": "tick the box for numbers from 0",
    "Name the value column with value=..., or": "Choose another column as the value, or",
    "with accept_delta=True": "in the shell, with --accept-delta",
}
_PAIR = re.compile(r"bounds=\(([^,()]+), ([^()]+)\)")
_LIST = re.compile(r"labels=\{'?(\w+)'?: ?\w+\}")
_SIZE = re.compile(r"shape=\{'(\w+)': (\d+)\}")
_BIN = re.compile(r"bins=\{'(\w+)': \('\w+', '([^']*)', '([^']*)'\)\}")
_NUMBER = re.compile(r"\b(epsilon|delta|rank)=(-?\d+(?:\.\d+)?(?:e-?\d+)?)")
_UNIT = re.compile(r"""unit=["'](value|entry|slice)(?::\w+)?["']""")
_UNITS: Final = {"value": "single values", "entry": "single entries", "slice": "all that one person did"}
# What the page has no field for.
_OPTION = re.compile(
    r"\b(delimiter|decimal|duplicates|encoding|format|max_memory|missing|modes|out_of_bounds|unlisted|value|variable)="
    r"(?:\.\.\.|['\"]([^'\"]*)['\"]|([^\s'\"]+))"
)
_IN_THE_SHELL: Final = " What begins with -- is an option of the command: tensorveil complete."


def in_page_words(message: str) -> str:
    """Rewrite settings of the library as fields of the page; what the page has no field for, as options of the command.

    >>> in_page_words("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    'bounds must be two finite numbers, the lower one first. Try 1 and 5.'
    """
    for words, ours in PHRASES.items():
        message = message.replace(words, ours)
    message = _PAIR.sub(r"\1 and \2", message)
    message = _LIST.sub(r"a public list of '\1'", message)
    message = _SIZE.sub(r"at most \2 of '\1'", message)
    message = _BIN.sub(r"bins of '\1' from \2 to \3", message)
    message = _NUMBER.sub(r"\1 \2", message)
    message = _UNIT.sub(lambda found: f'"{_UNITS[found[1]]}"', message)
    rest = _OPTION.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2] or found[3] or ''}".rstrip(), message)
    return message if rest == message else rest + _IN_THE_SHELL
