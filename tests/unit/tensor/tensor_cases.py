"""What several tests of tensors ask."""

from typing import Any

from tensorveil.tensor import Mode


def labels_of(mode: Mode) -> list[Any]:
    """The labels of a mode that has some."""
    assert mode.labels is not None
    labels: list[Any] = mode.labels.tolist()
    return labels
