"""What a ledger holds, as plain data."""

from __future__ import annotations

from typing import Any

from tensorveil.privacy import Balance, Ledger, event_to_json
from tensorveil.privacy.events import describe_event

__all__ = ["describe_ledger"]


def describe_ledger(ledger: Ledger) -> dict[str, Any]:
    """Return the facts about a ledger as plain data."""
    statement = ledger.statement()
    return {
        "ledger": str(ledger.path),
        "name": ledger.name,
        "created": ledger.created,
        "unit": str(ledger.unit),
        "neighbours": ledger.unit.neighbours,
        "budget": {"epsilon": ledger.budget.epsilon, "delta": ledger.budget.delta},
        "composition": statement.composition,
        "spent": _plain(statement.spent),
        "remaining": _plain(statement.remaining),
        "charges": [
            {
                "number": charge.number,
                "time": charge.time,
                "purpose": charge.purpose,
                "release_id": charge.release_id,
                "event": event_to_json(charge.event),
                "charged": event_to_json(charge.charged),
                "words": describe_event(charge.charged),
                "confirmed": charge.confirmed,
                "status": charge.status,
            }
            for charge in statement.entries
        ],
    }


def _plain(balance: Balance) -> dict[str, Any]:
    return {
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "fraction": balance.fraction,
        "event": event_to_json(balance.event),
    }
