"""The release of a federated run: the same folder as any other, with the guarantee of its trust model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.federated.server import Outcome
from tensorveil.privacy import Guarantee, Ledger
from tensorveil.release.release import write_release

__all__ = ["release"]


@dataclass(frozen=True, kw_only=True)
class _Released:
    """A run's outcome in the words of `write_release`."""

    model_: Any
    guarantee_: Guarantee
    release_id: str
    ledger: Path | None

    def confirm(self) -> None:
        if self.ledger is not None:
            Ledger.open(self.ledger).confirm(self.release_id)


def release(outcome: Outcome, folder: str | os.PathLike[str], *, ledger: Path | None) -> Path:
    """Write the release folder, and tell the server's ledger; a run without noise is marked as not private.

    Guarantee: the outcome's (docs/guarantees.md#federated).
    """
    done = _Released(model_=outcome.model, guarantee_=outcome.guarantee, release_id=outcome.release_id, ledger=ledger)
    return write_release(done, folder, allow_not_private=not outcome.guarantee.private)
