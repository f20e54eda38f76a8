"""What is in the components of a model that has no negative number: the strongest indices of every mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.models.cp import CPModel
from tensorveil.models.link import IDENTITY

__all__ = ["Component", "has_components", "list_components"]


@dataclass(frozen=True, kw_only=True)
class Component:
    """One component: its share of everything that the model expects, and of every mode the strongest indices.

    ``indices`` holds, by the name of the mode, pairs of a label (or an index from 0) and its share of the component.
    """

    share: float
    indices: Mapping[str, tuple[tuple[Any, float], ...]]


def has_components(model: Any) -> bool:
    """Tell whether a model is a sum of components alone, none of them negative."""
    plain = isinstance(model, CPModel) and model.link.name == IDENTITY.name and model.biases is None
    return plain and model.offset == 0 and model.remainder is None and all(np.all(f >= 0) for f in model.factors)


def list_components(model: Any, *, most: int = 8) -> tuple[Component, ...]:
    """Return the components of a model of counts, the largest first, with at most so many indices per mode.

    Components without any weight and modes of a single index are left out.

    Parameters
    ----------
    model
        A fitted `UserLevelCounts`, a `PrivateCP` of unlisted zeros, an open `CP` with ``nonnegative=True`` and
        ``baseline="none"``, or a model of these.
    most
        How many indices of a mode are listed.

    Examples
    --------
    >>> import tensorveil as tv
    >>> factors = [[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 3.0]]
    >>> strongest, other = tv.list_components(tv.CPModel(factors=factors, modes=("code", "drug"), loss="poisson"))
    >>> round(strongest.share, 2), strongest.indices["drug"]
    (0.67, ((1, 0.75), (0, 0.25)))
    """
    fitted = getattr(model, "model_", model)
    if not has_components(fitted):
        raise InputError(
            "model must be a sum of components that are not negative, such as UserLevelCounts and PrivateCP with "
            'unlisted="zero" release, or CP(loss="poisson", nonnegative=True, baseline="none") fits.'
        )
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InputError(f"most must be a whole number of at least 1; got {most!r}. Try most=8.")
    sums = [np.asarray(factor, dtype=np.float64).sum(axis=0) for factor in fitted.factors]
    weights = np.prod(sums, axis=0)
    found = []
    for component in np.argsort(-weights, kind="stable").tolist():
        if weights[component] <= 0:
            continue
        indices = {}
        for mode, factor, total in zip(fitted.modes, fitted.factors, sums, strict=True):
            if len(factor) > 1:
                shares = factor[:, component] / total[component]
                top = np.argsort(-shares, kind="stable")[:most]
                names = mode.decode(top).tolist() if mode.labels is not None else top.tolist()
                indices[mode.name] = tuple(
                    (name, float(share)) for name, share in zip(names, shares[top], strict=True) if share > 0
                )
        found.append(Component(share=float(weights[component] / weights.sum()), indices=indices))
    return tuple(found)
