"""Charging a ledger: before anything is computed, once, by the same rule for a single fit and for several together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tensorveil.errors import InputError, NoLedgerWarning, TensorveilError, note_charges, warn
from tensorveil.privacy import Event, Ledger, Unit

AnyLedger = str | os.PathLike[str] | Ledger | None


def charge_release(
    ledger: AnyLedger,
    event: Event,
    release_id: str,
    *,
    purpose: str,
    delta: float,
    unit: Unit,
    secure: bool,
    again: bool = False,
) -> None:
    """Charge the ledger, if there is one. A crash after this never loses the charge.

    A run that is gone on with comes ``again``: if its release was charged for the same, it is not charged twice.
    """
    if ledger is not None and not secure:
        raise InputError("noise_seed must be None with a ledger: seeded noise protects nothing and is not charged.")
    book = _open(ledger)
    if book is not None and not (again and book.stands(release_id, event, delta=delta or None, unit=unit)):
        book.charge(event, purpose, release_id, delta=delta or None, unit=unit)


def warn_without_ledger(ledger: AnyLedger, epsilon: float) -> None:
    """Warn, to the line that fits, that nobody counts what is spent."""
    if ledger is None:
        warn(
            f"no ledger is given, so nobody counts what this fit spends (epsilon = {epsilon:g}): with every further "
            "fit of the same data the guarantees add up. Try ledger='data.ledger', made once by "
            "tensorveil.Ledger.create; or ignore tensorveil.NoLedgerWarning if you keep count yourself.",
            NoLedgerWarning,
        )


def warn_of_copies(ledger: AnyLedger) -> None:
    """Warn that scikit-learn fits copies, each of which spends the budget anew."""
    if ledger is None:
        warn(
            "scikit-learn copies this private estimator, and no ledger counts what its copies spend: every fit of one "
            "spends the budget anew, and a model that is chosen by held-out private data keeps no guarantee. Try "
            "tensorveil.choose_privately, which compares under noise and is charged as a whole.",
            NoLedgerWarning,
        )


def tell_charges(ledger: AnyLedger, release_id: Callable[[], str | None]) -> AbstractContextManager[None]:
    """Note on any error that leaves the block what the ledger was charged for a release, if it was.

    The ledger itself is asked: an interrupt may come between its answer and whatever remembers it.
    """

    def charged() -> str | None:
        with contextlib.suppress(TensorveilError, OSError):
            book, name = _open(ledger), release_id()
            if book is not None and name is not None and book.has(name):
                return f"It is charge {name} in {book.path}."
        return None

    return note_charges(charged)


def confirm_release(ledger: AnyLedger, release_id: str) -> None:
    """Note in the ledger, if there is one, that the release was written."""
    book = _open(ledger)
    if book is not None:
        book.confirm(release_id)


def _open(ledger: AnyLedger) -> Ledger | None:
    return ledger if ledger is None or isinstance(ledger, Ledger) else Ledger.open(Path(ledger))
