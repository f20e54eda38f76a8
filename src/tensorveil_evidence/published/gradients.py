"""LLAGP and DPHSGD, the two baselines of Yuan et al. for gradients of models, layer by layer.

Both papers leave details out. What is here is a reconstruction: adaptive shares of the budget by layer, and clipping
thresholds from an estimate of the Hessian's diagonal. Gradients come per example, one array (examples, ...) per layer,
or as `LinearGradients`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy import Gaussian, Guarantee, Part, Repeated, Unit, epsilon_for
from tensorveil.privacy.exact import positive, probability
from tensorveil_evidence.published.array_kinds import as_floats
from tensorveil_evidence.published.claims import NOISE
from tensorveil_evidence.published.layer_gradients import LinearGradients

Array = NDArray[Any]
PAGE = "docs/published.md#gradients"


def clipped_sum(gradients: Array, clip_norm: float) -> Array:
    """Return the sum of per-example gradients, each shortened to the clip norm."""
    flat = gradients.reshape(len(gradients), -1)
    norms = np.linalg.norm(flat, axis=1)
    factors = np.minimum(1.0, clip_norm / np.maximum(norms, 1e-300))
    out: Array = (flat * factors[:, None]).sum(axis=0).reshape(gradients.shape[1:])
    return out


def _noisy_means(
    layers: Sequence[Any], clips: Sequence[float], sigmas: Sequence[float], random_state: Any
) -> list[Any]:
    """Return per layer the noisy mean of clipped gradients, in the kind of array that was given."""
    rng = np.random.default_rng(random_state)
    out = []
    for layer, clip, sigma in zip(layers, clips, sigmas, strict=True):
        back: Callable[[Array], Any] = np.asarray
        if isinstance(layer, LinearGradients):
            total = layer.clipped_sum(clip)
        else:
            values, back = as_floats(layer)
            if values.ndim < 1:
                raise InputError("gradients must come per example, along a leading axis.")
            total = clipped_sum(values, clip)
        out.append(back(np.asarray((total + rng.normal(0, sigma, total.shape)) / len(layer))))
    return out


def _guarantee(name: str, mu: float, steps: int, delta: float, notes: tuple[str, ...]) -> Guarantee:
    event = Repeated(Gaussian(mu), steps)
    return Guarantee(
        unit=Unit.entry(),
        epsilon=epsilon_for(event, delta),
        delta=delta,
        composition=(Part(name="gradients", statistic="clipped sums over examples", event=event),),
        released=("noisy gradients",),
        status="claimed",
        proof=PAGE,
        secure_noise=False,
        bounds=None,
        mechanism=name,
        notes=(*notes, NOISE),
    )


@dataclass(frozen=True, kw_only=True)
class LLAGP:
    """Layer-level adaptive gradient perturbation (Zhang et al. 2025), reconstructed. For study: writes no release.

    At step t of T, layer l of L gets the share a_l = (1 + kappa (t / T) (L + 1 - 2 l) / (L - 1)) / L of the budget: the
    first layers more, the last ones less, ever more so. Its gradients are clipped to C_l and get noise of deviation
    C_l z / sqrt(a_l).

    Parameters
    ----------
    clip_norms
        C_l, one per layer.
    noise_multiplier
        Z.
    steps
        T.
    kappa
        Between 0 and 1.

    Guarantee (in exact arithmetic, not for this noise): each step is 1/z-GDP for adding or removing one example where
    the number of examples, by which the sum is divided, is public; the shares sum to 1. Sampling is not counted.

    >>> from tensorveil_evidence.published import LLAGP
    >>> LLAGP(clip_norms=(1.0, 1.0), noise_multiplier=2.0, steps=10, kappa=0.5).shares(10).tolist()
    [0.75, 0.25]
    """

    clip_norms: tuple[float, ...]
    noise_multiplier: float
    steps: int
    kappa: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip_norms", tuple(positive("clip_norms", c) for c in self.clip_norms))
        if not self.clip_norms:
            raise InputError("clip_norms must hold one number per layer. Try clip_norms=(1.0,).")
        positive("noise_multiplier", self.noise_multiplier)
        if self.steps < 1 or not 0 <= self.kappa < 1:
            raise InputError("steps must be at least 1, kappa at least 0 and below 1. Try steps=100, kappa=0.5.")

    def shares(self, step: int) -> Array:
        """Return the layers' shares of the budget at a step (1 .. steps)."""
        if not 0 <= step <= self.steps:
            raise InputError(f"step must be between 0 and {self.steps}; got {step}.")
        count = len(self.clip_norms)
        if count == 1:
            return np.ones(1)
        place = (count + 1 - 2 * np.arange(1, count + 1)) / (count - 1)
        out: Array = (1 + self.kappa * step / self.steps * place) / count
        return out

    def noisy_means(self, gradients: Sequence[Any], step: int, random_state: Any = None) -> list[Any]:
        """Return noisy mean gradients of all layers, from per-example gradients."""
        if len(gradients) != len(self.clip_norms):
            raise InputError("gradients must hold one array per layer, as clip_norms does.")
        roots = np.sqrt(self.shares(step)).tolist()
        sigmas = [c * self.noise_multiplier / root for c, root in zip(self.clip_norms, roots, strict=True)]
        return _noisy_means(gradients, self.clip_norms, sigmas, random_state)

    def guarantee(self, delta: float) -> Guarantee:
        """Say what holds for all steps together, in exact arithmetic."""
        notes = (
            "A reconstruction. True in exact arithmetic where the number of examples is public: shares sum to 1, so a "
            "step is 1/z-GDP. Means over a private number of examples tell that number.",
        )
        return _guarantee("LLAGP", 1 / self.noise_multiplier, self.steps, probability("delta", delta), notes)


