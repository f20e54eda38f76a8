"""The observed tensor: coordinates, values, shape, labels and bounds; reading, splits, problems, datasets."""

from tensorveil.tensor.files import read, write
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.synthetic import Problem, paper_problem, synthetic_cp, synthetic_tucker

__all__ = [
    "Mode",
    "ObservedTensor",
    "Problem",
    "paper_problem",
    "read",
    "synthetic_cp",
    "synthetic_tucker",
    "write",
]
