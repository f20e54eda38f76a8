"""The owner's test of a model: do its factors give single entries away to somebody who knows all the others?

For every row of a converged fit, sum (prediction - x) h + ridge a = 0. Solved for one x at a time, with the ridge
estimated from all rows together, these equations recover that value if the fit had no noise; under differential privacy
they must not. Nothing is assumed about how the model was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.contract import Multilinear
from tensorveil.tensor import ObservedTensor

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ModelLeak:
    """How closely single entries are recovered, compared with the model's predictions. For the owner only.

    ``closer`` is the share of entries that are recovered more closely than they are predicted; the errors are medians.
    """

    entries: int
    closer: float
    recovered_error: float
    predicted_error: float

    @property
    def found(self) -> bool:
        """Tell whether most entries are recovered more closely than predicted; with noise, hardly any are."""
        return self.closer > 0.5 and self.recovered_error < self.predicted_error

    def sentence(self) -> str:
        """Return the result in words."""
        verdict = "leak found" if self.found else "no leak found by this attack"
        return (
            f"{verdict}: knowing all other values and the factors, {self.closer:.0%} of {self.entries:,} entries are "
            f"recovered more closely than the model predicts them (median error {self.recovered_error:.2g} against "
            f"{self.predicted_error:.2g})."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"verdict": "leak found" if self.found else "no leak found", **vars(self)}


def model_leak(model: Multilinear, tensor: ObservedTensor) -> ModelLeak:
    """Attack a model, entry by entry, with the data it was fitted to.

    Parameters
    ----------
    model
        The model as it was, or is to be, released.
    tensor
        The data, with the same modes and labels.

    >>> import tensorveil as tv
    >>> data = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> model_leak(tv.CP(2, solver="als", random_state=0).fit(data).model_, data).found
    True
    >>> private = tv.PrivateCP(2, epsilon=1.0, delta=0.0, unit="value", bounds=(-1, 2), method="output")
    >>> model_leak(private.fit(data).model_, data).found
    False
    """
    if tensor.shape != model.shape:
        raise InputError("tensor must have the shape of the model. Give the data that the model was fitted to.")
    columns = tensor.columns
    values = tensor.values.astype(np.float64) - _baseline(model, columns)
    predicted = model.multilinear(columns)
    top, bottom = np.zeros(len(values)), np.zeros(len(values))
    for mode in range(len(model.shape)):
        design = np.asarray(model.design(columns, mode), dtype=np.float64)
        free = _gradients(model, columns, mode, design, predicted - values)[columns[mode]]
        free += values[:, None] * design  # as if this entry's value were 0: the true one is not used
        top += np.einsum("ij,ij->i", free, design)
        bottom += np.einsum("ij,ij->i", design, design)
    known = bottom > 0
    recovered = np.where(known, top / np.where(known, bottom, 1.0), predicted)
    errors = np.abs(recovered - values), np.abs(predicted - values)
    return ModelLeak(
        entries=len(values),
        closer=float(np.mean(errors[0] < errors[1])),
        recovered_error=float(np.median(errors[0])),
        predicted_error=float(np.median(errors[1])),
    )


def _baseline(model: Multilinear, columns: Array) -> Array:
    total = np.full(columns.shape[1], float(model.offset))
    for bias, column in zip(model.biases or (), columns, strict=False):
        total += bias[column]
    return total


def _gradients(model: Multilinear, columns: Array, mode: int, design: Array, residual: Array) -> Array:
    """Return sum (prediction - x) h + ridge a for every row, with the ridge that makes it smallest.

    There is one ridge per component, the same for all rows or proportional to their entries, whichever fits better.
    """
    rows, column = np.asarray(model.factors[mode], dtype=np.float64), columns[mode]
    plain = np.stack([np.bincount(column, residual * h, minlength=len(rows)) for h in design.T], axis=1)
    counts = np.bincount(column, minlength=len(rows)).astype(np.float64)
    candidates = []
    for weight in (np.sign(counts), counts):
        pull = weight[:, None] * rows
        ridge = -(plain * pull).sum(axis=0) / np.maximum((pull * pull).sum(axis=0), 1e-300)
        candidates.append(plain + np.maximum(ridge, 0.0) * pull)
    return min(candidates, key=lambda left: float(np.sum(left**2)))
