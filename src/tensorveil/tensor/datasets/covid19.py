"""COVID-19 systems serology, the dataset that ships with the package (licence beside the file)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.tensor.datasets.entry import Entry
from tensorveil.tensor.datasets.places import Source
from tensorveil.tensor.files import read
from tensorveil.tensor.observed import ObservedTensor

DATA = Path(__file__).parent / "data"


def load(source: Source) -> ObservedTensor:
    """Read antibody measurements by patient, antigen and receptor, centred by their publishers."""
    return read(DATA / "covid19-serology.npz")


def side_data(source: Source) -> Mapping[str, NDArray[Any]]:
    """Read the status of every patient, in the order of the patient mode."""
    with (DATA / "covid19-serology-status.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {"status": np.array([row["status"] for row in rows], dtype=np.dtypes.StringDType())}


ENTRY = Entry(
    name="covid19-serology",
    description="COVID-19 antibodies: 438 patients x 6 antigens x 11 receptors, all observed (ships with us)",
    licence="MIT-style, (c) 2022 Regents of the University of California",
    citation="Tan et al., Molecular Systems Biology 17(9), 2021; Zohar et al., Cell 183(6), 2020",
    places=(),
    load=load,
    side_data=side_data,
)
