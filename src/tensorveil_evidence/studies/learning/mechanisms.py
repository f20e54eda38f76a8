"""The published mechanisms by name, what each is worth, and the nominal epsilon that is worth a given true one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorveil.privacy import ZCDP, Repeated, epsilon_for
from tensorveil.privacy.gdp import gdp_epsilon, gdp_mu
from tensorveil_evidence.published import IDN, MVG, TLDP, GaussianNoise, LaplaceNoise
from tensorveil_evidence.studies.learning.names import GAUSSIAN, LAPLACE

DELTA: Final = 1e-5
SPAN: Final = 256.0  # Delta in tables 2 to 4 of Yuan et al.
LARGEST: Final = 1000  # entries of tensors whose truth is computed by convolution
Shape = tuple[int, ...]
Bounds = tuple[float, float]


def _tldp(noise: str, reading: str, weights: str | None = None) -> Callable[..., Any]:
    def make(shape: Shape, epsilon: float, bounds: Bounds, span: float) -> TLDP:
        return TLDP(
            shape=shape, epsilon=epsilon, bounds=bounds, noise=noise, reading=reading, span=span, weights=weights
        )

    return make


def _laplace(shape: Shape, epsilon: float, bounds: Bounds, span: float) -> LaplaceNoise:
    return LaplaceNoise(shape=shape, epsilon=epsilon, bounds=bounds, span=span)


def _gaussian(shape: Shape, epsilon: float, bounds: Bounds, span: float) -> GaussianNoise:
    return GaussianNoise(shape=shape, epsilon=epsilon, bounds=bounds, calibration="paper", span=span)


def _mvg(shape: Shape, epsilon: float, bounds: Bounds, span: float) -> MVG:
    return MVG(shape=shape, epsilon=epsilon, bounds=bounds, delta=DELTA)


def _idn(shape: Shape, epsilon: float, bounds: Bounds, span: float) -> IDN:
    return IDN(shape=shape, epsilon=epsilon, bounds=bounds, delta=DELTA)


@dataclass(frozen=True, kw_only=True, eq=False)
class ByLayer:
    """MVG on parameters layer by layer: every matrix of weights and every vector of offsets by itself, in its own form.

    Epsilon and delta are shared out in equal parts, so that what is claimed of all layers together is what is claimed.
    """

    parts: tuple[MVG, ...]

    @classmethod
    def make(cls, shapes: Sequence[Shape], epsilon: float, bounds: Bounds) -> ByLayer:
        """Make the noise for these forms."""
        share = len(shapes)
        return cls(
            parts=tuple(
                MVG(shape=shape, epsilon=epsilon / share, bounds=bounds, delta=DELTA / share) for shape in shapes
            )
        )

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(part.size for part in self.parts)

    def status(self, unit: str) -> str:
        """Return "claimed" where the claims of all layers hold, and so their sum."""
        return "claimed" if all(part.holds(unit) for part in self.parts) else "refuted"

    def perturb(self, x: Any, random_state: Any = None) -> Any:
        """Perturb all parameters, given as one vector."""
        rng, at, out = np.random.default_rng(random_state), 0, []
        for part in self.parts:
            layer = np.asarray(x[at : at + part.size]).reshape(part.shape)
            out.append(part.perturb(layer, random_state=rng).reshape(-1))
            at += part.size
        return np.concatenate(out)


MAKERS: dict[str, Callable[..., Any]] = {
    "Laplace": _laplace,
    "Gaussian": _gaussian,
    "MVG": _mvg,
    "IDN": _idn,
    "TLDP-L": _tldp("laplace", "algorithm"),
    "TLDP-G": _tldp("gaussian", "algorithm"),
    "TLDP-L-w": _tldp("laplace", "algorithm", "data"),
    "TLDP-G-w": _tldp("gaussian", "algorithm", "data"),
    LAPLACE: _tldp("laplace", "proof"),
    GAUSSIAN: _tldp("gaussian", "proof"),
}


@dataclass(frozen=True, kw_only=True)
class Worth:
    """True epsilons at delta 1e-5 of what was published, by unit; infinite where none is finite."""

    tensor: float
    entry: float

    def note(self, nominal: float) -> str:
        """Say it in a few words."""
        return f"nominal {nominal:g}; true at delta {DELTA:g}: tensor {self.tensor:.4g}, local entry {self.entry:.4g}"


def worth(mechanism: Any, *, width: float | None = None, rounds: int = 1) -> Worth:
    """Say what is true of noise on a tensor whose entries differ by at most ``width``, repeated in rounds.

    In one round and at the mechanism's own width this is its `truth`, which convolves the losses of all entries and
    takes minutes for colour images. Over rounds, and for large tensors, Gaussian noise composes exactly; Laplace noise
    of ratio r is r-DP and so r^2/2-zCDP per entry (Bun and Steinke 2016), which adds up.
    """
    if width is None and rounds == 1 and mechanism.size <= LARGEST:
        return Worth(tensor=mechanism.truth("tensor").epsilon, entry=mechanism.truth("local entry").epsilon)
    return Worth(
        tensor=_worth(mechanism, width or mechanism.width, mechanism.size, rounds),
        entry=_worth(mechanism, width or mechanism.width, 1, rounds),
    )


def _worth(mechanism: Any, width: float, entries: int, rounds: int) -> float:
    if isinstance(mechanism, ByLayer):
        told = [(1 if entries == 1 else part.size) / part.sigma**2 for part in mechanism.parts]
        precision = max(told) if entries == 1 else sum(told)
        return gdp_epsilon(width * math.sqrt(precision * rounds), DELTA)
    keep = getattr(mechanism, "keep", 0.0)
    spare = DELTA + math.expm1(rounds * entries * math.log1p(-keep))  # what kept entries leave of delta
    if spare <= 0:
        return math.inf
    if isinstance(mechanism, LaplaceNoise) or getattr(mechanism, "noise", "") == "laplace":
        ratio, answers = width / mechanism.scale, entries * rounds
        return float(min(ratio * answers, epsilon_for(Repeated(ZCDP(0.5 * ratio**2), answers), spare)))
    sigma = mechanism.scale if isinstance(mechanism, TLDP) else mechanism.sigma
    return gdp_epsilon(width * math.sqrt(entries * rounds) / sigma, spare)


def nominal_for(make: Callable[[float], Any], target: float, true_of: Callable[[Any], float]) -> float:
    """Return the nominal epsilon whose true one is the target, from below, to a thousandth.

    The noise's scale is a power of the nominal epsilon, -1 for Laplace and -1/2 for Gaussian noise, and composed noise
    is nearly Gaussian: a few steps on mu find it.
    """
    power = 1.0 if isinstance(make(1.0), LaplaceNoise) else 2.0
    wanted, nominal = gdp_mu(target, DELTA), 1.0
    for _ in range(12):
        found = true_of(make(nominal))
        if target * (1 - 1e-3) <= found <= target:
            return nominal
        nominal *= ((1 - 2e-4) * wanted / gdp_mu(max(found, 1e-9), DELTA)) ** power
    return nominal
