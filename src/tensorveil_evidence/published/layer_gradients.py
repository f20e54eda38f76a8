"""Gradients of fully connected layers by record, as what they are: products of a layer's inputs and of what comes back.

The gradient of a record by a layer's weights and offsets is the outer product of the gradient by the layer's outputs
with its inputs and a one. So its norm is a product of two norms, and a sum of shortened gradients is one product of
matrices (Goodfellow 2015): no gradient of a single record is ever written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearGradients:
    """One layer's gradients by record: (outputs, inputs + 1) each, the offsets' in the last column.

    Parameters
    ----------
    inputs
        The layer's inputs (n, inputs).
    back
        The gradients by its outputs (n, outputs), each of one record's own loss.

    >>> both = LinearGradients(inputs=np.array([[3.0, 0.0], [0.0, 0.0]]), back=np.array([[1.0], [2.0]]))
    >>> both.clipped_sum(1.0).round(3).tolist()
    [[0.949, 0.0, 1.316]]
    """

    inputs: Array
    back: Array

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def norms(self) -> Array:
        """The norm of every record's gradient."""
        whole = np.sqrt(np.einsum("ni,ni->n", self.inputs, self.inputs) + 1.0)
        out: Array = whole * np.linalg.norm(self.back, axis=1)
        return out

    def clipped_sum(self, clip_norm: float) -> Array:
        """Return the sum of the gradients, each shortened to the clip norm."""
        short = self.back * np.minimum(1.0, clip_norm / np.maximum(self.norms, 1e-300))[:, None]
        out: Array = np.concatenate([short.T @ self.inputs, short.sum(axis=0)[:, None]], axis=1)
        return out
