"""Tensors that travel with the TensorLy package: IL-2 response, kinetic fluorescence, Indian Pines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.tensor.datasets.entry import Entry
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

FOLDER = "tensorly-datasets"
HOME = "https://github.com/tensorly/tensorly"
LIGANDS = [
    "IL2 (Mono)",
    "IL15 (Mono)",
    *(f"{name} (Biv)" for name in ("WT N-term", "H16N N-term", "R38Q N-term", "R38Q/H16N")),
    *(f"{name} (Mono)" for name in ("WT N-term", "H16N N-term", "WT C-term", "V91K C-term")),
    *(f"{name} (Mono)" for name in ("R38Q N-term", "F42Q N-Term", "N88D C-term")),
]
CELLS = [
    *("Treg IL2Ra_hi", "Treg", "Treg IL2Ra_lo"),
    *("Thelper IL2Ra_hi", "Thelper", "Thelper IL2Ra_lo"),
    *("CD8+", "NK"),
]


def load_il2(source: Source) -> ObservedTensor:
    """Read the response by ligand, time, dose and cell type; NaN cells are missing."""
    modes = [
        Mode("ligand", LIGANDS),
        Mode("time", [4, 2, 1, 0.5]),
        Mode("dose", np.geomspace(84.0, 0.000474, 12)),
        Mode("cell", CELLS),
    ]
    array = source.read_array("IL2_Response_Tensor", "tensor")
    return ObservedTensor.from_dense(array, modes=modes)


def load_kinetic(source: Source) -> ObservedTensor:
    """Read fluorescence by measurement, emission, excitation and time; cells marked as missing are left out."""
    array = source.read_array("Kinetic")
    observed = ~source.read_array("Kinetic_missing").astype(bool)
    names = ["measurement", "emission", "excitation", "time"]
    return ObservedTensor.from_dense(array, mask=observed, modes=names)


def load_indian_pines(source: Source) -> ObservedTensor:
    """Read radiance by row, column and spectral band; every cell is observed."""
    array = source.read_array("Indian_pines_corrected", "tensor")
    return ObservedTensor.from_dense(array, modes=["row", "column", "band"])


def indian_pines_side_data(source: Source) -> Mapping[str, NDArray[Any]]:
    """Read the ground class 0..16 of every pixel."""
    return {"class": source.read_array("Indian_pines_gt")}


ENTRIES = (
    Entry(
        name="il2-response",
        description="Cell response to IL-2 muteins: 13 ligands x 4 times x 12 doses x 8 cells; 4 % missing",
        licence="MIT-style, (c) 2021 Regents of the University of California",
        citation="Orcutt-Jahns et al., Multivalency enhances the specificity of Fc-cytokine fusions, bioRxiv 2021",
        places=(
            Place(path=f"{FOLDER}/tensorly_small.npz"),
            Place(path=f"{FOLDER}/IL2_Response_Tensor.npy"),
        ),
        load=load_il2,
        home=HOME,
    ),
    Entry(
        name="kinetic",
        description="Kinetic fluorescence: 64 measurements x 12 emissions x 10 excitations x 60 times",
        licence="available for public use, as is",
        citation="Nikolajsen, Booksh, Hansen & Bro, Analytica Chimica Acta 475, 2003",
        places=(Place(path=f"{FOLDER}/tensorly_kinetic.npz"),),
        load=load_kinetic,
        home=HOME,
    ),
    Entry(
        name="indian-pines",
        description="Hyperspectral image: 145 rows x 145 columns x 200 bands, all observed",
        licence="CC BY 3.0",
        citation="Baumgardner, Biehl & Landgrebe, 220 Band AVIRIS Image, 2015, doi 10.4231/R7RX991C",
        places=(
            Place(path=f"{FOLDER}/tensorly_indian_pines.npz"),
            Place(path=f"{FOLDER}/Indian_pines_corrected.npy"),
        ),
        load=load_indian_pines,
        side_data=indian_pines_side_data,
        home=HOME,
    ),
)
