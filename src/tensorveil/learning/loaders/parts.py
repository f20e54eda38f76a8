"""What a loader returns, and the error for a damaged file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tensorveil.errors import InputError
from tensorveil.learning.samples import Samples


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Training and test records, and the range of numbers that the format allows, such as bytes for images."""

    train: Samples
    test: Samples
    bounds: tuple[float, float]


def damage_error(path: Path) -> InputError:
    """Return the error for a file whose content is not what its name says."""
    return InputError(f"{path.name} is damaged or has another format. Fetch the file again.")
