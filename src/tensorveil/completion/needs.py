"""What a private fit needs, from public facts alone: asked before the charge, so that none is paid for in vain."""

from __future__ import annotations

from tensorveil.mechanisms.planner import Plan
from tensorveil.memory import check_memory
from tensorveil.privacy.gate import Declared

__all__ = ["check_fit_memory", "estimate_fit"]

ENTRY = 4  # copies of the entries: as they came, sorted, perturbed, and grouped by mode
ROW = 3  # numbers per row and component: a factor, its statistics, the next one


def estimate_fit(shape: tuple[int, ...], ranks: tuple[int, ...], n_entries: int) -> int:
    """Return about how many bytes a fit takes at least."""
    rows = sum(size * (ROW * rank + 2) for size, rank in zip(shape, ranks, strict=True))
    return 8 * rows + ENTRY * n_entries * (4 * len(shape) + 8)


def check_fit_memory(declared: Declared, plan: Plan) -> None:
    """Refuse a fit that would not fit into memory."""
    ranks = plan.ranks or (1,) * len(declared.shape)
    needed = estimate_fit(declared.shape, tuple(ranks), declared.n_entries or 0)
    check_memory(needed, "the fit", "Declare a smaller shape, or try a smaller rank.")
