"""Links: how a prediction follows from the part of a model that is linear in its rows.

A model fitted by squared error predicts its linear part itself. A count is predicted as the exponential of it, a
probability as its logistic function. The loss that a model is fitted by names the link (solvers/loss.py), and
everything that predicts asks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A rising function between expected values and the linear part of a model.

    Parameters
    ----------
    name
        How files and messages call it.
    mean
        From the linear part to the expected value, elementwise; it may change its argument in place.
    linear
        The inverse, from expected values to the linear part.
    """

    name: str
    mean: Callable[[Floats], Floats]
    linear: Callable[[Floats], Floats]


def _same(values: Floats) -> Floats:
    return values


IDENTITY = Link(name="identity", mean=_same, linear=_same)
