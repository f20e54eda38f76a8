"""How good predictions are: the F1 score of every class, weighted by how often the class occurs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError

__all__ = ["majority_f1", "weighted_f1"]


def weighted_f1(truth: ArrayLike, predicted: ArrayLike, classes: int) -> float:
    """Return the mean over classes of F1 = 2 TP / (2 TP + FP + FN), weighted by the classes' shares of the truth.

    A class that is neither predicted nor true counts as 0; equations 13 to 16 of Yuan et al. leave this open.

    >>> round(weighted_f1([0, 0, 1, 1], [0, 1, 1, 1], 2), 4)
    0.7333
    """
    true, found = np.asarray(truth), np.asarray(predicted)
    if true.shape != found.shape or true.ndim != 1 or len(true) == 0:
        raise InputError("truth and predicted must have the same length, at least 1.")
    hits: NDArray[Any] = np.bincount(true[true == found], minlength=classes)
    counts, answers = np.bincount(true, minlength=classes), np.bincount(found, minlength=classes)
    scores = 2 * hits / np.maximum(counts + answers, 1)
    return float((counts * scores).sum() / len(true))


def majority_f1(train: ArrayLike, test: ArrayLike, classes: int) -> float:
    """Return the score of always predicting the majority class of the training set."""
    most = int(np.bincount(np.asarray(train), minlength=classes).argmax())
    return weighted_f1(test, np.full(len(np.asarray(test)), most), classes)
