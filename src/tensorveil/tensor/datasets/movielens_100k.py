"""MovieLens 100K: u.data and its canonical splits, tab separated, from the folder or the archive."""

from __future__ import annotations

import numpy as np

from tensorveil.tensor.datasets.entry import Entry, choose
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.datasets.rows import parse_rows, ratings_tensor
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

SPLITS = ("ua", "ub", "u1", "u2", "u3", "u4", "u5")
PARTS = ("all", *(f"{split}.{half}" for split in SPLITS for half in ("base", "test")))


def load(source: Source, part: str = "all", time: str | int | None = None) -> ObservedTensor:
    """Read the ratings of one part; users, films and times are numbered over the whole of u.data."""
    choose("part", part, PARTS)
    everything = parse_rows(source.read_bytes(), b"\t")
    rows = everything if part == "all" else parse_rows(source.read_bytes(part), b"\t")
    modes = (Mode("user", np.unique(everything[0])), Mode("film", np.unique(everything[1])))
    return ratings_tensor(rows, modes, (1.0, 5.0), time, everything[3])


ENTRY = Entry(
    name="ml-100k",
    description="MovieLens 100K: 943 users x 1,682 films (x day), 100,000 ratings 1-5; part='ua.base', ...",
    licence="research use, no redistribution without permission, no commercial use without permission",
    citation="Harper & Konstan, The MovieLens Datasets, ACM TiiS 5(4), 2015, doi 10.1145/2827872",
    places=(
        Place(path="ml-100k/u.data"),
        Place(path="ml-100k/ml-100k.zip", inside="ml-100k/u.data"),
        Place(path="ml-100k.zip", inside="ml-100k/u.data"),
    ),
    load=load,
    home="https://grouplens.org/datasets/movielens/100k/",
)
