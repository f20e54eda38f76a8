"""The observed tensor: coordinates, values, shape, labels and bounds; reading, splits, problems, datasets."""

from tensorveil.tensor.datasets import DatasetInfo, list_datasets, load_dataset, load_side_data
from tensorveil.tensor.files import read, write
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.splits import Split, block_split, cell_split, k_fold, random_split, slice_split, time_split
from tensorveil.tensor.stored import StoredTensor
from tensorveil.tensor.synthetic import Problem, paper_problem, synthetic_cp, synthetic_tucker

__all__ = [
    "DatasetInfo",
    "Mode",
    "ObservedTensor",
    "Problem",
    "Split",
    "StoredTensor",
    "block_split",
    "cell_split",
    "k_fold",
    "list_datasets",
    "load_dataset",
    "load_side_data",
    "paper_problem",
    "random_split",
    "read",
    "slice_split",
    "synthetic_cp",
    "synthetic_tucker",
    "time_split",
    "write",
]
