"""Named datasets, read from the data folder; two of them ship with the package."""

from tensorveil.tensor.datasets.catalogue import list_datasets, load_dataset, load_side_data
from tensorveil.tensor.datasets.entry import DatasetInfo

__all__ = ["DatasetInfo", "list_datasets", "load_dataset", "load_side_data"]
