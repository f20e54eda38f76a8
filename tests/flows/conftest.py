"""Whatever the command advises in a flow can be done."""

from tests.advice import advice_can_be_followed

__all__ = ["advice_can_be_followed"]
