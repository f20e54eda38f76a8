"""What a loader gives, and how it refuses a damaged file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tensorveil.errors import InputError
from tensorveil.learning.samples import Samples


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Training and test records, and the range in which numbers lie by the format: bytes, for images."""

    train: Samples
    test: Samples
    bounds: tuple[float, float]


def damaged(path: Path) -> InputError:
    """Make the error for a file that is not what its name says."""
    return InputError(f"{path.name} is damaged or has another format. Fetch the file again.")
