"""Oslo city bike trips 2020-2021: arrays, or the netCDF file they come from."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.datasets.entry import Entry
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

AXES = ("station", "year", "month", "day_of_week", "hour")
NETCDF_NAMES = {
    "Bike trips": "trips",
    "End station name": "station",
    "Year": "year",
    "Month": "month",
    "Day of week": "day_of_week",
    "Hour": "hour",
}


def _arrays(source: Source) -> Mapping[str, NDArray[Any]]:
    if source.path.suffix == ".npz":
        return source.read_arrays("trips", "lat", "lon", *AXES)
    return _netcdf_arrays(source)


def _netcdf_arrays(source: Source) -> Mapping[str, NDArray[Any]]:
    """Read the original file, which is netCDF 3 in spite of its ending."""
    import scipy.io

    data = source.read_bytes()
    arrays: dict[str, NDArray[Any]] | None = None
    with suppress(OSError, EOFError, TypeError, ValueError, KeyError, IndexError):
        plain = gzip.decompress(data) if source.path.suffix == ".gz" else data
        with scipy.io.netcdf_file(io.BytesIO(plain), mmap=False) as file:
            arrays = {NETCDF_NAMES.get(name, name): _plain(item) for name, item in file.variables.items()}
    if arrays is None:
        raise InputError(f"{source.path.name} is damaged or has another format. Fetch the file again.")
    return arrays


def _plain(variable: Any) -> NDArray[Any]:
    """Return a variable as native numbers or text: netCDF text is a matrix of bytes, and numbers are big-endian."""
    array = np.array(variable.data)
    if array.dtype.kind == "S":
        rows = array.reshape(len(array), -1)
        return np.array([row.tobytes().rstrip(b"\x00").decode() for row in rows])
    return array.astype(array.dtype.newbyteorder("="))


def load(source: Source) -> ObservedTensor:
    """Read trips by end station, year, month, day of the week and hour; zeros are counts."""
    arrays = _arrays(source)
    return ObservedTensor.from_dense(arrays["trips"], modes=[Mode(axis, arrays[axis]) for axis in AXES])


def side_data(source: Source) -> Mapping[str, NDArray[Any]]:
    """Read latitude and longitude of the stations."""
    arrays = _arrays(source)
    return {"lat": arrays["lat"], "lon": arrays["lon"]}


ENTRY = Entry(
    name="oslo-bike",
    description="Oslo bike trips 2020-2021: 270 stations x 2 years x 12 months x 7 days x 24 hours, all counts",
    licence="NLOD 2.0 (Oslo Bysykkel), package tensorly-viz MIT",
    citation="Oslo Bysykkel open data; tensor by Roald & Moe, TLViz, JOSS 2022",
    places=(Place(path="oslo-bike/oslo_bike.npz"), Place(path="oslo-bike/oslo_bike.nc4.gz")),
    load=load,
    side_data=side_data,
    home="https://github.com/tensorly/viz",
)
