"""Published algorithms refuse to write a release: their models can be looked at, not saved.

TensorveilError
└── ReleaseRefusedError      a published algorithm was asked to write what it fitted
"""

from __future__ import annotations

import os
from typing import NoReturn

from tensorveil.errors import InputError, TensorveilError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.solvers.task import Solution
from tensorveil.tensor import ObservedTensor

StudyModel = CPModel | TuckerModel


class ReleaseRefusedError(TensorveilError):
    """A published algorithm was asked to write what it fitted."""


def refuse() -> NoReturn:
    """Raise: nothing fitted in this folder is written."""
    raise ReleaseRefusedError(
        "published algorithms write no release: they are here for study, and what they fit is not private. "
        "Read .guarantee_ for what is claimed and what is true; use a mechanism with a proven guarantee to publish."
    )


class StudyCPModel(CPModel):
    """A CP model that can be evaluated but not saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Refuse."""
        refuse()


class StudyTuckerModel(TuckerModel):
    """A Tucker model that can be evaluated but not saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Refuse."""
        refuse()


def make_study_model(solution: Solution, tensor: ObservedTensor) -> StudyModel:
    """Return the model of a solution. Predictions are not clipped to bounds: the papers do not."""
    if solution.biases is not None:
        raise InputError("published models have no biases.")
    if solution.core is None:
        return StudyCPModel(factors=solution.factors, modes=tensor.modes)
    return StudyTuckerModel(core=solution.core, factors=solution.factors, modes=tensor.modes)