@dataclass(frozen=True, kw_only=True)
class DPHSGD:
    """Clipping thresholds from the Hessian's diagonal (Tan et al. 2025), reconstructed. For study: writes no release.

    Layer by layer C_t = clamp(C_0 (mean |D_0| / mean |D_t|)^(1/2), C_min, C_max), with D the diagonal at the start and
    now; gradients are clipped to C_t and get noise of deviation z C_t.

    Parameters
    ----------
    clip_norm
        C_0.
    clip_range
        (C_min, C_max).
    noise_multiplier
        Z.
    layers
        Their number L.
    steps
        How many steps will be made.

    Guarantee (in exact arithmetic, not for this noise): each step is sqrt(L)/z-GDP for adding or removing one example,
    if the number of examples is public and curvatures come from released noisy gradients or public data.

    >>> from tensorveil_evidence.published import DPHSGD
    >>> dphsgd = DPHSGD(clip_norm=1.0, clip_range=(0.1, 2.0), noise_multiplier=1.0, layers=2, steps=10)
    >>> dphsgd.thresholds([4.0, 1.0], [1.0, 100.0])
    [2.0, 0.1]
    """

    clip_norm: float
    clip_range: tuple[float, float]
    noise_multiplier: float
    layers: int
    steps: int

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)
        positive("noise_multiplier", self.noise_multiplier)
        low, high = (positive("clip_range", c) for c in self.clip_range)
        if low > high or self.layers < 1 or self.steps < 1:
            raise InputError("clip_range must be (lowest, highest), layers and steps at least 1.")

    def thresholds(self, first: Sequence[float], now: Sequence[float]) -> list[float]:
        """Return the clip norm of every layer from the mean absolute curvatures at the start and now."""
        low, high = self.clip_range
        return [
            min(max(self.clip_norm * math.sqrt(max(a, 1e-300) / max(b, 1e-300)), low), high)
            for a, b in zip(first, now, strict=True)
        ]

    def noisy_means(self, gradients: Sequence[Any], clips: Sequence[float], random_state: Any = None) -> list[Any]:
        """Return noisy mean gradients of all layers, from per-example gradients and `thresholds`."""
        if not len(gradients) == len(clips) == self.layers:
            raise InputError(f"gradients and clips must hold {self.layers} layers each.")
        return _noisy_means(gradients, clips, [self.noise_multiplier * c for c in clips], random_state)

    def guarantee(self, delta: float) -> Guarantee:
        """Say what holds for all steps together, in exact arithmetic."""
        notes = (
            "A reconstruction. True in exact arithmetic where the number of examples is public and curvatures come "
            "from released or public numbers.",
        )
        mu = math.sqrt(self.layers) / self.noise_multiplier
        return _guarantee("DPHSGD", mu, self.steps, probability("delta", delta), notes)


def hutchinson_diagonal(
    product: Callable[[list[Array]], Sequence[Any]], shapes: Sequence[tuple[int, ...]], probes: int, random_state: Any
) -> list[Array]:
    """Estimate the diagonal of a Hessian, layer by layer: the mean of v * (H v) over random signs v (Hutchinson).

    ``product`` gives H v for a list of arrays v, from public data or from released noisy gradients only.
    """
    if probes < 1:
        raise InputError(f"probes must be at least 1; got {probes}. Try probes=10.")
    rng = np.random.default_rng(random_state)
    sums = [np.zeros(shape) for shape in shapes]
    for _ in range(probes):
        signs = [rng.choice([-1.0, 1.0], size=shape) for shape in shapes]
        for total, sign, image in zip(sums, signs, product(signs), strict=True):
            total += sign * np.asarray(image, dtype=np.float64)
    return [total / probes for total in sums]
