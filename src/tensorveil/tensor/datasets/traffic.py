"""Dense traffic, flow and climate tensors of third order, as four public repositories hold them."""

from __future__ import annotations

from collections.abc import Callable

from tensorveil.tensor.datasets.entry import Entry, choose
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.observed import ObservedTensor

FOLDER = "traffic-tensors"
TENSORLIB = "https://github.com/tongnie/tensorlib"
MIT = "MIT (stated by the source repository)"


def _dense(variable: str, modes: list[str], zeros: str) -> Callable[..., ObservedTensor]:
    """Return a loader; `zeros` is the default reading of zero cells, "missing" or "observed"."""
    default = zeros

    def load(source: Source, zeros: str | None = None) -> ObservedTensor:
        reading = default if zeros is None else zeros
        choose("zeros", reading, ("missing", "observed"))
        array = source.read_array(variable)
        # No array of this family holds NaN, so NaN as the missing value keeps every cell.
        return ObservedTensor.from_dense(array, missing=0.0 if reading == "missing" else float("nan"), modes=modes)

    return load


def _places(ours: str, *official: str) -> tuple[Place, ...]:
    return (Place(path=f"{FOLDER}/{ours}"), *(Place(path=path) for path in official))


ENTRIES = (
    Entry(
        name="guangzhou",
        description="Guangzhou road speed, km/h: 214 roads x 144 ten-minute slots x 7 days; zeros are missing",
        licence="none stated by the repository GongWenwuu/TuckerAPP; data Zenodo 1205229",
        citation="Chen, Chen & He, Urban Traffic Speed Dataset of Guangzhou, Zenodo, 2018, 10.5281/zenodo.1205229",
        places=_places("tuckerapp_Guangzhou_7days.mat", "TuckerAPP/Guangzhou.mat"),
        load=_dense("dense_tensor", ["road", "slot", "day"], "missing"),
        home="https://github.com/GongWenwuu/TuckerAPP",
    ),
    Entry(
        name="guangzhou-50",
        description="Guangzhou road speed, km/h: 144 ten-minute slots x 50 roads x 15 days; zeros are missing",
        licence=f"{MIT}, tongnie/tensorlib; data Zenodo 1205229",
        citation="Chen, Chen & He, Urban Traffic Speed Dataset of Guangzhou, Zenodo, 2018, 10.5281/zenodo.1205229",
        places=_places("tensorlib_guangzhou_speed.npz", "tensorlib/Datasets/guangzhou_speed.npy"),
        load=_dense("tensor", ["slot", "road", "day"], "missing"),
        home=TENSORLIB,
    ),
    Entry(
        name="portland",
        description="Portland highway volume: 96 quarter hours x 80 sensors x 15 days; zeros='missing' to drop them",
        licence=f"{MIT}, tongnie/tensorlib; data PORTAL",
        citation="PORTAL, Portland State University, portal.its.pdx.edu",
        places=_places("tensorlib_portland_volume.npz", "tensorlib/Datasets/portland_volume.npy"),
        load=_dense("tensor", ["slot", "sensor", "day"], "observed"),
        home=TENSORLIB,
    ),
    Entry(
        name="nyc-taxi",
        description="New York taxi trips: 30 origins x 30 destinations x 1,464 hours (61 days); zeros are counts",
        licence=f"{MIT}, xinychen/transdim; data NYC Taxi and Limousine Commission",
        citation="NYC TLC trip records; tensor by X. Chen, transdim",
        places=_places("transdim_NYC.mat", "NYC-data-set/tensor.mat"),
        load=_dense("tensor", ["origin", "destination", "hour"], "observed"),
        home="https://github.com/xinychen/transdim",
    ),
    Entry(
        name="nyc-yellow",
        description="New York yellow taxi trips: 60 times x 69 origins x 69 destinations; zeros are counts",
        licence=f"{MIT}; data NYC Taxi and Limousine Commission",
        citation="NYC TLC trip records",
        places=_places("lrtc-tidt_nyctaxiyellow202160.mat", "nyctaxiyellow202160.mat"),
        load=_dense("nyctaxiyellow202160", ["time", "origin", "destination"], "observed"),
    ),
    Entry(
        name="pacific",
        description="Pacific sea surface temperature: 60 months x 30 x 84 grid points",
        licence=MIT,
        citation="Pacific sea surface temperature, as packaged with LRTC-TIDT",
        places=_places("lrtc-tidt_Pacific.mat", "Pacific.mat"),
        load=_dense("Pacific", ["month", "grid_row", "grid_column"], "observed"),
    ),
)
