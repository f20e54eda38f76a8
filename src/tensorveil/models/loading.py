"""Models from elsewhere: from a file, from TensorLy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tensorveil.errors import InputError
from tensorveil.models.cp import CPModel
from tensorveil.models.errors import Errors
from tensorveil.models.link import LINKS
from tensorveil.models.multilinear import REMAINDER
from tensorveil.models.storage import StoredModel, guard_model, read_model
from tensorveil.models.tensorly_bridge import is_tucker, split_parts, spread_weights
from tensorveil.models.tucker import TuckerModel
from tensorveil.tensor import Mode


def load_model(path: str | os.PathLike[str]) -> CPModel | TuckerModel:
    """Read a model that `save` wrote. Nothing in the file is executed.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> CPModel(factors=([[1.0], [2.0]], [[3.0], [4.0]])).save(path)
    >>> load_model(path)
    CPModel(2x2, rank=1, float64, 5 parameters)
    """
    stored = read_model(path)
    return guard_model(path, lambda: _build(stored, path))


def _build(stored: StoredModel, path: str | os.PathLike[str]) -> CPModel | TuckerModel:
    if stored.link not in LINKS:
        raise InputError(f"{os.fspath(path)} has a link that this tensorveil does not know. Upgrade it.")
    common: dict[str, Any] = {
        "factors": stored.factors,
        "offset": stored.offset,
        "biases": stored.biases,
        "modes": stored.modes,
        "bounds": stored.bounds,
        "errors": Errors.from_arrays(stored.extra),
        "link": LINKS[stored.link],
        "loss": stored.loss,
        "value_name": stored.value_name,
        "remainder": stored.extra.get(REMAINDER),
    }
    if stored.kind == CPModel.KIND and stored.core is None:
        return CPModel(**common)
    if stored.kind == TuckerModel.KIND and stored.core is not None:
        return TuckerModel(core=stored.core, **common)
    if stored.kind.startswith("shared "):
        raise InputError(
            f"{os.fspath(path)} is the shared part of a user-level fit: it predicts only together with a person's "
            "own entries. Try tensorveil.rounds.SharedModel.load."
        )
    raise InputError(f"{os.fspath(path)} is a model of a kind that this tensorveil does not know. Upgrade it.")


def from_tensorly(
    obj: Any,
    modes: Sequence[Mode | str] | None = None,
    bounds: tuple[float, float] | None = None,
) -> CPModel | TuckerModel:
    """Build a model from a TensorLy CPTensor or TuckerTensor, or from a pair (weights or core, factors).

    >>> from_tensorly(([2.0], ([[1.0]], [[3.0]]))).predict([[0, 0]]).round(6).tolist()
    [6.0]
    """
    leading, factors = split_parts(obj)
    if is_tucker(leading, factors):
        return TuckerModel(core=leading, factors=tuple(factors), modes=modes, bounds=bounds)  # type: ignore[arg-type]
    if leading is not None and leading.ndim > 1:
        raise InputError(
            f"obj must hold weights (one per component) or a core (one axis per mode); got {leading.ndim} axes."
        )
    return CPModel(factors=spread_weights(factors, leading), modes=modes, bounds=bounds)  # type: ignore[arg-type]
