"""What a collector makes of many reports: their mean with its standard error, and a low-rank mean (post-processing)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.local.contract import CHUNK

if TYPE_CHECKING:
    from tensorveil.models import CPModel

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEstimate:
    """The mean of many tensors, as estimated from their reports.

    Parameters
    ----------
    mean
        Unbiased, of one tensor's shape.
    standard_error
        Of every entry: noise and differences between owners together, as seen in the reports.
    count
        Number of reports.
    """

    mean: Array
    standard_error: Array
    count: int

    @property
    def noise_variance(self) -> float:
        """The mean squared standard error, from which a solver knows the noise of the mean."""
        return float(np.mean(self.standard_error**2))

    def clip(self, bounds: tuple[float, float]) -> Array:
        """Return the mean with entries cut to declared bounds: closer to the truth, but no longer unbiased."""
        return np.clip(self.mean, *bounds)


def mean_of(reports: ArrayLike | Iterable[ArrayLike], shape: Sequence[int]) -> MeanEstimate:
    """Average perturbed tensors, given as one array or as an iterable of arrays (such as `mechanism.stream(x)`).

    Sums run chunk by chunk (Chan, Golub and LeVeque's update), so that a stream of any length takes little memory.

    Parameters
    ----------
    reports
        Perturbed tensors along a leading axis.
    shape
        Shape of one tensor.

    >>> import numpy as np
    >>> from tensorveil.local import Hybrid, mean_of
    >>> hybrid = Hybrid(shape=(4,), epsilon=2.0, unit="tensor", bounds=(0, 1))
    >>> found = mean_of(hybrid.stream(np.full((20_000, 4), 0.25)), (4,))
    >>> bool(np.all(np.abs(found.mean - 0.25) < 6 * found.standard_error))
    True
    """
    size = int(np.prod(shape))
    whole = isinstance(reports, np.ndarray | list | tuple)
    pieces: Iterable[Any] = [reports] if whole else reports  # type: ignore[assignment]
    count, mean, squares = 0, np.zeros(size), np.zeros(size)
    for piece in pieces:
        rows = _rows(piece, tuple(shape))
        step = max(1, CHUNK // size)
        for start in range(0, len(rows), step):
            part = np.asarray(rows[start : start + step], dtype=np.float64)
            if not np.all(np.isfinite(part)):
                raise InputError("reports must hold finite numbers.")
            middle = part.mean(axis=0)
            total = count + len(part)
            squares += ((part - middle) ** 2).sum(axis=0) + (middle - mean) ** 2 * (count * len(part) / total)
            mean += (middle - mean) * (len(part) / total)
            count = total
    if count < 2:
        raise InputError(f"reports must be at least 2 for a mean with a standard error; got {count}.")
    error = np.sqrt(squares / (count - 1) / count)
    return MeanEstimate(mean=mean.reshape(shape), standard_error=error.reshape(shape), count=count)


def _rows(piece: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(piece)
    if array.dtype.kind not in "biuf" or array.shape[1:] != shape:
        raise InputError(f"reports must be numbers of shape (n, {', '.join(map(str, shape))}); got {array.shape}.")
    return array.reshape(len(array), -1)


BY = ("precision", "people")


def combine(estimates: Sequence[MeanEstimate], by: str = "precision") -> MeanEstimate:
    """Combine means of groups whose reports have different budgets, entry by entry.

    Parameters
    ----------
    estimates
        A mean for each group, made by `mean_of`.
    by
        "precision": by inverse variance, which is closest where groups are samples of the same people as far as the
        mean is concerned. "people": by the number of people, which is unbiased for all of them together even if those
        who chose another budget are other people.

    >>> import numpy as np
    >>> few = MeanEstimate(mean=np.array([1.0]), standard_error=np.array([0.1]), count=100)
    >>> many = MeanEstimate(mean=np.array([0.0]), standard_error=np.array([0.3]), count=900)
    >>> combine([few, many]).mean.round(3).tolist(), combine([few, many], by="people").mean.tolist()
    ([0.9], [0.1])
    """
    if by not in BY:
        raise InputError(f"by must be one of {', '.join(BY)}; got {by!r}. Try by='people'.")
    if not estimates or len({each.mean.shape for each in estimates}) != 1:
        raise InputError("estimates must be means of one shape, at least one.")
    if any(np.any(each.standard_error <= 0) for each in estimates):
        raise InputError("estimates must have standard errors above 0.")
    parts = [each.standard_error**-2.0 if by == "precision" else np.float64(each.count) for each in estimates]
    total = np.sum(parts, axis=0)
    mean, variance = np.zeros(estimates[0].mean.shape), np.zeros(estimates[0].mean.shape)
    for part, each in zip(parts, estimates, strict=True):
        mean += part / total * each.mean
        variance += (part / total * each.standard_error) ** 2
    return MeanEstimate(mean=mean, standard_error=np.sqrt(variance), count=sum(each.count for each in estimates))


@dataclass(frozen=True, kw_only=True, eq=False)
class LowRankMean:
    """A low-rank model of the mean tensor, and its values at all entries."""

    mean: Array
    model: CPModel


def low_rank_mean(
    estimate: MeanEstimate, rank: int, *, bounds: tuple[float, float] | None = None, random_state: Any = 0
) -> LowRankMean:
    """Fit a CP model to a mean whose noise is known, so that variance which is only noise is not fitted.

    Parameters
    ----------
    estimate
        Made by `mean_of`; of order 2 or more.
    rank
        An upper limit: the variational solver switches off components that the noise hides.
    bounds
        Declared range, to which the result is cut.
    random_state
        Seed of the solver's start; no noise is drawn here.
    """
    from tensorveil.completion import CP
    from tensorveil.tensor import ObservedTensor

    if estimate.mean.ndim < 2:
        raise InputError("a low-rank mean needs tensors of order 2 or more. Use the mean itself.")
    tensor = ObservedTensor.from_dense(estimate.mean)
    # One random start in a hundred ends with everything switched off; the second start is the spectrum.
    options = {"noise_variance": estimate.noise_variance, "random_state": random_state, "threads": 1}
    solver = CP(rank, solver="bayes", restarts=2, **options)
    model = solver.fit(tensor).model_
    dense = model.dense()
    return LowRankMean(mean=dense if bounds is None else np.clip(dense, *bounds), model=model)
