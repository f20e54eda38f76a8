"""Charging a ledger: before anything is computed, once, by the same rule for a single fit and for several together."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from tensorveil.errors import InputError
from tensorveil.privacy import Event, Ledger, Unit

AnyLedger = str | os.PathLike[str] | Ledger | None


def charge_release(ledger: AnyLedger, event: Event, *, purpose: str, delta: float, unit: Unit, secure: bool) -> str:
    """Charge the ledger, if there is one, and return the release's name. A crash after this never loses the charge."""
    if ledger is not None and not secure:
        raise InputError("noise_seed must be None with a ledger: seeded noise protects nothing and is not charged.")
    release_id = str(uuid.uuid4())
    book = _open(ledger)
    if book is not None:
        book.charge(event, purpose, release_id, delta=delta or None, unit=unit)
    return release_id


def confirm_release(ledger: AnyLedger, release_id: str) -> None:
    """Note in the ledger, if there is one, that the release was written."""
    book = _open(ledger)
    if book is not None:
        book.confirm(release_id)


def _open(ledger: AnyLedger) -> Ledger | None:
    return ledger if ledger is None or isinstance(ledger, Ledger) else Ledger.open(Path(ledger))
