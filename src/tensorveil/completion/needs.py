"""What a private fit needs, from public facts alone: asked before the charge, so that none is paid for in vain.

Memory for its entries and rows; and noise that its grid can hold, for budgets that are neither tiny nor without bounds.
"""

from __future__ import annotations

from typing import Final

from tensorveil.errors import InputError
from tensorveil.mechanisms.planner import Plan
from tensorveil.memory import check_memory
from tensorveil.privacy import Budget, Event, Pure
from tensorveil.privacy.gate import Declared

__all__ = ["check_budget", "check_event", "check_fit_memory", "estimate_fit"]

# Noise is drawn on a grid of up to 2**40 steps; and beyond any use, floats run out.
SMALLEST_PURE: Final = 1e-6
SMALLEST, LARGEST = 1e-12, 1e9

ENTRY = 4  # copies of the entries: as they came, sorted, perturbed, and grouped by mode
ROW = 3  # numbers per row and component: a factor, its statistics, the next one
MOMENT = 4  # bytes per row and pair of components, at least


def estimate_fit(shape: tuple[int, ...], ranks: tuple[int, ...], n_entries: int) -> int:
    """Return about how many bytes a fit takes at least."""
    per_row = [8 * (ROW * rank + 2) + MOMENT * rank * (rank + 1) // 2 for rank in ranks]
    rows = sum(size * each for size, each in zip(shape, per_row, strict=True))
    return rows + ENTRY * n_entries * (4 * len(shape) + 8)


def check_budget(budget: Budget) -> None:
    """Refuse budgets for which no method could compute its noise."""
    if not SMALLEST <= budget.epsilon <= LARGEST:
        raise InputError(
            f"epsilon must lie between {SMALLEST:g} and {LARGEST:g} in a fit: below, nothing but noise is left, and "
            "above, nothing is protected. Try epsilon=1."
        )


def check_event(event: Event) -> None:
    """Refuse a share of the budget whose noise would be wider than its grid."""
    if isinstance(event, Pure) and event.epsilon < SMALLEST_PURE:
        raise InputError(
            f"epsilon must be at least {SMALLEST_PURE:g} with delta=0: wider noise has no grid. Try epsilon=1."
        )


def check_fit_memory(declared: Declared, plan: Plan, *, has_rank: bool = True) -> None:
    """Refuse a fit that would not fit into memory; one without components needs no more than rank 1."""
    ranks = tuple(plan.ranks if has_rank and plan.ranks else (1,) * len(declared.shape))
    # A protected mode has no rows: what belongs to a user is computed when it is needed, and forgotten.
    shape = tuple(
        1 if mode.name == declared.unit.mode else size
        for mode, size in zip(declared.modes, declared.shape, strict=True)
    )
    needed = estimate_fit(shape, ranks, declared.n_entries or 0)
    check_memory(needed, "the fit", "Declare a smaller shape, or try a smaller rank.")
