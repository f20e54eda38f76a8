"""MovieLens 1M: the official ratings.dat, or an archive of arrays without times."""

from __future__ import annotations

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor.datasets.entry import Entry
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.datasets.rows import parse_rows, ratings_tensor
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor


def load(source: Source, time: str | int | None = None) -> ObservedTensor:
    """Read all ratings, users x films that were rated."""
    if source.path.suffix == ".npz":
        if time is not None:
            raise InputError("time needs the official ratings.dat; ratings.npz holds no times. Pass time=None.")
        arrays = source.read_arrays("user", "movie", "rating")
        rows = [arrays["user"], arrays["movie"], arrays["rating"], np.empty(0, np.int64)]
    else:
        rows = parse_rows(source.read_bytes(), b"::")
    modes = (Mode("user", np.unique(rows[0])), Mode("film", np.unique(rows[1])))
    return ratings_tensor(rows, modes, (1.0, 5.0), time, rows[3])


ENTRY = Entry(
    name="ml-1m",
    description="MovieLens 1M: 6,040 users x 3,706 films (x day), 1,000,209 ratings 1-5",
    licence="research use, no redistribution without permission, no commercial use without permission",
    citation="Harper & Konstan, The MovieLens Datasets, ACM TiiS 5(4), 2015, doi 10.1145/2827872",
    places=(
        Place(path="ml-1m/ratings.dat"),
        Place(path="ml-1m/ml-1m.zip", inside="ml-1m/ratings.dat"),
        Place(path="ml-1m.zip", inside="ml-1m/ratings.dat"),
        Place(path="ml-1m/ratings.npz"),
    ),
    load=load,
    home="https://grouplens.org/datasets/movielens/1m/",
)
