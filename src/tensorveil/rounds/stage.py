"""A stage: one kind of round, what it may know of the fit, and which keys of the state it reads and writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import KEYS, State, Step
from tensorveil.rounds.grouping import People
from tensorveil.rounds.sums import Rows

__all__ = ["Setup", "Stage", "Updates"]

Array = NDArray[Any]
Updates = Mapping[str, Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """The public facts of a fit that stages and the final model may use. `Recipe.setup` makes it.

    Parameters
    ----------
    shape, modes
        Sizes and names of all modes, as declared.
    protected
        Position of the protected mode.
    bounds
        Lowest and highest possible value.
    rank
        Number of CP components, or one Tucker rank per mode.
    rows
        All rows of the released modes.
    basis_ranks
        The number of columns of every released mode's latent basis.
    reach
        The largest norm that a user's vector of entry counts per row may have.
    seed
        Of the public random start.
    """

    shape: tuple[int, ...]
    modes: tuple[str, ...]
    protected: int
    bounds: tuple[float, float]
    rank: int | tuple[int, ...]
    rows: Rows = field(repr=False)
    basis_ranks: tuple[int, ...]
    reach: float
    seed: int

    @property
    def middle(self) -> float:
        """Middle of the bounds."""
        return 0.5 * (self.bounds[0] + self.bounds[1])

    @property
    def half(self) -> float:
        """Half the width of the bounds."""
        return 0.5 * (self.bounds[1] - self.bounds[0])


class Stage(ABC):
    """One kind of round: a statistic of bounded contributions, and what follows from its noisy sum.

    A stage has no state of its own. It reads the keys of the `State` that ``reads`` names and returns new arrays under
    the keys that ``writes`` names; a test runs whole fits and compares. Of `BASIS`, the family is declared, not each
    mode's key.

    A stage need not prove its sensitivity: `tensorveil.rounds.sums.sum_bounded` bounds whatever a user contributes.
    See docs/explanation/rounds.md for how to add one.
    """

    statistic: ClassVar[str]
    """What is summed, in words, for the guarantee."""
    reads: ClassVar[frozenset[str]]
    """Keys of the state that `prepare`, `contribute` and `advance` may look at."""
    writes: ClassVar[frozenset[str]]
    """Keys that `prepare` and `advance` return."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        unknown = sorted((cls.reads | cls.writes) - KEYS)
        if unknown:
            raise TypeError(
                f"{cls.__name__} declares keys that no state has: {', '.join(unknown)}. Add them to rounds/contract.py."
            )

    @abstractmethod
    def size(self, setup: Setup, step: Step) -> int:
        """Return the number of integers in the statistic."""

    def prepare(self, setup: Setup, state: State) -> Updates:
        """Return arrays that must be in the state before this stage runs, and are not there yet; none by default.

        This happens when the round before ends, from public facts and the public state alone.
        """
        return {}

    @abstractmethod
    def contribute(
        self, setup: Setup, step: Step, state: State, people: People, threads: int | None
    ) -> NDArray[np.int64]:
        """Return the exact integer sum of all these people's bounded contributions."""

    @abstractmethod
    def advance(self, setup: Setup, step: Step, state: State, total: NDArray[np.int64], mu: float) -> Updates:
        """Return the arrays that the noisy sum changes: post-processing, which costs no budget.

        Parameters
        ----------
        setup, step, state
            The fit, the round, and the state that the round began with.
        total
            The sum of all contributions, plus noise of standard deviation LIMIT / mu.
        mu
            What the round spent.
        """
