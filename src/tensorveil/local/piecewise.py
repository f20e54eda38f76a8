"""The piecewise mechanism on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tensorveil.local.entrywise import Entrywise
from tensorveil.local.laws import Answers, Array
from tensorveil.noise.windows import WindowLaw, best_width, decode_windows, fine_grid, window_answers, window_law


@dataclass(frozen=True, kw_only=True, eq=False)
class Piecewise(Entrywise):
    """Answer within a window around the value with high chance, else anywhere outside of it (Wang et al. 2019).

    The parameters are those of `Entrywise`; by default the grid is fine, and ``coordinates`` is the number of least
    worst error (all entries in unit local entry).

    Guarantee: epsilon for the unit (docs/guarantees.md#windows).

    >>> from tensorveil.local import Piecewise
    >>> Piecewise(shape=(2,), epsilon=2.0, unit="tensor", bounds=(0, 1)).perturb([0.2, 0.9]).shape
    (2,)
    """

    coordinates: int | str | None = "best"
    command: ClassVar[str] = "piecewise"
    label: ClassVar[str] = "piecewise mechanism on a grid"
    proof: ClassVar[str] = "docs/guarantees.md#windows"

    def __post_init__(self) -> None:
        if self.weights is not None and self.coordinates == "best":
            object.__setattr__(self, "coordinates", None)
        super().__post_init__()

    def _best_points(self) -> int:
        return fine_grid(max(self._epsilons))

    def _law(self, epsilon: Fraction) -> WindowLaw:
        return window_law(epsilon, self.last, best_width(epsilon, self.last))

    def _answers(self, laws: tuple[WindowLaw, ...]) -> Answers:
        return window_answers(laws)

    def _decode_places(self, codes: Array, column: Array, laws: tuple[WindowLaw, ...]) -> Array:
        return decode_windows(codes, column, laws)
