"""scikit-learn's digits: 1,797 grey images of 8 x 8, 0 to 16; ships with that package, so nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensorveil.errors import MissingDependencyError
from tensorveil.learning.loaders.parts import Parts
from tensorveil.learning.samples import Samples

TEST = 450


def read(_: Path) -> Parts:
    """Read the digits; 450 of them, chosen once and for all, are for tests."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingDependencyError("digits come with scikit-learn. Install it: pip install scikit-learn") from error
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    whole = Samples(x=found.images, y=found.target.astype(np.int64), classes=10)
    return Parts(train=whole.take(np.sort(order[TEST:])), test=whole.take(np.sort(order[:TEST])), bounds=(0.0, 16.0))
