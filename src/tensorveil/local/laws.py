"""What a mechanism on entries supplies: the law of an answer, and a sampler of many answers."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from tensorveil.noise import NoiseSource

Array = NDArray[Any]


class Law(Protocol):
    """The answers of one entry: their variance after decoding, at a centred place."""

    def variance(self, places: Array) -> Array:
        """Return the variance of the decoded answer, in squared steps."""


class Answers(Protocol):
    """Draws answers for many places at once, each by the law of its column."""

    def draw(self, index: Array, column: Array, source: NoiseSource) -> Array:
        """Answer once per place."""
