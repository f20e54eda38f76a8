"""MovieLens 10M: the official ratings.dat."""

from __future__ import annotations

import numpy as np

from tensorveil.tensor.datasets.entry import Entry
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.datasets.rows import parse_rows, ratings_tensor
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor


def load(source: Source, time: str | int | None = None) -> ObservedTensor:
    """Read all ratings, users x films that were rated."""
    rows = parse_rows(source.read_bytes(), b"::")
    modes = (Mode("user", np.unique(rows[0])), Mode("film", np.unique(rows[1])))
    return ratings_tensor(rows, modes, (0.5, 5.0), time, rows[3])


ENTRY = Entry(
    name="ml-10m",
    description="MovieLens 10M: 69,878 users x 10,677 films (x day), 10,000,054 ratings 0.5-5",
    licence="research use, no redistribution without permission, no commercial use without permission",
    citation="Harper & Konstan, The MovieLens Datasets, ACM TiiS 5(4), 2015, doi 10.1145/2827872",
    places=(
        Place(path="ml-10m/ratings.dat"),
        Place(path="ml-10M100K/ratings.dat"),
        Place(path="ml-10m/ml-10m.zip", inside="ml-10M100K/ratings.dat"),
        Place(path="ml-10m.zip", inside="ml-10M100K/ratings.dat"),
    ),
    load=load,
    home="https://grouplens.org/datasets/movielens/10m/",
)
