"""The order of a file's rows could be read off the last bits of a release.

Noise is put on integers, but what is decoded from them adds floats entry by entry, and all their bits are published. A
table that was exported in the order of its values then tells where a value stands among the others.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms.names import BY_UNIT

METHODS = BY_UNIT["value"]


def published(cells: Any, values: Any, order: Any, method: str, folder: Path, seed: int) -> bytes:
    tensor = tv.ObservedTensor(cells[order], values[order], shape=(3, 40))
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value", "bounds": (1, 5), "method": method}
    fitted = tv.PrivateCP(1, noise_seed=seed, random_state=0, sweeps=3, **promise).fit(tensor)
    fitted.save(folder / "model.npz")
    return (folder / "model.npz").read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_a_file_sorted_by_value_looks_like_any_other(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(0)
    cells = np.argwhere(np.ones((3, 40)))
    values = rng.uniform(1, 5, len(cells))
    for seed in range(3):  # the same noise for both orders, so that nothing but the order can differ
        seen = {published(cells, values, order, method, tmp_path, seed) for order in (slice(None), np.argsort(values))}
        assert len(seen) == 1
