"""IMDB reviews: the official folders aclImdb/train/pos/*.txt, or one packed CSV with columns split, label and text.

Words become numbers by a public hash, so that no vocabulary is taken from private reviews. 0 is padding.
"""

from __future__ import annotations

import csv
import hashlib
import lzma
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from tensorveil.learning.loaders.parts import Parts, damage_error
from tensorveil.learning.samples import Samples

WORDS = 4096  # possible numbers of words, including 0 for none
LENGTH = 500  # words of a review that are kept, as in Yuan et al.
TOKEN = re.compile(r"[a-z0-9']+|[!?]")


def read(folder: Path, number: Callable[[str], int] | None = None, words: int = WORDS) -> Parts:
    """Read both parts: rows of word numbers, by the public hash or by a public map to numbers below ``words``."""
    packed = folder / "imdb_50k.csv.xz"
    reviews = _from_csv(packed) if packed.is_file() else _from_folders(folder)
    rows: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for part, label, text in reviews:
        rows[part].append(word_numbers(text, number=number))
        labels[part].append(label)
    if not rows["train"] or not rows["test"]:
        raise damage_error(folder)
    train, test = (Samples(x=np.stack(rows[name]), y=np.array(labels[name]), classes=2) for name in ("train", "test"))
    return Parts(train=train, test=test, bounds=(0.0, words - 1.0))


def word_numbers(text: str, length: int = LENGTH, number: Callable[[str], int] | None = None) -> np.ndarray:
    """Return the numbers of a text's first words, padded with 0.

    >>> word_numbers("A good film!", 6).tolist()[4:]
    [0, 0]
    """
    words = TOKEN.findall(text.lower().replace("<br />", " "))[:length]
    out = np.zeros(length, dtype=np.int16)
    out[: len(words)] = [(number or _number)(word) for word in words]
    return out


@lru_cache(maxsize=1 << 17)
def _number(word: str) -> int:
    return 1 + int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "little") % (WORDS - 1)


def _from_csv(path: Path) -> Iterator[tuple[str, int, str]]:
    csv.field_size_limit(min(sys.maxsize, 1 << 24))
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                yield row["split"], int(row["label"]), row["text"]
    except (lzma.LZMAError, EOFError, KeyError, ValueError, csv.Error):
        raise damage_error(path) from None


def _from_folders(folder: Path) -> Iterator[tuple[str, int, str]]:
    for part in ("train", "test"):
        for label, name in enumerate(("neg", "pos")):
            for path in sorted((folder / part / name).glob("*.txt")):
                yield part, label, path.read_text(encoding="utf-8")
