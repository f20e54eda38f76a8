"""Types I and II: users perturb their tensors, or public features of them, and a server learns from the reports.

A record's tensor leaves its owner once, perturbed; its class leaves with it unprotected, as in Yuan et al. (section 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.learning.discriminant import Discriminant, fit_discriminant, moments_of_reports
from tensorveil.learning.encoding import Directions
from tensorveil.learning.samples import Samples
from tensorveil.local import LocalMechanism, PrivUnit
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Guarantee, Unit

__all__ = ["Reports", "learn_from_directions", "report"]

Array = NDArray[Any]
LABELS = "classes are public"
FEATURES = "what is reported of a tensor is computed from it alone, by a public map"


@dataclass(frozen=True, kw_only=True, eq=False)
class Reports:
    """What the server sees: perturbed tensors with their classes, and what each owner was promised."""

    samples: Samples
    guarantee: Guarantee
    mechanism: LocalMechanism


def report(
    samples: Samples,
    mechanism: LocalMechanism,
    *,
    encode: Callable[[Any], Array] | None = None,
    source: NoiseSource | None = None,
) -> Reports:
    """Perturb every record's tensor on its own, as its owner does before it leaves.

    Parameters
    ----------
    samples
        The records; their classes are not protected.
    mechanism
        A proven local mechanism, for tensors of the shape that ``encode`` returns; with ``encode``, of unit tensor.
    encode
        A public map of tensors, which must look at each on its own: features of a public network, `Directions`.
    source
        The secure source by default. A seeded one is for studies and tests, and protects nothing.

    Guarantee: that of the mechanism, for each record's tensor (docs/guarantees.md#reports-for-learning).

    >>> import numpy as np
    >>> from tensorveil.local import Hybrid
    >>> data = Samples(x=np.zeros((4, 3)), y=[0, 1, 0, 1], classes=2)
    >>> report(data, Hybrid(shape=(3,), epsilon=1.0, unit="tensor", bounds=(-1, 1))).guarantee.epsilon
    1.0
    """
    if encode is not None and Unit.parse(mechanism.unit) != Unit.tensor():
        raise InputError(
            "mechanism must have unit 'tensor', without differ, if tensors are encoded: an entry is part of every "
            "feature. Try PrivUnit or Hybrid, or leave encode out."
        )
    rows = samples.x if encode is None else encode(samples.x)
    if len(rows) != len(samples):
        raise InputError("encode must return one tensor for every tensor.")
    promise = mechanism.guarantee(source=source)
    more = (LABELS,) if encode is None else (FEATURES, LABELS)
    return Reports(
        samples=samples.with_x(mechanism.perturb(rows, source=source)),
        guarantee=replace(promise, conditions=(*promise.conditions, *more)),
        mechanism=mechanism,
    )


def learn_from_directions(
    samples: Samples, directions: Directions, *, epsilon: float, source: NoiseSource | None = None
) -> tuple[Discriminant, Guarantee]:
    """Report every tensor's direction by PrivUnit, and fit a discriminant that accounts for the noise.

    Parameters
    ----------
    samples
        The records; their classes are not protected.
    directions
        Which direction of a tensor is reported: public, declared.
    epsilon
        The budget of each record's whole tensor; pure, without a trusted collector.
    source
        As for `report`.

    Guarantee: epsilon for each record's tensor (docs/guarantees.md#reports-for-learning).

    >>> import numpy as np
    >>> from tensorveil.local import Basis
    >>> x = np.repeat(np.eye(2), 500, axis=0)
    >>> data = Samples(x=x, y=np.repeat([0, 1], 500), classes=2)
    >>> found, promise = learn_from_directions(data, Directions(basis=Basis.dct((2,), 2), centre=0.0), epsilon=4.0)
    >>> found.predict(np.eye(2)).tolist(), promise.epsilon
    ([0, 1], 4.0)
    """
    mechanism = PrivUnit(shape=(directions.dimension,), epsilon=epsilon, unit="tensor", radius=1.0)
    seen = report(samples, mechanism, encode=directions, source=source)
    moments = moments_of_reports(seen.samples.x, seen.samples.y, samples.classes)
    return fit_discriminant(moments, directions), seen.guarantee
