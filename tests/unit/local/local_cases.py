"""One of each mechanism, and how often a sample of reports is drawn."""

from __future__ import annotations

from typing import Any

from tensorveil.local import (
    DTLDP,
    Basis,
    ExactGaussian,
    Hybrid,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    RandomizedResponse,
    Staircase,
    project,
)

ENTRYWISE = {
    "DTLDP": (DTLDP, {"points": 17}),
    "DTLDP clamped": (DTLDP, {"points": 17, "clamp": True}),
    "RandomizedResponse": (RandomizedResponse, {}),
    "Staircase": (Staircase, {}),
    "Piecewise": (Piecewise, {}),
    "Hybrid": (Hybrid, {}),
}
WHOLE = {
    "PrivUnit": (PrivUnit, {}),
    "PrivUnitG": (PrivUnitG, {}),
    "ExactGaussian": (ExactGaussian, {"delta": 1e-5}),
}
ALL = ENTRYWISE | WHOLE


def make(
    name: str, shape: Any = (3,), epsilon: float = 2.0, unit: str = "tensor", bounds: Any = (-1.0, 1.0), **options: Any
) -> Any:
    kind, settings = ALL[name]
    return kind(shape=shape, epsilon=epsilon, unit=unit, bounds=bounds, **(settings | options))


def projected(epsilon: float = 2.0, mechanism: Any = Hybrid, **options: Any) -> Any:
    return project(Basis.dct((4, 4), 5), mechanism, epsilon=epsilon, bounds=(0.0, 2.0), **options)
