"""Synthetic health records, a dataset that ships with the package (licence beside the file)."""

from __future__ import annotations

from tensorveil.tensor.datasets.covid19 import DATA
from tensorveil.tensor.datasets.entry import Entry
from tensorveil.tensor.datasets.places import Source
from tensorveil.tensor.files import read
from tensorveil.tensor.observed import ObservedTensor


def load(source: Source) -> ObservedTensor:
    """Read how often a medication was started where a diagnosis was made, by patient; unlisted cells are zero."""
    return read(DATA / "synthea-records.npz")


ENTRY = Entry(
    name="synthea-records",
    description="synthetic health records: 970 patients x 91 diagnoses x 98 medications, counts (ships with us)",
    licence="Apache-2.0",
    citation="Walonoski et al., Journal of the American Medical Informatics Association 25(3), 2018",
    places=(),
    load=load,
)
