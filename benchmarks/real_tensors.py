"""Real tensors for `benchmarks.real`: some are looked at while methods are designed, the others once, at the end.

Bounds are what somebody who knows the subject, but not these data, would declare: values beyond them are clipped. Of
the known cells a part, at most a certain number, is observed; of the others, some are held out. Nothing in the project
was set, chosen or mended by the look of a tensor that is set aside.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import tensorveil as tv

_SYNPUF = "tensor_patient_condition_drug_same_month_top200"
MOST_OBSERVED, MOST_HELD_OUT = 150_000, 50_000
_OBSERVED_SHARE = 0.7


@dataclass(frozen=True, kw_only=True)
class Real:
    """Where a tensor comes from, what it holds, and the bounds that are declared for it."""

    name: str
    load: Callable[[], tv.ObservedTensor]
    kind: str  # "real", "counts" or "yes/no"
    bounds: tuple[float, float]
    aside: bool = False


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Observed entries, and cells that are held out."""

    train: tv.ObservedTensor
    held: np.ndarray
    truth: np.ndarray


def _dataset(name: str, **options: object) -> Callable[[], tv.ObservedTensor]:
    return partial(tv.load_dataset, name, **options)


def _from_dense(array: np.ndarray) -> tv.ObservedTensor:
    coords = np.stack(np.nonzero(np.isfinite(array)), axis=1)
    return tv.ObservedTensor(coords, array.ravel(), shape=array.shape)


