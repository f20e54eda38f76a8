"""Keyword options that the ways of building a tensor share; `ObservedTensor` explains each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from tensorveil.tensor.checks import Duplicates, Missing, OutOfBounds, OutOfRange, Unlisted
from tensorveil.tensor.modes import Mode


class BuildOptions(TypedDict, total=False):
    """Options of coordinate data."""

    bounds: Sequence[float] | None
    modes: Sequence[str | Mode] | None
    duplicates: Duplicates
    missing: Missing
    out_of_bounds: OutOfBounds
    out_of_range: OutOfRange
    unlisted: Unlisted


class FrameOptions(TypedDict, total=False):
    """Options of tables and files beside their columns."""

    shape: Sequence[int] | None
    bounds: Sequence[float] | None
    duplicates: Duplicates
    missing: Missing
    out_of_bounds: OutOfBounds
    out_of_range: OutOfRange
    unlisted: Unlisted


class DenseOptions(TypedDict, total=False):
    """Options of dense arrays, whose cells are never duplicated."""

    bounds: Sequence[float] | None
    modes: Sequence[str | Mode] | None
    out_of_bounds: OutOfBounds
