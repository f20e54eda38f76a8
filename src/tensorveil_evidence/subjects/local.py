"""The proven local mechanisms: what leaves an owner, on tensors at opposite ends of what was declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
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
    shuffled,
)
from tensorveil.local.contract import LocalMechanism
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]

_BOUNDS = (-1.0, 1.0)
_CUBE: dict[str, Any] = {"bounds": _BOUNDS, "unit": "tensor"}
_ENTRY: dict[str, Any] = {"bounds": _BOUNDS, "unit": "local entry", "shape": (1,)}


def local_subjects() -> Iterator[BlackBox]:
    """Yield every mechanism, for whole tensors and for single entries, where noise is small and where it is large."""
    for epsilon in (1.0, 6.0):
        named: dict[str, LocalMechanism] = {
            "k-RR": RandomizedResponse(shape=(2,), epsilon=epsilon, points=4, **_CUBE),
            "staircase": Staircase(shape=(2,), epsilon=epsilon, **_CUBE),
            "staircase, entry": Staircase(epsilon=epsilon, **_ENTRY),
            "piecewise": Piecewise(shape=(2,), epsilon=epsilon, **_CUBE),
            "hybrid": Hybrid(shape=(3,), epsilon=epsilon, **_CUBE),
            "hybrid, one entry told": Hybrid(shape=(3,), epsilon=epsilon, coordinates=1, **_CUBE),
            "staircase, one entry differs": Staircase(shape=(3,), epsilon=epsilon, differ=1, **_CUBE),
            "DTLDP": DTLDP(shape=(2,), epsilon=epsilon, points=4, **_CUBE),
            "DTLDP, entry": DTLDP(epsilon=epsilon, points=256, **_ENTRY),
            "DTLDP, keeping": DTLDP(shape=(1,), epsilon=epsilon, points=4, noise_share=0.5, **_CUBE),
            "DTLDP, clamped": DTLDP(shape=(2,), epsilon=epsilon, points=5, clamp=True, noise_share=0.6, **_CUBE),
            "DTLDP, public weights": DTLDP(shape=(3,), epsilon=epsilon, points=16, weights=[0.0, 0.5, 1.0], **_CUBE),
            "PrivUnit": PrivUnit(shape=(3,), epsilon=epsilon, unit="tensor", radius=1.0),
            "PrivUnitG": PrivUnitG(shape=(3,), epsilon=epsilon, unit="tensor", radius=1.0),
            "exact Gaussian": ExactGaussian(shape=(2,), epsilon=epsilon, delta=1e-5, **_CUBE),
            "exact Gaussian, one entry differs": ExactGaussian(
                shape=(3,), epsilon=epsilon, delta=1e-5, differ=1, **_CUBE
            ),
            "exact Gaussian, ball": ExactGaussian(shape=(3,), epsilon=epsilon, delta=1e-5, unit="tensor", radius=1.0),
        }
        named["projected hybrid"] = project(Basis.dct((2, 2), 2), Hybrid, epsilon=epsilon, bounds=_BOUNDS)
        for name, mechanism in named.items():
            yield _subject(f"local/{name}, epsilon {epsilon:g}", mechanism)
    yield _shuffled()


def _subject(name: str, mechanism: LocalMechanism) -> BlackBox:
    claim = Claim(epsilon=mechanism.epsilon, delta=mechanism.delta)

    def many(x: Array, rng: np.random.Generator, n: int) -> Array:
        return mechanism.perturb(np.broadcast_to(x, (n, *x.shape)), source=source(rng))

    return BlackBox(
        name=name,
        unit=str(mechanism.unit),
        claim=claim,
        proven=claim,
        about="reports",
        neighbours=lambda: list(_pairs(mechanism)),
        mechanism=many,
    )


def _shuffled() -> BlackBox:
    """Audit a crowd of binary reports whose order is lost: what is left is how many are high."""
    users, delta = 400, 1e-5
    one = RandomizedResponse(shape=(1,), epsilon=0.5, points=2, **_CUBE)
    promised = shuffled(one, users, delta)
    claim = Claim(epsilon=promised.epsilon, delta=delta)

    def many(first: float, rng: np.random.Generator, n: int) -> Array:
        crowd = np.full((n, users), _BOUNDS[0])
        crowd[:, 0] = first
        reports = one.perturb(crowd.reshape(-1, 1), source=source(rng)).reshape(n, users)
        return np.asarray(np.count_nonzero(reports > 0, axis=1))

    return BlackBox(
        name="local/400 shuffled k-RR",
        unit="tensor",
        claim=claim,
        proven=claim,
        about="crowds of reports",
        neighbours=lambda: [_BOUNDS],
        mechanism=many,
        samples=20_000,
    )


def _pairs(mechanism: LocalMechanism) -> Iterator[tuple[Array, Array]]:
    """Yield opposite ends; and for clamped answers one end against the last point but one, which is worse."""
    yield _corner(mechanism, -1.0), _corner(mechanism, 1.0)
    if isinstance(mechanism, DTLDP) and mechanism.clamp:
        yield _corner(mechanism, -1.0), _corner(mechanism, 1.0) - mechanism.step


def _corner(mechanism: LocalMechanism, sign: float) -> Array:
    """Return one end of what was declared: a corner of the cube, or of the ball's first axis.

    Where few entries can differ, all the others are in the middle.
    """
    x = np.zeros(mechanism.size)
    x[: 1 if mechanism.declared_bounds is None else getattr(mechanism, "differ", None)] = sign
    return x.reshape(mechanism.shape)
