"""The baselines of Yuan et al. for whole tensors: Laplace, Gaussian, matrix-variate Gaussian, directional noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.privacy import Unit
from tensorveil_evidence.published.tensor_noise import Array, TensorNoise, check_delta
from tensorveil_evidence.published.truth import Truth, gaussian_truth, laplace_truth


def zeta(size: int, delta: float) -> float:
    """Return sqrt(-2 ln delta + 2 sqrt(-I ln delta) + I), a bound on a Gaussian vector's norm up to delta."""
    log = -math.log(delta)
    return math.sqrt(2 * log + 2 * math.sqrt(size * log) + size)


@dataclass(frozen=True, kw_only=True, eq=False)
class LaplaceNoise(TensorNoise):
    """Laplace noise of scale I span / epsilon on every entry (Theorem 2 of Yuan et al.).

    Guarantee (in exact arithmetic, not for this noise): epsilon for whole tensors, if span covers the range.

    >>> from tensorveil_evidence.published import LaplaceNoise
    >>> LaplaceNoise(shape=(2, 2), epsilon=1.0, bounds=(0, 1), span=1.0).truth("tensor").pure
    1.0
    """

    span: float

    @property
    def name(self) -> str:
        """Laplace."""
        return "Laplace"

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return self.size * self.span / self.epsilon

    def _noise(self, x: Array, rng: np.random.Generator) -> Array:
        return rng.laplace(0, self.scale, x.shape)

    def truth(self, unit: Unit | str, *, delta: float = 1e-5) -> Truth:
        """Say what really holds."""
        return laplace_truth(Unit.parse(unit), self.width / self.scale, self.differing(unit), 0.0, delta)

    @property
    def rms_error(self) -> float:
        """sqrt(2 I) times the scale."""
        return self.scale * math.sqrt(2 * self.size)

    @property
    def printed_error(self) -> float:
        """As printed: span / epsilon I sqrt(2 I)."""
        return self.span / self.epsilon * self.size * math.sqrt(2 * self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class IsotropicGaussian(TensorNoise):
    """Common part of Gaussian noise of one deviation on every entry."""

    @property
    def sigma(self) -> float:
        """The deviation of the noise."""
        raise NotImplementedError

    def _noise(self, x: Array, rng: np.random.Generator) -> Array:
        return rng.normal(0, self.sigma, x.shape)

    def truth(self, unit: Unit | str, *, delta: float = 1e-5) -> Truth:
        """Say what really holds: mu = sensitivity / sigma."""
        entries = self.differing(unit)
        return gaussian_truth(Unit.parse(unit), self.width * math.sqrt(entries) / self.sigma, 0.0, entries, delta)

    @property
    def rms_error(self) -> float:
        """sqrt(I) times the deviation."""
        return self.sigma * math.sqrt(self.size)

    @property
    def sensitivity(self) -> float:
        """The largest distance of two tensors: width times sqrt(I)."""
        return self.width * math.sqrt(self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianNoise(IsotropicGaussian):
    """Gaussian noise, "classic": sigma = s sqrt(2 ln(1.25 / delta)) / eps, or "paper": sigma^2 = I span^2 / (2 eps).

    Guarantee (in exact arithmetic, not for this noise): "classic" is (epsilon, delta) for epsilon up to 1, with room to
    spare, and not in general beyond; "paper" claims pure epsilon, which Gaussian noise never has.

    >>> from tensorveil_evidence.published import GaussianNoise
    >>> round(GaussianNoise(shape=(28, 28), epsilon=1.0, bounds=(-1, 1), calibration="classic", delta=1e-5).sigma)
    271
    """

    calibration: str
    delta: float = 0.0
    span: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration not in ("classic", "paper"):
            raise InputError(f"calibration must be 'classic' or 'paper'; got {self.calibration!r}.")
        if self.calibration == "classic":
            object.__setattr__(self, "delta", check_delta(self.delta))
        elif self.span is None or self.delta:
            raise InputError("calibration 'paper' needs a span and claims delta 0. Try span=256.")

    @property
    def name(self) -> str:
        """Gaussian."""
        return "Gaussian"

    @property
    def sigma(self) -> float:
        """The deviation of the noise."""
        if self.calibration == "classic":
            return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
        assert self.span is not None
        return self.span * math.sqrt(self.size / (2 * self.epsilon))

    @property
    def claim(self) -> str:
        """What is claimed."""
        if self.calibration == "paper":
            return super().claim
        return f"Claimed: ({self.epsilon:g}, {self.delta:g})-differential privacy for whole tensors."

    @property
    def printed_error(self) -> float:
        """As printed: span / (2 epsilon) I sqrt(I)."""
        return (self.span or self.width) / (2 * self.epsilon) * self.size * math.sqrt(self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class IDN(IsotropicGaussian):
    """Independent directional noise, also called TVG (Yang et al. 2021), with the identity as utility subspace.

    sigma = s / (-zeta + sqrt(zeta^2 + 2 epsilon)).

    Guarantee (in exact arithmetic, not for this noise): (epsilon, delta) for whole tensors, with much room to spare.

    >>> from tensorveil_evidence.published import IDN
    >>> round(IDN(shape=(28, 28), epsilon=1.0, bounds=(-1, 1), delta=1e-5).sigma)
    1769
    """

    delta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", check_delta(self.delta))

    @property
    def name(self) -> str:
        """IDN."""
        return "IDN"

    @property
    def sigma(self) -> float:
        """The deviation of the noise."""
        z = zeta(self.size, self.delta)
        # -z + sqrt(z^2 + 2 eps), without cancellation
        return self.sensitivity * (z + math.sqrt(z * z + 2 * self.epsilon)) / (2 * self.epsilon)

    @property
    def claim(self) -> str:
        """What is claimed."""
        return f"Claimed: ({self.epsilon:g}, {self.delta:g})-differential privacy for whole tensors."

    @property
    def printed_error(self) -> float:
        """As printed: span I sqrt(I) / (sqrt(2) epsilon), with the width as span."""
        return self.width * self.size * math.sqrt(self.size) / (math.sqrt(2) * self.epsilon)


@dataclass(frozen=True, kw_only=True, eq=False)
class MVG(IsotropicGaussian):
    """Matrix-variate Gaussian noise (Chanyaswad et al. 2018) on the unfolding along a mode; isotropic or directional.

    Directional noise takes ``directions``, a public orthogonal matrix W of the rows, and ``shares`` theta of the
    precision that sum to 1: row covariance W diag(1 / sqrt(theta_i B^2 / n)) W', identity between columns.

    Guarantee (in exact arithmetic, not for this noise): (epsilon, delta) for whole tensors, with room for much more.

    >>> from tensorveil_evidence.published import MVG
    >>> mvg = MVG(shape=(28, 28), epsilon=1.0, bounds=(-1, 1), delta=1e-5)
    >>> f"{mvg.sigma:.3g} {mvg.truth('tensor').epsilon:.2g}"
    '1.94e+05 0.00041'
    """

    delta: float = 0.0
    mode: int = 0
    directions: Any = None
    shares: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", check_delta(self.delta))
        if not 0 <= self.mode < len(self.shape):
            raise InputError(f"mode must be one of the tensor's; got {self.mode}. Try mode=0.")
        if (self.shares is None) != (self.directions is None):
            raise InputError(
                "directions and shares go together. Try directions=numpy.eye(rows), shares=[1/rows] * rows."
            )
        if self.shares is not None:
            self._check_directions()

    def _check_directions(self) -> None:
        rows = self.shape[self.mode]
        basis = np.asarray(self.directions, dtype=np.float64)
        if basis.shape != (rows, rows) or not np.allclose(basis @ basis.T, np.eye(rows), atol=1e-8):
            raise InputError(f"directions must be an orthogonal matrix of {rows} rows. Try numpy.eye({rows}).")
        shares = np.asarray(self.shares, dtype=np.float64)
        if shares.shape != (rows,) or not np.all(shares > 0) or abs(shares.sum() - 1) > 1e-9:
            raise InputError(f"shares must be {rows} numbers above 0 that sum to 1.")
        object.__setattr__(self, "directions", basis)
        object.__setattr__(self, "shares", shares)

    @property
    def name(self) -> str:
        """MVG."""
        return "MVG" if self.shares is None else "MVG, directional"

    @property
    def precision(self) -> float:
        """The bound B on the product of the norms of the two precision matrices' singular values."""
        m, n = self.shape[self.mode], self.size // self.shape[self.mode]
        r = min(m, n)
        harmonic = sum(1 / i for i in range(1, r + 1))
        rooted = sum(1 / math.sqrt(i) for i in range(1, r + 1))
        largest = max(abs(bound) for bound in self.bounds) * math.sqrt(self.size)
        alpha = (harmonic + rooted) * largest**2 + 2 * harmonic * largest * self.sensitivity
        beta = 2 * (m * n) ** 0.25 * zeta(m * n, self.delta) * harmonic * self.sensitivity
        root = math.sqrt(beta**2 + 8 * alpha * self.epsilon)
        return float((8 * alpha * self.epsilon / (beta + root)) ** 2 / (4 * alpha**2))

    @property
    def sigma(self) -> float:
        """The deviation of isotropic noise: sigma^2 = sqrt(m n) / B."""
        return math.sqrt(math.sqrt(self.size) / self.precision)

    @property
    def row_variances(self) -> Array:
        """The variances along the directions."""
        columns = self.size // self.shape[self.mode]
        out: Array = 1 / np.sqrt(np.asarray(self.shares) * self.precision**2 / columns)
        return out

    def _noise(self, x: Array, rng: np.random.Generator) -> Array:
        if self.shares is None:
            return super()._noise(x, rng)
        rows = self.shape[self.mode]
        plain = rng.normal(size=(rows, self.size // rows))
        turned = self.directions @ (np.sqrt(self.row_variances)[:, None] * plain)
        rest = tuple(n for k, n in enumerate(self.shape) if k != self.mode)
        out: Array = np.moveaxis(turned.reshape(rows, *rest), 0, self.mode)
        return out

    def truth(self, unit: Unit | str, *, delta: float = 1e-5) -> Truth:
        """Say what really holds; for directional noise an upper bound, by the smallest variance."""
        if self.shares is None:
            return super().truth(unit, delta=delta)
        entries = self.differing(unit)
        mu = self.width * math.sqrt(entries) / math.sqrt(float(self.row_variances.min()))
        if entries > 1 and np.array_equal(self.directions, np.eye(len(self.shares))):
            columns = self.size // self.shape[self.mode]
            mu = self.width * math.sqrt(columns * float((1 / self.row_variances).sum()))
        return gaussian_truth(Unit.parse(unit), mu, 0.0, entries, delta)

    @property
    def rms_error(self) -> float:
        """The root of the sum of all variances."""
        if self.shares is None:
            return super().rms_error
        return math.sqrt(self.size // self.shape[self.mode] * float(self.row_variances.sum()))

    @property
    def claim(self) -> str:
        """What is claimed."""
        return f"Claimed: ({self.epsilon:g}, {self.delta:g})-differential privacy for whole tensors."

    @property
    def printed_error(self) -> float:
        """As printed: span I I sqrt(I) / (sqrt(2) epsilon) ln^2(I_1 + 1), with the width as span."""
        log = math.log(self.shape[0] + 1)
        return self.width * self.size**2 * math.sqrt(self.size) / (math.sqrt(2) * self.epsilon) * log**2
