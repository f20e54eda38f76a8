"""What a command says, without what is released and so differs from draw to draw."""

from __future__ import annotations

import re

_MEASURED = re.compile(r"│ measured.*?(?=│ error)", re.DOTALL)
_NOTES = re.compile(r'"notes": \[.*?\]', re.DOTALL)
_ERROR = re.compile(r'RMSE about [^│\n]*|"estimated_rmse": [0-9.e+-]+')


def mask_released(text: str) -> str:
    """Take out errors and notes, and how wide tables are because of them."""
    text = _ERROR.sub("RMSE ", _NOTES.sub('"notes": []', _MEASURED.sub("", text)))
    return re.sub(" +", " ", re.sub("[─┬┴]+", "─", text))