def _relations(name: str, shape: tuple[int, int, int]) -> tv.ObservedTensor:
    """Return head x tail x relation, 1 for every listed triple and 0 elsewhere."""
    folder = Path(os.environ["TENSORVEIL_DATA"]) / "relational" / name
    lines = [line.split("\t") for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    heads, relations, tails = zip(*lines, strict=True)
    places = {entity: i for i, entity in enumerate(sorted({*heads, *tails}))}
    kinds = {relation: i for i, relation in enumerate(sorted(set(relations)))}
    array = np.zeros(shape)
    for head, relation, tail in lines:
        array[places[head], places[tail], kinds[relation]] = 1.0
    return _from_dense(array)


def _crimes() -> tv.ObservedTensor:
    """Return week x community x type, counts of reports in Chicago in 2022."""
    import pyarrow.parquet as pq

    folder = Path(os.environ["TENSORVEIL_DATA"]) / "tensor-chicago-crime-2022"
    table = pq.read_table(folder / "crimes_2022.parquet").to_pandas()
    table = table[table["community_area"].notna()]
    day = table["date"].to_numpy().astype("datetime64[D]")
    week = ((day - np.datetime64("2022-01-01")).astype(int) // 7).astype(int)
    kind = np.unique(table["primary_type"].to_numpy().astype(str), return_inverse=True)[1]
    array = np.zeros((week.max() + 1, 77, kind.max() + 1))
    np.add.at(array, (week, table["community_area"].to_numpy().astype(int) - 1, kind), 1.0)
    return _from_dense(array)


def _prescriptions() -> tv.ObservedTensor:
    """Return condition x drug, how many pairs of a patient and a month had both."""
    with np.load(Path(os.environ["TENSORVEIL_DATA"]) / "ehr-synpuf-1000" / f"{_SYNPUF}.npz") as file:
        coords, counts = file["coords"], file["counts"]
    array = np.zeros((200, 200))
    np.add.at(array, (coords[1], coords[2]), counts)
    return _from_dense(array)


def _plays() -> tv.ObservedTensor:
    """Return user x artist, the logarithm to base 10 of how often the user played songs of the artist."""
    with np.load(Path(os.environ["TENSORVEIL_DATA"]) / "tensor-lastfm-2k" / "lastfm_2k.npz") as file:
        cells = [np.unique(file[name], return_inverse=True)[1] for name in ("play_user", "play_artist")]
        counts = file["play_count"].astype(float)
    return tv.ObservedTensor(np.stack(cells, axis=1), np.log10(counts), shape=[int(each.max()) + 1 for each in cells])


def _digits() -> tv.ObservedTensor:
    """Return image x row x column, the shades of the first 1,000 test images of MNIST."""
    with gzip.open(Path(os.environ["TENSORVEIL_DATA"]) / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        array = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28, 28)[:1000]
    return _from_dense(array.astype(float))


def _sales() -> tv.ObservedTensor:
    """Return item x month x hour, how many lines of invoices there were for the 300 items that are sold most often."""
    import pyarrow.parquet as pq

    folder = Path(os.environ["TENSORVEIL_DATA"]) / "tensor-online-retail"
    table = pq.read_table(folder / "online_retail.parquet").to_pandas()
    items, place = np.unique(table["stock_code"].to_numpy().astype(str), return_inverse=True)
    most = np.argsort(-np.bincount(place), kind="stable")[:300]
    rank = np.full(len(items), -1)
    rank[most] = np.arange(len(most))
    moments = table["time"].to_numpy().astype("datetime64[h]")
    month = (moments.astype("datetime64[M]") - np.datetime64("2010-12")).astype(int)
    hour = (moments - moments.astype("datetime64[D]")).astype(int)
    array = np.zeros((len(most), month.max() + 1, 24))
    kept = rank[place] >= 0
    np.add.at(array, (rank[place][kept], month[kept], hour[kept]), 1.0)
    return _from_dense(array)


def _house_numbers() -> tv.ObservedTensor:
    """Return image x row x column, the shades of the first 500 pictures of SVHN."""
    with np.load(Path(os.environ["TENSORVEIL_DATA"]) / "svhn-11k" / "svhn_8000_3000.npz") as file:
        pictures = next(file[name] for name in file.files if file[name].ndim == 4)[:500]
    return _from_dense(pictures.astype(float).mean(axis=3))


def _tags() -> tv.ObservedTensor:
    """Return artist x tag, how many users gave the tag to the artist: the 300 artists and tags that are most common."""
    with np.load(Path(os.environ["TENSORVEIL_DATA"]) / "tensor-lastfm-2k" / "lastfm_2k.npz") as file:
        columns = [file[name] for name in ("tag_artist", "tag_tag")]
    array = np.zeros([int(each.max()) + 1 for each in columns])
    np.add.at(array, tuple(columns), 1.0)
    most = [np.argsort(-array.sum(axis=1 - mode), kind="stable")[:300] for mode in range(2)]
    return _from_dense(array[np.ix_(*most)])


TENSORS = (
    Real(name="ratings", load=_dataset("ml-100k"), kind="real", bounds=(1, 5)),
    Real(name="speeds", load=_dataset("guangzhou"), kind="real", bounds=(0, 100)),
    Real(name="volumes", load=_dataset("portland"), kind="counts", bounds=(0, 1000)),
    Real(name="trip minutes", load=_dataset("nyc-taxi-2023-01-means"), kind="real", bounds=(0, 180)),
    Real(name="yellow trips", load=_dataset("nyc-yellow"), kind="counts", bounds=(0, 400)),
    Real(name="bikes", load=_dataset("oslo-bike"), kind="counts", bounds=(0, 100)),
    Real(name="serology", load=_dataset("covid19-serology"), kind="real", bounds=(-5, 5)),
    Real(name="nations", load=partial(_relations, "nations", (14, 14, 55)), kind="yes/no", bounds=(0, 1)),
    Real(name="umls", load=partial(_relations, "umls", (135, 135, 46)), kind="yes/no", bounds=(0, 1), aside=True),
    Real(name="sea temperatures", load=_dataset("pacific"), kind="real", bounds=(0, 40), aside=True),
    Real(name="crimes", load=_crimes, kind="counts", bounds=(0, 100), aside=True),
    Real(name="fluorescence", load=_dataset("kinetic"), kind="real", bounds=(0, 3000), aside=True),
    Real(name="hourly trips", load=_dataset("nyc-taxi"), kind="counts", bounds=(0, 400), aside=True),
    Real(name="responses", load=_dataset("il2-response"), kind="real", bounds=(0, 1), aside=True),
    Real(name="million ratings", load=_dataset("ml-1m"), kind="real", bounds=(1, 5), aside=True),
    Real(name="spectra", load=_dataset("indian-pines"), kind="real", bounds=(0, 10_000), aside=True),
    Real(name="digits", load=_digits, kind="real", bounds=(0, 255), aside=True),
    Real(name="plays", load=_plays, kind="real", bounds=(0, 6), aside=True),
    Real(name="prescriptions", load=_prescriptions, kind="counts", bounds=(0, 200), aside=True),
    Real(name="sales", load=_sales, kind="counts", bounds=(0, 100), aside=True),
    Real(name="house numbers", load=_house_numbers, kind="real", bounds=(0, 255), aside=True),
    Real(name="tags", load=_tags, kind="counts", bounds=(0, 100), aside=True),
)
BY_NAME = {tensor.name: tensor for tensor in TENSORS}


@lru_cache(maxsize=2)
def load_problem(name: str) -> Problem:
    """Observe a part of a tensor's known cells, and hold out others; always the same ones."""
    real = BY_NAME[name]
    known = real.load()
    values = np.clip(np.asarray(known.values, dtype=float), *real.bounds)
    order = np.random.default_rng(7).permutation(known.n_entries)
    n = min(int(_OBSERVED_SHARE * known.n_entries), MOST_OBSERVED)
    seen, held = order[:n], order[n : n + MOST_HELD_OUT]
    coords = np.asarray(known.coords)
    train = tv.ObservedTensor(coords[seen], values[seen], shape=known.shape)
    return Problem(train=train, held=coords[held], truth=values[held])
