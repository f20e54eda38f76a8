"""A small store of ratings, and what a user-level fit of them must give wherever they are."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tensorveil.privacy import Budget
from tensorveil.rounds import Recipe

SHAPE, MODES, BOUNDS = (80, 14, 5), ("user", "film", "day"), (1.0, 5.0)


def ratings(n: int = 900, seed: int = 0) -> Any:
    """Entries in no order, some of which share a cell."""
    rng = np.random.default_rng(seed)
    cells = np.stack(np.unravel_index(rng.choice(np.prod(SHAPE), n), SHAPE), axis=1)
    values = np.round(rng.uniform(0, 6, n), 1)
    return tv.ObservedTensor(cells, values, SHAPE, modes=MODES, duplicates="keep")


def make_store(folder: Path, tensor: Any, part_rows: int = 100, name: str = "store") -> Any:
    """A store of a tensor, by way of a file."""
    tensor.write(folder / f"{name}.parquet")
    rules: dict[str, Any] = {"unit": "slice:user", "bounds": BOUNDS, "shape": SHAPE, "indices": True}
    return tv.write_store(folder / f"{name}.parquet", folder / name, order="user", part_rows=part_rows, **rules)


def in_memory(folder: Path, name: str = "store", shape: Any = SHAPE) -> Any:
    """The entries of a store's file, read as a whole."""
    rules: dict[str, Any] = {"unit": "slice:user", "bounds": BOUNDS, "shape": shape, "indices": True}
    return tv.read_privately(folder / f"{name}.parquet", **rules)


def recipe(**changes: Any) -> Any:
    facts: dict[str, Any] = {"shape": SHAPE, "modes": MODES, "protect": "user", "bounds": BOUNDS}
    facts |= {"epsilon": 3.0, "delta": 1e-5, "rank": 2, "sweeps": 1}
    return Recipe(**{**facts, **changes})


def estimator(kind: Any = tv.UserLevelCP, **changes: Any) -> Any:
    promise: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "unit": "slice:user", "bounds": BOUNDS, "shape": SHAPE}
    more: dict[str, Any] = {"noise_seed": 7, "random_state": 1, "method": "factors", "threads": 1}
    return kind(2, **(promise | more | changes))


def by_entry(kind: Any = tv.PrivateCP, **changes: Any) -> Any:
    promise: dict[str, Any] = {"epsilon": 3.0, "delta": 0.0, "unit": "entry", "bounds": BOUNDS, "shape": SHAPE}
    more: dict[str, Any] = {"noise_seed": 7, "random_state": 1, "threads": 1}
    return kind(2, **(promise | more | changes))


def single_ratings(n: int = 900, seed: int = 0, shape: Any = SHAPE) -> Any:
    """Entries in no order, one for a cell, with something to find, and values beyond the bounds."""
    rng = np.random.default_rng(seed)
    at = np.unravel_index(rng.choice(np.prod(shape), n, replace=False), shape)
    found = sum(rng.normal(0, 1, size)[column] for size, column in zip(shape, at, strict=True))
    values = np.round(3 + found + rng.normal(0, 0.5, n), 1)
    return tv.ObservedTensor(np.stack(at, axis=1), values, shape, modes=MODES[: len(shape)])


def make_value_store(folder: Path, tensor: Any, part_rows: int = 100, name: str = "store", order: str = "user") -> Any:
    """A store of a tensor in unit value, by way of a file."""
    tensor.write(folder / f"{name}.parquet")
    rules: dict[str, Any] = {"unit": "value", "bounds": BOUNDS, "shape": tensor.shape, "indices": True}
    more: dict[str, Any] = {"value": "value", "modes": [mode.name for mode in tensor.modes]}
    return tv.write_store(folder / f"{name}.parquet", folder / name, order=order, part_rows=part_rows, **rules, **more)


def values_in_memory(folder: Path, name: str = "store") -> Any:
    """The entries of such a store's file, read as a whole."""
    stored = tv.StoredTensor.open(folder / name)
    rules: dict[str, Any] = {"unit": "value", "bounds": BOUNDS, "shape": stored.shape, "indices": True}
    more: dict[str, Any] = {"value": "value", "modes": [mode.name for mode in stored.modes]}
    return tv.read_privately(folder / f"{name}.parquet", **rules, **more)


def by_value(kind: Any = tv.PrivateCP, **changes: Any) -> Any:
    promise: dict[str, Any] = {"epsilon": 30.0, "delta": 0.0, "unit": "value", "bounds": BOUNDS}
    more: dict[str, Any] = {"noise_seed": 7, "random_state": 1, "threads": 1}
    return kind(2, **(promise | more | changes))


def planted() -> Any:
    """Entries for open fits: every cell has one at most."""
    return tv.synthetic_cp(SHAPE, 2, random_state=3).train.with_modes(MODES)


def open_store(folder: Path, part_rows: int = 90) -> Any:
    """A store of these in the order of every mode."""
    planted().write(folder / "open.parquet")
    return tv.write_store(
        folder / "open.parquet", folder / "open", order=list(MODES), indices=True, shape=SHAPE, part_rows=part_rows
    )


def open_fit(kind: Any = tv.CP, **changes: Any) -> Any:
    settings: dict[str, Any] = {"regularization": 0.01, "random_state": 0, "threads": 1, "sweeps": 20}
    return kind(3, solver="als", **(settings | changes))


def digest(fitted: Any, folder: Path) -> str:
    """A digest of all that a fit releases."""
    fitted.save(folder / "model.npz")
    content = (folder / "model.npz").read_bytes() + str(fitted.guarantee_.to_json()).encode()
    return hashlib.sha256(content).hexdigest()


def new_ledger(folder: Path) -> Any:
    return tv.Ledger.create(folder / "ledger", budget=Budget(epsilon=9, delta=1e-3), unit="slice:user", name="ratings")
