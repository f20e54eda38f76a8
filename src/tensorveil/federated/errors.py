"""What goes wrong between machines. Texts are fixed: they name what was refused, never what it held."""

from __future__ import annotations

from tensorveil.errors import TensorveilError

__all__ = ["AbandonedError", "RefusedError"]


class RefusedError(TensorveilError):
    """A message breaks a rule; its sender counts as dropped out of the round."""


class AbandonedError(TensorveilError):
    """A run cannot go on: more clients dropped out than were agreed on, or not all came."""
