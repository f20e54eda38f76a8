"""Losses: how far a value lies from what a model says, and everything that follows from that choice.

A loss says what one entry costs and how the cost changes with the model, on the scale on which the model is linear; by
which link predictions follow from that scale; which values it is for; whether they may be centred and scaled; and by
which measure fits are shown, compared and stopped. Solvers get it with their task, estimators ask it for every error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.link import IDENTITY, Link
from tensorveil.tensor.entries import Entries

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a fit minimises, elementwise in a value and the model's linear part.

    Parameters
    ----------
    name
        How users and files call it.
    value, gradient
        ``value(truth, linear)`` is the loss of each entry, ``gradient(truth, linear)`` its derivative by ``linear``;
        both in double precision.
    link
        From the linear part to predictions, and back.
    measure
        What the errors are called that people read, such as "RMSE".
    summary
        From the mean loss to that measure; it rises with the mean loss.
    scalable
        Whether solvers may centre and scale the values: true where that only multiplies the loss.
    domain, accepts
        The values it is for, in words, and a function that says whether all of an array's are; None for any number.
    reach
        The ends of what it can predict, within which declared bounds must lie.
    remedy
        What to try for other values.
    both
        Value and gradient at once, ``both(truth, linear, weights, slopes)``: writes the weighted gradients into
        ``slopes`` and returns the weighted sum of the values. Left out, it is made of the two.

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> absolute = tv.Loss(
    ...     name="smooth absolute error",
    ...     value=lambda x, m: np.sqrt(1 + (m - x) ** 2) - 1,
    ...     gradient=lambda x, m: (m - x) / np.sqrt(1 + (m - x) ** 2),
    ... )
    >>> absolute.error(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    0.0
    """

    name: str
    value: Callable[[Array, Array], Array]
    gradient: Callable[[Array, Array], Array]
    link: Link = IDENTITY
    measure: str = "mean loss"
    summary: Callable[[float], float] = float
    scalable: bool = False
    domain: str = "finite numbers"
    accepts: Callable[[Array], bool] | None = None
    reach: tuple[float, float] = (-math.inf, math.inf)
    remedy: str = 'Try loss="gaussian".'
    both: Callable[[Array, Array, Array, Array], float] | None = None

    def __post_init__(self) -> None:
        if not (callable(self.value) and callable(self.gradient)):
            raise InputError(
                f'loss "{self.name}": value and gradient must be functions of (truth, linear), elementwise. See '
                "help(tensorveil.Loss)."
            )

    def check(self, entries: Entries) -> None:
        """Refuse values that the loss is not for."""
        if self.accepts is not None and not all(self.accepts(block.values) for block in entries.blocks()):
            raise InputError(f'values must be {self.domain} for loss="{self.name}". {self.remedy}')

    def descend(self, truth: Array, linear: Array, weights: Array, slopes: Array) -> float:
        """Write the weighted gradients of cells into ``slopes``, and return the weighted sum of their losses."""
        if self.both is not None:
            return self.both(truth, linear, weights, slopes)
        each, along = np.asarray(self.value(truth, linear)), np.asarray(self.gradient(truth, linear))
        if each.shape != truth.shape or along.shape != truth.shape:
            raise InputError(
                f'loss "{self.name}": value and gradient must return one number per entry, as arrays of the shape that '
                "they are given. Write them elementwise, in NumPy."
            )
        np.multiply(weights, along, out=slopes)
        return float(weights @ each)

    def error(self, prediction: Array, truth: Array) -> float:
        """Return the measure of predictions on the scale of the data."""
        return self.summary(float(np.mean(self.value(truth, self.link.linear(prediction)))))

    def error_over(self, predict: Callable[[Array], Array], entries: Entries) -> float:
        """Return the measure of what ``predict`` says at coordinates (n, order), block by block."""
        total = 0.0
        for block in entries.blocks():
            linear = self.link.linear(predict(block.columns.T))
            total += float(np.sum(self.value(block.values, linear)))
        return self.summary(total / entries.n_entries)

    def score(self, prediction: Array, truth: Array) -> float:
        """Return the share of the loss of the best constant that predictions take away; R^2 for squared error."""
        truth = truth.astype(np.float64)
        constant = self.link.linear(np.full_like(truth, truth.mean()))
        total = float(np.sum(self.value(truth, constant)))
        left = float(np.sum(self.value(truth, self.link.linear(prediction))))
        if total == 0.0:
            return 1.0 if left == 0.0 else 0.0
        return 1.0 - left / total


def _squared_error(truth: Array, linear: Array) -> Array:
    squares: Array = (linear.astype(np.float64) - truth) ** 2
    return squares


def _squared_error_gradient(truth: Array, linear: Array) -> Array:
    return 2.0 * (linear.astype(np.float64) - truth)


GAUSSIAN = Loss(
    name="gaussian",
    value=_squared_error,
    gradient=_squared_error_gradient,
    link=IDENTITY,
    measure="RMSE",
    summary=math.sqrt,
    scalable=True,
)


def rmse(prediction: Array, truth: Array) -> float:
    """Return the root of the mean squared difference, whatever loss a model was fitted by."""
    return GAUSSIAN.error(prediction, truth)
