"""What values are and what cells without an entry hold: which solver that asks for, and how errors are counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.errors import InputError
from tensorveil.solvers.loss import Loss
from tensorveil.solvers.losses import check_bounds, check_unlisted, deviance_explained
from tensorveil.solvers.task import Array
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.unlisted import Cells, known_cells

AUTO: Final = "auto"
# The solvers for any loss: by quasi-Newton steps over all cells, where these are few enough, or stochastic.
ALL_CELLS: Final = "lbfgs"
ANY_LOSS: Final = "adam"
# Up to so many known cells a pass over all of them is worth its time; where others are zeros, so many for each listed.
_FEW, _FEW_BY_LISTED = 1 << 21, 16


@dataclass(frozen=True, kw_only=True)
class Response:
    """What a fit is asked about its values: the loss, unlisted zeros, signs, and shared factors."""

    loss: Loss
    zeros: bool
    nonnegative: bool
    same: tuple[int, ...]
    core: bool
    biases: bool
    few: bool

    @property
    def plain(self) -> bool:
        """Whether squared error of listed cells is all that is asked for, which every solver fits."""
        return self.loss.scalable and not (self.zeros or self.nonnegative or self.same)

    @property
    def solvers(self) -> tuple[str, ...]:
        """The solvers that can fit it, where not all can; the first one is the default."""
        closed = "poisson" if self.nonnegative else "gaussian"
        any_loss: tuple[str, ...] = (ANY_LOSS,)
        if not (self.core or self.nonnegative):
            any_loss = (ALL_CELLS, ANY_LOSS) if self.few else (ANY_LOSS, ALL_CELLS)
        if self.loss.name == closed and not (self.core or self.same or self.biases):
            return "als", *any_loss
        return any_loss


def pick_solver(asked: str, response: Response) -> str:
    """Return the solver that was asked for, or the default one for what is to be fitted."""
    if response.plain:  # an unknown name is refused where all names are known
        return "bayes" if asked == AUTO else asked
    fitting = response.solvers
    if asked == AUTO:
        return fitting[0]
    if asked not in fitting:
        words = " or ".join(f'solver="{name}"' for name in fitting)
        raise InputError(f'solver="{asked}" cannot fit {describe(response)}. Try {words}, or leave it out.')
    return asked


def few_enough(tensor: ObservedTensor) -> bool:
    """Whether passes over all known cells cost no more than drawing from them."""
    if tensor.unlisted == "unknown":
        return tensor.n_entries <= _FEW
    return math.prod(tensor.shape) <= max(_FEW, _FEW_BY_LISTED * tensor.n_entries)


def describe(response: Response) -> str:
    """Say what is asked for beyond squared error."""
    parts = [] if response.loss.scalable else [f'loss="{response.loss.name}"']
    parts += ["nonnegative=True"] if response.nonnegative else []
    parts += ['unlisted="zero"'] if response.zeros else []
    parts += ["same"] if response.same else []
    parts += ["a core"] if response.core else []
    parts += ['baseline="biases"'] if response.biases else []
    return " with ".join(parts)


def check_response(response: Response, tensor: ObservedTensor, *, baseline: str, given_weight: float | None) -> None:
    """Refuse values, bounds and settings that do not go together."""
    loss = response.loss
    loss.check(tensor.entries)
    check_bounds(loss, tensor.bounds)
    check_unlisted(loss, zeros=response.zeros)
    if response.zeros and tensor.bounds is not None and not tensor.bounds[0] <= 0 <= tensor.bounds[1]:
        raise InputError('bounds must contain 0 with unlisted="zero". Declare other bounds.')
    if response.nonnegative and baseline == "biases":
        raise InputError(
            'baseline="biases" has no meaning with nonnegative=True, whose predictions are sums of parts. Leave it out.'
        )
    if response.nonnegative and not np.all(tensor.values >= 0):
        raise InputError("values must be at least 0 with nonnegative=True. Leave it out, or shift the values.")
    if given_weight is not None:
        rules.number("unlisted_weight", given_weight, above=0.0, remedy=0.1)
        if not response.zeros:
            raise InputError(
                "unlisted_weight is for tensors whose unlisted cells are zeros. Leave it out, or declare them: "
                'tensor.with_unlisted("zero").'
            )


def check_priors(response: Response) -> None:
    """Refuse smooth modes and features where no solver would heed them."""
    if not response.plain:
        raise InputError(
            "smooth, side and implicit are for squared error of listed cells, and cannot be combined with "
            f"{describe(response)}. Leave one of them out."
        )


def find_same(same: Sequence[str | int] | None, tensor: ObservedTensor) -> tuple[int, ...]:
    """Return the positions of the modes that share a factor, in order."""
    if same is None:
        return ()
    if isinstance(same, str) or len(same) < 2:
        raise InputError('same must name at least two modes. Try same=("head", "tail").')
    modes = tuple(sorted(tensor.axis(mode) for mode in same))
    if len(set(modes)) != len(modes):
        raise InputError('same must name different modes. Try same=("head", "tail").')
    first = tensor.modes[modes[0]]
    for mode in modes[1:]:
        labels = tensor.modes[mode].labels
        alike = (labels is None) == (first.labels is None)
        alike = alike and (labels is None or first.labels is None or np.array_equal(labels, first.labels))
        if tensor.shape[mode] != tensor.shape[modes[0]] or not alike:
            raise InputError(
                "same must name modes of the same size and labels: their indices mean the same things. Number both "
                "from one list of labels: modes=[Mode('head', labels), Mode('relation'), Mode('tail', labels)]."
            )
    return modes


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Cells that a fit is judged by and must not see."""

    like: ObservedTensor
    cells: Cells

    def error(self, loss: Loss, predict: Callable[[Array], Array]) -> float:
        """Return the loss's measure of what ``predict`` says at coordinates (n, order)."""
        linear = loss.link.linear(predict(self.cells.columns.T))
        weights = self.cells.weights
        return loss.summary(float(np.sum(weights * loss.value(self.cells.values, linear)) / np.sum(weights)))


def hold_out(train: ObservedTensor, held: ObservedTensor, seed: int) -> HeldOut:
    """Return the cells of a validation part: its entries and, where unlisted cells are zeros, some of these.

    The zeros stand for as large a share of all zeros as its entries are of all entries.
    """
    if held.unlisted == "unknown":
        return HeldOut(like=held, cells=known_cells(held))
    listed = train.n_entries + held.n_entries
    share = held.n_entries / listed
    # No larger a share of the zeros than of the entries: the fit needs the others.
    count = min(max(4 * held.n_entries, 10_000), math.ceil(share * (math.prod(held.shape) - listed)))
    cells = known_cells(held, without=(train.columns,), seed=seed, most=0, sample=max(count, 1))
    weights = cells.weights.copy()
    weights[held.n_entries :] *= share
    return HeldOut(like=held, cells=Cells(columns=cells.columns, values=cells.values, weights=weights))


def hold_out_all(tensor: ObservedTensor) -> HeldOut:
    """Return all known cells of a tensor."""
    return HeldOut(like=tensor, cells=known_cells(tensor))


def explained(loss: Loss, predict: Callable[[Array], Array], tensor: ObservedTensor) -> float:
    """Return the share of the deviance of the best constant that predictions take away; R^2 for squared error."""
    cells = known_cells(tensor)
    linear: Any = loss.link.linear(predict(cells.columns.T))
    return deviance_explained(loss, linear, cells.values, cells.weights)
