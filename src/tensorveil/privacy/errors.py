"""Errors of the privacy core, below `tensorveil.errors`.

TensorveilError
├── BudgetExceededError      a charge would spend more than the budget allows
└── LedgerError              a ledger file is missing, broken, busy or not a ledger
"""

from __future__ import annotations

from tensorveil.errors import TensorveilError

__all__ = ["BudgetExceededError", "LedgerError"]


class BudgetExceededError(TensorveilError):
    """A charge would spend more than the budget allows; nothing was charged."""


class LedgerError(TensorveilError):
    """A ledger file cannot be used; the message says why and what to do."""
