"""What goes wrong between machines. Error texts are fixed: they name what was refused, never its content."""

from __future__ import annotations

from tensorveil.errors import TensorveilError

__all__ = ["AbandonedError", "RefusedError"]


class RefusedError(TensorveilError):
    """A message breaks a rule; its sender counts as having dropped out of the round."""


class AbandonedError(TensorveilError):
    """A run cannot continue: more clients dropped out than the agreement allows, or not all came."""
