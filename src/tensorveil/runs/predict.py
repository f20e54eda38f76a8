"""The work behind `tensorveil predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import load_model
from tensorveil.models.evaluate import predict_columns
from tensorveil.rounds.shared import SharedModel, is_shared
from tensorveil.runs.cells import read_cells
from tensorveil.runs.reading import read_tensor
from tensorveil.tensor import Mode


def predicted(model: Path, at: Path, entries: str | None) -> tuple[NDArray[np.int32], NDArray[Any], tuple[Mode, ...]]:
    """Return the cells that are asked for, their predictions and the modes."""
    if is_shared(model):
        if entries is None:
            raise InputError(
                f"{model} holds nobody's own part: predictions for a person need the person's entries. "
                "Add --entries FILE."
            )
        shared = SharedModel.load(model)
        names = [mode.name for mode in shared.modes]
        own = read_tensor(
            entries, modes=names, value=None, file_format=None, indices=True, no_header=False, variable=None,
            shape=shared.shape,
        )  # fmt: skip
        columns = read_cells(at, shared.modes, shared.shape)
        return columns, shared.predict_for(own, columns.T), shared.modes
    if entries is not None:
        raise InputError(f"--entries: {model} is a whole model and needs none. Leave it out.")
    fitted = load_model(model)
    columns = read_cells(at, fitted.modes, fitted.shape)
    return columns, predict_columns(fitted, columns), fitted.modes
