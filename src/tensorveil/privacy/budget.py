"""How much may be learned in total: epsilon and delta."""

from __future__ import annotations

from dataclasses import dataclass

from tensorveil.errors import InputError
from tensorveil.privacy.exact import at_least, exactly, positive, probability, show_at_least

__all__ = ["Budget"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of privacy loss, partially ordered: smaller means that both numbers are smaller.

    Neither number has a default: for pure differential privacy, write ``delta=0.0``.

    Examples
    --------
    >>> Budget(epsilon=1.0, delta=0.0) <= Budget(epsilon=2.0, delta=1e-6)
    True
    >>> Budget(epsilon=1.0, delta=1e-6) <= Budget(epsilon=2.0, delta=0.0)
    False
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("delta", self.delta))

    def covers(self, other: Budget) -> bool:
        """Tell whether spending `other` stays within this budget."""
        return self.epsilon >= other.epsilon and self.delta >= other.delta

    def __le__(self, other: Budget) -> bool:
        return other.covers(self) if isinstance(other, Budget) else NotImplemented

    def __ge__(self, other: Budget) -> bool:
        return self.covers(other) if isinstance(other, Budget) else NotImplemented

    def __lt__(self, other: Budget) -> bool:
        return self <= other and self != other if isinstance(other, Budget) else NotImplemented

    def __gt__(self, other: Budget) -> bool:
        return self >= other and self != other if isinstance(other, Budget) else NotImplemented

    def __add__(self, other: Budget) -> Budget:
        """Compose two budgets by adding both numbers, rounded up."""
        if not isinstance(other, Budget):
            return NotImplemented
        delta = at_least(exactly(self.delta) + exactly(other.delta))
        if delta >= 1:
            raise InputError("the deltas add up to 1 or more, which protects nothing. Use smaller deltas.")
        return Budget(epsilon=at_least(exactly(self.epsilon) + exactly(other.epsilon)), delta=delta)

    def __str__(self) -> str:
        return f"(epsilon = {show_at_least(self.epsilon)}, delta = {show_at_least(self.delta)})"
