"""Problems with planted answers: low-rank tensors whose clean values are known everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import checks
from tensorveil.tensor.observed import ObservedTensor

Kind = Literal["cp", "tucker"]
Scaling = Literal["minmax", "none"]
SnrDefinition = Literal["variance", "power", "norm", "db"]
RandomState = int | np.random.Generator | None
FloatArray = NDArray[np.float64]

# Above this many cells the clean tensor is not built: everything is computed at the observed entries.
DENSE_CELLS = 1 << 22
CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A completion problem whose answer is known.

    `train` and `held_out` hold noisy observed values; `clean_at` gives the planted value anywhere.
    The clean value is `(low-rank value - offset) / scale`.
    """

    kind: Kind
    train: ObservedTensor
    held_out: ObservedTensor
    factors: tuple[FloatArray, ...]
    core: FloatArray | None
    offset: float
    scale: float
    noise_variance: float
    clean: FloatArray | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.train.shape

    @property
    def held_out_clean(self) -> ObservedTensor:
        """The held-out part with its clean values."""
        return self.held_out.with_values(self.clean_at(self.held_out.coords))

    def clean_at(self, coords: ArrayLike) -> FloatArray:
        """Return planted values at coordinates (n, order), computed from the factors."""
        columns = checks.as_columns(coords)
        checks.as_shape(self.shape, columns)
        return (_low_rank_at(columns, self.factors, self.core) - self.offset) / self.scale

    def clean_rmse(self, predicted: ArrayLike) -> float:
        """Return the root mean square error of predictions on the held-out part, against its clean values."""
        numbers = checks.as_values(predicted, self.held_out.n_entries)
        return float(np.sqrt(np.mean((numbers - self.clean_at(self.held_out.coords)) ** 2)))


def synthetic_cp(
    shape: Sequence[int],
    rank: int,
    *,
    snr: float = 1.0,
    snr_definition: SnrDefinition = "variance",
    missing: float = 0.5,
    n_entries: int | None = None,
    held_out: float = 0.2,
    scaling: Scaling = "minmax",
    dtype: Any = np.float64,
    random_state: RandomState = None,
) -> Problem:
    """Plant a CP tensor: standard normal factors with columns of unit length.

    Parameters
    ----------
    shape
        Size of every mode.
    rank
        Number of components.
    snr
        Signal-to-noise ratio, which sets the variance s^2 of the Gaussian noise; `snr=math.inf` adds none.
    snr_definition
        What the ratio is: "variance": var(clean)/s^2; "power": mean(clean^2)/s^2; "norm": the square root of
        that, |clean|/|noise|; "db": 10 log10(var(clean)/s^2).
    missing
        Share of missing cells. Cells are drawn uniformly, without replacement.
    n_entries
        Instead of `missing`: the number of observed entries.
    held_out
        Share of the observed entries that is held out.
    scaling
        "minmax" scales the clean tensor to [0, 1]; "none" leaves it.
        Tensors of more than 4 million cells are never built: their range and variance are taken over
        the observed entries, and `Problem.clean` is None.
    dtype
        Of the observed values, float64 or float32.
    random_state
        Seed or numpy Generator.

    >>> problem = synthetic_cp((20, 20, 20), 3, random_state=0)
    >>> problem.train.n_entries, problem.held_out.n_entries
    (3200, 800)
    """
    sizes = checks.check_shape(shape)
    _check_rank(rank, "rank")
    count = _n_observed(sizes, missing, n_entries, held_out)
    rng = np.random.default_rng(random_state)
    factors = []
    for size in sizes:
        factor = rng.standard_normal((size, rank))
        factors.append(factor / np.linalg.norm(factor, axis=0))
    return _plant(rng, "cp", tuple(factors), None, snr, snr_definition, count, held_out, scaling, dtype)


