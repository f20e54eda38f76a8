"""TLDP as printed by Yuan et al.: keep an entry as it is with probability p, else add Laplace or Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.privacy import Unit
from tensorveil.privacy.exact import positive
from tensorveil_evidence.published.tensor_noise import Array, TensorNoise
from tensorveil_evidence.published.truth import Truth, gaussian_truth, laplace_truth

READINGS = ("algorithm", "proof")
NOISES = ("laplace", "gaussian")


@dataclass(frozen=True, kw_only=True, eq=False)
class TLDP(TensorNoise):
    """TLDP-L, TLDP-G and their weighted forms, in both readings of p. For study: writes no release.

    Parameters
    ----------
    noise
        "laplace" (b = span / epsilon) or "gaussian" (sigma^2 = span^2 / (2 epsilon)).
    reading
        "algorithm": the exponent of Algorithm 1, epsilon - span / b = 0 for Laplace noise, and
        -span^2 / (2 sigma^2) = -epsilon for Gaussian noise; "proof": the exponent of the proofs and of Algorithm 2,
        epsilon - I span / b or epsilon - I span^2 / (2 sigma^2), which is (1 - I) epsilon for both.
    span
        What the paper calls Delta; 256 for bytes there.
    weights
        None, an array in [0, 1] of the tensor's shape, of its first modes' or of its last modes' (Algorithm 2; so a
        height x width matrix fits images with channels first or last, and a square one means the first modes), or
        "data": the
        values themselves, scaled to [0, 1] by the bounds, as in the paper's experiment with MNIST.
    others
        As for `TensorNoise`.

    Guarantee: none. A kept entry is an atom: seeing the exact value, probability p under this value and 0 under any
    other, so no finite epsilon holds; see `truth` and docs/published.md#tldp.

    >>> from tensorveil_evidence.published import TLDP
    >>> first = TLDP(shape=(28, 28), epsilon=1.0, bounds=(0, 255), span=256, noise="laplace", reading="algorithm")
    >>> truth = first.truth("local entry")
    >>> truth.pure, round(truth.least_delta, 5)
    (inf, 0.00195)
    """

    noise: str
    reading: str
    span: float
    weights: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in NOISES:
            raise InputError(f"noise must be one of {', '.join(NOISES)}; got {self.noise!r}.")
        if self.reading not in READINGS:
            raise InputError(f"reading must be one of {', '.join(READINGS)}; got {self.reading!r}.")
        object.__setattr__(self, "span", positive("span", self.span, "256"))
        if self.weights is not None and not isinstance(self.weights, str):
            object.__setattr__(self, "weights", self._checked_weights(self.weights))
        elif self.weights not in (None, "data"):
            raise InputError(f"weights must be numbers in [0, 1] or 'data'; got {self.weights!r}.")

    def _checked_weights(self, weights: Any) -> Array:
        given = np.asarray(weights, dtype=np.float64)
        spare = len(self.shape) - given.ndim
        first, last = self.shape[: given.ndim], self.shape[spare:] if spare >= 0 else ()
        if given.shape not in (first, last):
            raise InputError(
                f"weights must have the shape {self.shape}, or that of its first or last modes; got {given.shape}."
            )
        if not np.all((given >= 0) & (given <= 1)):
            raise InputError("weights must lie in [0, 1]. Rescale them.")
        ones = (1,) * spare
        placed = given.reshape(given.shape + ones if given.shape == first else ones + given.shape)
        return np.broadcast_to(placed, self.shape)

    @property
    def name(self) -> str:
        """TLDP-L, TLDP-G, TLDP-L-w or TLDP-G-w."""
        return f"TLDP-{self.noise[0].upper()}{'' if self.weights is None else '-w'}"

    @property
    def scale(self) -> float:
        """The scale b of Laplace noise, or the deviation sigma of Gaussian noise."""
        return self.span / self.epsilon if self.noise == "laplace" else self.span / math.sqrt(2 * self.epsilon)

    @property
    def keep(self) -> float:
        """The probability p to keep an entry, without weights; 0 where it is below the smallest float."""
        if self.reading == "proof":
            exponent = self.epsilon * (1 - self.size)
        else:
            exponent = 0.0 if self.noise == "laplace" else -self.epsilon
        density = 2 * self.scale if self.noise == "laplace" else self.scale * math.sqrt(2 * math.pi)
        return 1 / (1 + density * math.exp(-exponent)) if exponent > -700 else 0.0

    def _keeps(self, x: Array) -> Array | float:
        if self.weights is None:
            return self.keep
        weights = (x - self.bounds[0]) / self.width if isinstance(self.weights, str) else self.weights
        out: Array = (1 - weights) * self.keep
        return out

    def _noise(self, x: Array, rng: np.random.Generator) -> Array:
        drawn = rng.random(x.shape) > self._keeps(x)
        noise = rng.laplace(0, self.scale, x.shape) if self.noise == "laplace" else rng.normal(0, self.scale, x.shape)
        out: Array = np.where(drawn, noise, 0.0)
        return out

    def truth(self, unit: Unit | str, *, delta: float = 1e-5) -> Truth:
        """Say what really holds; with weights from the data, for tensors that keep the most (weights 0)."""
        entries = self.differing(unit)
        weights = self.weights if isinstance(self.weights, np.ndarray) else np.zeros(1)
        keep = self.keep * float(1 - weights.min())
        if self.noise == "laplace":
            return laplace_truth(Unit.parse(unit), self.width / self.scale, entries, keep, delta)
        return gaussian_truth(Unit.parse(unit), self.width * math.sqrt(entries) / self.scale, keep, entries, delta)

    @property
    def claim(self) -> str:
        """What the paper says."""
        theorem = "Theorem 1" if self.weights is None else "Theorem 3"
        return f"Claimed: {self.epsilon:g}-local differential privacy for whole tensors ({theorem})."

    def _more(self) -> tuple[str, ...]:
        if not isinstance(self.weights, str):
            return ()
        return (
            "Weights read off the values: the chance to keep depends on what is protected, and the proof, in which it "
            "is the same for both tensors, does not apply.",
        )

    @property
    def _noisy_share(self) -> float:
        weights = self.weights if isinstance(self.weights, np.ndarray) else np.zeros(1)
        return float(1 - self.keep * (1 - weights).mean())

    @property
    def rms_error(self) -> float:
        """sqrt((1 - p) I) times sqrt(2) b or sigma; with weights from the data, for weights 0."""
        deviation = self.scale * (math.sqrt(2) if self.noise == "laplace" else 1.0)
        return deviation * math.sqrt(self._noisy_share * self.size)

    @property
    def printed_error(self) -> float:
        """As printed: span / epsilon sqrt(2 (1 - p) I) and span / (2 epsilon) sqrt((1 - p) I)."""
        factor = math.sqrt(2) if self.noise == "laplace" else 0.5
        return factor * self.span / self.epsilon * math.sqrt(self._noisy_share * self.size)
