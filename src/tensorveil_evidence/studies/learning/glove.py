"""The text model of Yuan et al.: reviews as numbers of GloVe's words, and a BiLSTM that reads its vectors.

Words and vectors are public, and the vectors stay as they are: they are no parameters, are not shared and get no noise.
The data folder holds the 25,000 most common words with 100 numbers each; other words count as padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tensorveil.errors import DataNotFoundError
from tensorveil.learning import Network, Samples
from tensorveil.learning.loaders import Parts, imdb, load_samples
from tensorveil.tensor.datasets.places import VARIABLE, data_folder

PLACE: Final = ("glove-100d-25k", "glove_100d_25k.npz")
NO_VECTORS = (
    f"GloVe's vectors are expected at {'/'.join(PLACE)} in the data folder. Put the file there, and set {VARIABLE}."
)


def find_vectors() -> Path | None:
    """Return the place of the vectors in the data folder, if they are there."""
    folder = data_folder(None)
    path = None if folder is None else folder.joinpath(*PLACE)
    return path if path is not None and path.is_file() else None


def explain_missing() -> str | None:
    """Say what is missing; None if nothing is."""
    return NO_VECTORS if find_vectors() is None else None


@cache
def read_vectors() -> tuple[dict[str, int], NDArray[np.float32]]:
    """Return the number of every word, from 1, and the vectors by number; that of padding, 0, is zero."""
    path = find_vectors()
    if path is None:
        raise DataNotFoundError(NO_VECTORS)
    with np.load(path, allow_pickle=False) as content:
        words, vectors = content["words"], content["vectors"]
    numbers = {str(word): number for number, word in enumerate(words, start=1)}
    return numbers, np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors.astype(np.float32)])


@cache
def read_reviews() -> Parts:
    """Read IMDB twice over: x[:, 0] are hashed words, as `load_samples` has them, and x[:, 1] GloVe's."""
    numbers, _ = read_vectors()
    hashed, folder = load_samples("imdb"), data_folder(None)
    assert folder is not None  # the vectors were there
    known = imdb.read(folder / "imdb", lambda word: numbers.get(word, 0), len(numbers) + 1)
    train, test = (
        Samples(x=np.stack([one.x, other.x], axis=1), y=one.y, classes=2)
        for one, other in ((hashed.train, known.train), (hashed.test, known.test))
    )
    return Parts(train=train, test=test, bounds=(0.0, float(len(numbers))))


class _Vectors(nn.Module):
    """An embedding that is not learnt."""

    table: torch.Tensor

    def __init__(self, table: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("table", torch.from_numpy(table), persistent=False)
        self.num_embeddings = len(table)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.table[words]


@dataclass(frozen=True, kw_only=True, eq=False)
class GloveNetwork:
    """A BiLSTM over fixed vectors; made from a seed like any `Network`."""

    vectors: Any
    hidden: int
    layers: int
    dropout: float = 0.3

    def make(self, seed: int) -> nn.Module:
        """Make the torch network with the starting weights of a public seed."""
        sizes = {"words": 1, "classes": 2, "embedding": self.vectors.shape[1], "hidden": self.hidden}
        made = Network(kind="bilstm", sizes={**sizes, "layers": self.layers, "dropout": self.dropout}).make(seed)
        made.embedding = _Vectors(self.vectors)
        return made