def synthetic_tucker(
    shape: Sequence[int],
    rank: int | Sequence[int],
    *,
    snr: float = 1.0,
    snr_definition: SnrDefinition = "variance",
    missing: float = 0.5,
    n_entries: int | None = None,
    held_out: float = 0.2,
    scaling: Scaling = "minmax",
    dtype: Any = np.float64,
    random_state: RandomState = None,
) -> Problem:
    """Plant a Tucker tensor: orthonormal factor columns and a standard normal core.

    `rank` is one number or one per mode; the other parameters are those of `synthetic_cp`.

    >>> synthetic_tucker((20, 20, 20), 3, random_state=0).core.shape
    (3, 3, 3)
    """
    sizes = checks.check_shape(shape)
    ranks = (rank,) * len(sizes) if isinstance(rank, int) else tuple(rank)
    if len(ranks) != len(sizes):
        raise InputError(f"rank must be one number or one per mode, {len(sizes)}; got {len(ranks)}.")
    for size, width in zip(sizes, ranks, strict=True):
        _check_rank(width, "rank")
        if width > size:
            raise InputError(f"rank must not exceed the size of its mode, {size}; got {width}.")
    count = _n_observed(sizes, missing, n_entries, held_out)
    rng = np.random.default_rng(random_state)
    factors = tuple(
        np.linalg.qr(rng.standard_normal((size, width)))[0] for size, width in zip(sizes, ranks, strict=True)
    )
    core = rng.standard_normal(ranks)
    return _plant(rng, "tucker", factors, core, snr, snr_definition, count, held_out, scaling, dtype)


def paper_problem(
    kind: Kind = "cp",
    *,
    missing: float = 0.5,
    snr: float = 1.0,
    snr_definition: SnrDefinition = "variance",
    random_state: RandomState = None,
) -> Problem:
    """Return the reference problem of the tensor-completion study: 20 x 20 x 20, rank 3, SNR 1, half missing.

    The clean tensor is scaled to [0, 1], Gaussian noise is added, the observed entries are split 80/20.
    """
    checks.check_choice("kind", kind, Kind)
    make = synthetic_cp if kind == "cp" else synthetic_tucker
    return make((20, 20, 20), 3, snr=snr, snr_definition=snr_definition, missing=missing, random_state=random_state)


def _check_rank(rank: int, name: str) -> None:
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise InputError(f"{name} must be an integer of at least 1; got {rank!r}. Try {name}=3.")


def _plant(
    rng: np.random.Generator,
    kind: Kind,
    factors: tuple[FloatArray, ...],
    core: FloatArray | None,
    snr: float,
    snr_definition: SnrDefinition,
    count: int,
    held_out: float,
    scaling: Scaling,
    dtype: Any,
) -> Problem:
    """Observe a low-rank tensor: scale, draw cells, add noise, split."""
    checks.check_choice("scaling", scaling, Scaling)
    shape = tuple(len(factor) for factor in factors)
    cells = math.prod(shape)
    picked = _draw_cells(rng, cells, count)
    columns = np.empty((len(shape), count), np.int32)
    _unravel(picked, shape, columns)
    del picked
    values = _low_rank_at(columns, factors, core)
    dense = _dense(factors, core) if cells <= DENSE_CELLS else None
    reference = values if dense is None else dense
    offset, scale = _range(reference) if scaling == "minmax" else (0.0, 1.0)
    variance = _noise_variance((reference - offset) / scale, snr, snr_definition)
    values -= offset
    values /= scale
    if variance:
        for start in range(0, count, CHUNK):
            part = values[start : start + CHUNK]
            part += math.sqrt(variance) * rng.standard_normal(len(part))
    observed = ObservedTensor.from_columns(columns, values.astype(dtype, copy=False), shape)
    rest = round(held_out * count)
    return Problem(
        kind=kind,
        # The cells were drawn in random order, so the tail is a random part.
        train=observed.take(slice(0, count - rest)),
        held_out=observed.take(slice(count - rest, None)),
        factors=factors,
        core=core,
        offset=offset,
        scale=scale,
        noise_variance=variance,
        clean=None if dense is None else (dense - offset) / scale,
    )


