"""New York yellow taxi trips of January 2023, aggregated by zone and time."""

from __future__ import annotations

import numpy as np

from tensorveil.tensor.datasets.entry import Entry, choose
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

MEASURES = ("mean_minutes", "mean_fare", "mean_miles", "n")
LICENCE = "open data of the NYC Taxi and Limousine Commission, by way of a GPL-3.0 repository"
CITATION = "NYC TLC yellow taxi trip records, January 2023"


def load_counts(source: Source) -> ObservedTensor:
    """Read trips per pick-up zone, drop-off zone, day and hour; only cells with trips are listed."""
    arrays = source.read_arrays("pu", "do", "day", "hour", "count")
    columns = [arrays["pu"] - 1, arrays["do"] - 1, arrays["day"] - 1, arrays["hour"]]
    zones = np.arange(1, 266)
    days = np.datetime64("2023-01-01") + np.arange(31)
    modes = [Mode("pickup", zones), Mode("dropoff", zones), Mode("day", days), Mode("hour", np.arange(24))]
    return ObservedTensor.from_columns(columns, arrays["count"], modes=modes)


def load_means(source: Source, measure: str = "mean_minutes") -> ObservedTensor:
    """Read mean duration, fare or distance per pick-up zone, drop-off zone and hour; `measure="n"` for trips."""
    choose("measure", measure, MEASURES)
    arrays = source.read_arrays("pu", "do", "hour", measure)
    zones = np.arange(1, 264)
    modes = [Mode("pickup", zones), Mode("dropoff", zones), Mode("hour", np.arange(24))]
    columns = [arrays["pu"] - 1, arrays["do"] - 1, arrays["hour"]]
    return ObservedTensor.from_columns(columns, arrays[measure], modes=modes)


ENTRIES = (
    Entry(
        name="nyc-taxi-2023-01-counts",
        description="New York taxi trips, January 2023: 265 x 265 zones x 31 days x 24 hours, non-zero counts",
        licence=LICENCE,
        citation=CITATION,
        places=(Place(path="nyc-taxi-2023-01/od_day_hour_counts.npz"),),
        load=load_counts,
    ),
    Entry(
        name="nyc-taxi-2023-01-means",
        description="New York taxi trips, January 2023: 263 x 263 zones x 24 hours, mean minutes, fare or miles; "
        "9 % observed",
        licence=LICENCE,
        citation=CITATION,
        places=(Place(path="nyc-taxi-2023-01/od_hour_means.npz"),),
        load=load_means,
    ),
)
