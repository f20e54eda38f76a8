"""What a mechanism is given, besides private data, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.models.errors import Errors
from tensorveil.privacy import Part
from tensorveil.solvers.loss import GAUSSIAN
from tensorveil.solvers.priors.row_prior import PriorFactory
from tensorveil.solvers.priors.series import Series
from tensorveil.solvers.task import Solution

Array = NDArray[Any]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form of the model, and how to fit it: all public."""

    ranks: tuple[int, ...]
    core: bool
    sweeps: int
    restarts: int
    threads: int | None
    seed: int
    # How perturbed values are fitted. For matrices the solver may also be one that does not know the noise, and it may
    # be left to find the rank.
    solver: str = "bayes"
    estimate_rank: bool = False
    # By mode: how the prior of its rows is made, where neighbours are said to be alike. And the times along which
    # neighbouring values may be alike beyond that.
    smooth: Mapping[int, PriorFactory] = field(default_factory=dict)
    times: tuple[Series, ...] = ()
    # The name of the loss that counts or yes and no are decoded by, on the scale of its link.
    loss: str = GAUSSIAN.name
    # Is told what is computed for long, how much of it is done, and how much there is. Only post-processing may tell:
    # how many sweeps a fit of private values takes would be a release.
    progress: Progress | None = field(default=None, compare=False)

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far a computation from noisy numbers has come, if anybody listens."""
        if self.progress is not None:
            self.progress(what, done, total)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a mechanism releases, what it spent on that and, in words, what it found worth measuring: all private.

    ``errors`` are those of the solution's predictions, where they were measured.
    """

    solution: Solution
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    errors: Errors | None = None


def make_constant(shape: tuple[int, ...], form: Form, offset: float, biases: Iterable[Array] | None = None) -> Solution:
    """Return a model without interactions: an offset, perhaps biases."""
    factors = tuple(np.zeros((size, rank)) for size, rank in zip(shape, form.ranks, strict=True))
    core = np.zeros(form.ranks) if form.core else None
    given = None if biases is None else tuple(biases)
    return Solution(factors=factors, core=core, offset=offset, biases=given)
