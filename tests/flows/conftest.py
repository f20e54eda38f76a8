"""What flows share."""

from tests.advice import advice_can_be_followed

__all__ = ["advice_can_be_followed"]