def _n_observed(shape: tuple[int, ...], missing: float, n_entries: int | None, held_out: float) -> int:
    """Return how many cells are observed; checked before anything of the tensor's size is drawn."""
    cells = math.prod(shape)
    if cells >= 2**63:
        raise InputError("shape must have fewer than 2**63 cells. Choose smaller modes.")
    if not 0 < held_out < 1:
        raise InputError(f"held_out must lie between 0 and 1; got {held_out}. Try held_out=0.2.")
    if n_entries is None:
        if not 0 <= missing < 1:
            raise InputError(f"missing must be at least 0 and below 1; got {missing}. Try missing=0.5.")
        n_entries = round((1 - missing) * cells)
    if not 2 <= n_entries <= cells or not 0 < round(held_out * n_entries) < n_entries:
        raise InputError(
            "n_entries must leave entries for both parts and not exceed the number of cells. "
            "Lower missing, or choose another n_entries."
        )
    return n_entries


def _draw_cells(rng: np.random.Generator, cells: int, count: int) -> NDArray[np.int64]:
    """Draw distinct cells, uniformly, in random order."""
    if cells <= 4 * count:
        return rng.permutation(cells)[:count]
    found = np.empty(0, np.int64)
    while len(found) < count:
        missing = count - len(found)
        extra = rng.integers(cells, size=int(missing * (1.01 + count / cells)) + 16)
        found = np.concatenate([found, extra])
        found.sort()  # np.unique hashes, which is many times slower on numbers that hardly repeat
        found = found[np.append(True, found[1:] != found[:-1])]
    # The distinct draws are a uniform sample; a random order and a cut keep it one of the right size.
    rng.shuffle(found)
    return found[:count].copy()


def _unravel(picked: NDArray[np.int64], shape: tuple[int, ...], columns: NDArray[np.int32]) -> None:
    for axis in range(len(shape) - 1, -1, -1):
        picked, columns[axis] = np.divmod(picked, shape[axis])


def _low_rank_at(columns: NDArray[np.int32], factors: tuple[FloatArray, ...], core: FloatArray | None) -> FloatArray:
    """Return values of the planted tensor at coordinates, in chunks."""
    result = np.empty(columns.shape[1])
    width = factors[0].shape[1] if core is None else core.size
    step = max(1, CHUNK * 4 // width)
    for start in range(0, len(result), step):
        part = columns[:, start : start + step]
        result[start : start + step] = _chunk_at(part, factors, core)
    return result


def _chunk_at(columns: NDArray[np.int32], factors: tuple[FloatArray, ...], core: FloatArray | None) -> FloatArray:
    rows = [factor[column] for factor, column in zip(factors, columns, strict=True)]
    if core is None:
        product = rows[0]
        for row in rows[1:]:
            product *= row
        return np.asarray(product.sum(axis=1))
    part = np.tensordot(rows[0], core, axes=1)
    for row in rows[1:]:
        part = np.einsum("ni,ni...->n...", row, part)
    return np.asarray(part)


def _dense(factors: tuple[FloatArray, ...], core: FloatArray | None) -> FloatArray:
    """Return the whole planted tensor."""
    if core is None:
        part = factors[0]
        for factor in factors[1:]:
            part = part[..., None, :] * factor
        return np.asarray(part.sum(axis=-1))
    part = core
    for axis, factor in enumerate(factors):
        part = np.moveaxis(np.tensordot(factor, part, axes=(1, axis)), 0, axis)
    return part


def _range(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return low, (high - low) or 1.0


def _noise_variance(clean: FloatArray, snr: float, definition: SnrDefinition) -> float:
    """Return the variance of the noise that gives this signal-to-noise ratio."""
    checks.check_choice("snr_definition", definition, SnrDefinition)
    if math.isnan(snr) or (definition != "db" and snr <= 0):
        raise InputError(f"snr must be positive; got {snr}. Try snr=1.0, or snr=math.inf for no noise.")
    if snr == math.inf:
        return 0.0
    if definition == "variance":
        return float(np.var(clean)) / snr
    if definition == "db":
        return float(np.var(clean)) / 10 ** (snr / 10)
    power = float(np.mean(clean**2))
    return power / (snr if definition == "power" else snr**2)
