"""Published mechanisms for tensors that leave their owner (Yuan et al.) and the recipe of Guo, under audit.

Their noise is drawn in floating point, which its low bits betray (`published/laplace in floating point`); here the
law and its atoms are looked at, so that what is found is the fault of the mechanism and not of its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil_evidence.published import DPHSGD, IDN, LLAGP, MVG, TLDP, GaussianNoise, LaplaceNoise
from tensorveil_evidence.published.noise import uniform_times_exponential
from tensorveil_evidence.published.tensor_noise import TensorNoise
from tensorveil_evidence.subjects.subject import BlackBox

Array = NDArray[Any]

_BYTES = (0.0, 255.0)
_SMALL = (2, 2)
_IMAGE = (28, 28)
_LAW = ("law", "atom")


def published_local_subjects() -> Iterator[BlackBox]:
    """Yield TLDP in both readings and units, weighted TLDP, the baselines, and Guo's noise."""
    for noise in ("laplace", "gaussian"):
        letter = noise[0].upper()
        first = TLDP(shape=_SMALL, epsilon=1.0, bounds=_BYTES, span=256, noise=noise, reading="algorithm")
        yield _subject(f"published/TLDP-{letter}, first reading", first, "tensor")
        yield _subject(f"published/TLDP-{letter}, first reading, entry", first, "local entry")
        second = TLDP(shape=(3, 3), epsilon=1.0, bounds=_BYTES, span=256, noise=noise, reading="proof")
        yield _subject(f"published/TLDP-{letter}, second reading", second, "tensor", kinds=("law",))
        image = TLDP(shape=_IMAGE, epsilon=1.0, bounds=_BYTES, span=256, noise=noise, reading="proof")
        yield _subject(f"published/TLDP-{letter}, second reading, entry", image, "local entry", entries=1)
    yield from _weighted_subjects()
    cube: dict[str, Any] = {"shape": _SMALL, "epsilon": 1.0, "bounds": (-1.0, 1.0)}
    yield _subject("published/Laplace baseline", LaplaceNoise(span=2.0, **cube), "tensor")
    yield _subject("published/Gaussian baseline", GaussianNoise(calibration="classic", delta=1e-5, **cube), "tensor")
    yield _subject("published/Gaussian as printed", GaussianNoise(calibration="paper", span=2.0, **cube), "tensor")
    yield _subject("published/IDN", IDN(delta=1e-5, **cube), "tensor")
    yield _subject("published/MVG", MVG(delta=1e-5, **cube), "tensor")
    directions: dict[str, Any] = {"directions": np.eye(2), "shares": np.array([0.8, 0.2])}
    yield _subject("published/MVG, directional", MVG(delta=1e-5, **directions, **cube), "tensor")
    yield from _gradients()
    yield _recipe()


def _subject(
    name: str, mechanism: TensorNoise, unit: str, *, kinds: tuple[str, ...] = _LAW, entries: int | None = None
) -> BlackBox:
    """Audit a mechanism on tensors that differ as the unit says; ``entries``: look at the first so many only."""

    def many(x: Array, rng: np.random.Generator, n: int) -> Array:
        tiled = np.broadcast_to(x, (n, *x.shape))
        if isinstance(mechanism, MVG):
            return np.asarray(mechanism.perturb(tiled, rng))
        # Noise entry by entry can be drawn for all tensors at once.
        return (tiled + mechanism._noise(tiled, rng)).reshape(n, -1)

    return BlackBox(
        name=name,
        unit=unit,
        claim=Claim(epsilon=mechanism.epsilon, delta=mechanism.delta),
        proven=_proven(mechanism, unit),
        about="reports" if entries is None else "the entry that differs",
        neighbours=lambda: [_ends(mechanism, unit, entries)],
        mechanism=many,
        kinds=kinds,
    )


def _proven(mechanism: TensorNoise, unit: str) -> Claim | None:
    """Return what is true of the law, at the claim's delta."""
    truth = mechanism.truth(unit, delta=mechanism.delta or 1e-5)
    if mechanism.delta:
        return Claim(epsilon=truth.epsilon, delta=mechanism.delta)
    return Claim(epsilon=truth.pure) if math.isfinite(truth.pure) else None


def _ends(mechanism: TensorNoise, unit: str, entries: int | None) -> tuple[Array, Array]:
    """Return a tensor at the lower bound, and one with all entries, or the first, at the upper bound.

    Entries get noise of their own, so those that do not differ tell nothing and may be left out.
    """
    shape = mechanism.shape if entries is None else (entries,)
    low, high = np.full(shape, mechanism.bounds[0]), np.full(shape, mechanism.bounds[0])
    if unit == "tensor":
        high[...] = mechanism.bounds[1]
    else:
        high.flat[0] = mechanism.bounds[1]
    return low, high


def _weighted_subjects() -> Iterator[BlackBox]:
    """Yield weighted TLDP at an entry of weight 1, which is never kept: with public weights, and with the data's."""
    settings: dict[str, Any] = {"epsilon": 1.0, "bounds": _BYTES, "span": 256, "noise": "laplace"}
    public = TLDP(shape=(1, 1), reading="algorithm", weights=np.ones((1, 1)), **settings)
    yield _subject("published/TLDP-L-w, public weights, entry of weight 1", public, "local entry")
    data = TLDP(shape=(1, 1), reading="algorithm", weights="data", **settings)
    yield _subject("published/TLDP-L-w, weights of the data, entry", data, "local entry")


def _gradients() -> Iterator[BlackBox]:
    """Yield one step of each, on three examples of which one may have no gradient: their number is public here."""
    layers = LLAGP(clip_norms=(1.0, 2.0), noise_multiplier=1.0, steps=1, kappa=0.5)
    curved = DPHSGD(clip_norm=1.0, clip_range=(0.5, 2.0), noise_multiplier=1.0, layers=2, steps=1)
    clips = curved.thresholds([1.0, 1.0], [1.0, 4.0])
    steps = {
        "LLAGP": (1.0, lambda layers_of, rng: layers.noisy_means(layers_of, 1, rng)),
        "DPHSGD": (math.sqrt(2.0), lambda layers_of, rng: curved.noisy_means(layers_of, clips, rng)),
    }
    for name, (mu, step) in steps.items():
        yield BlackBox(
            name=f"published/{name}, one step",
            unit="entry",
            claim=Claim(mu=mu),
            proven=Claim(mu=mu),
            about="noisy gradients",
            neighbours=lambda: [(_examples(5.0), _examples(0.0))],
            mechanism=lambda layers_of, rng, step=step: np.concatenate([g.reshape(-1) for g in step(layers_of, rng)]),
            batched=False,
            kinds=("law",),
            samples=4_000,
            many=200_000,
        )


def _examples(first: float) -> list[Array]:
    """Return gradients of three examples for two layers; the first example's are long, or none at all."""
    return [np.array([[first, first], [1.0, 0.0], [0.0, -1.0]]), np.array([[first], [0.5], [0.3]])]


def _recipe() -> BlackBox:
    def many(value: float, rng: np.random.Generator, n: int) -> Array:
        noisy: Array = value + uniform_times_exponential(rng, n, 1.0)
        return noisy

    return BlackBox(
        name="published/matrix noise of Guo",
        unit="value",
        claim=Claim(epsilon=1.0),
        proven=None,
        about="perturbed values",
        neighbours=lambda: [(0.0, 1.0)],
        mechanism=many,
        kinds=("law",),
    )
