"""Units are ordered: what a release for one unit costs in another, and where it costs everything.

Take neighbours in the weaker unit, and count the steps between them in the stronger one. To remove one entry of a user
is to remove all of the user's entries and to add the others again: two steps. So is to replace one value (remove the
entry or the user, add them changed). To replace one entry of a tensor is to replace the tensor: one step. Over two
steps epsilon and mu double, and rho, which is a square, grows fourfold (docs/explanation/accounting.md#units).

The other direction is not covered at any price: a release for unit value publishes positions, which units entry and
slice protect.
"""

from __future__ import annotations

from tensorveil.errors import InputError
from tensorveil.privacy.events import ZCDP, Composed, Event, Gaussian, Pure, Repeated
from tensorveil.privacy.exact import at_least, exactly
from tensorveil.privacy.unit import Unit

__all__ = ["convert_event"]

# (unit of the release, unit of the budget) -> steps
_STEPS = {("slice", "entry"): 2, ("slice", "value"): 2, ("entry", "value"): 2, ("tensor", "local entry"): 1}


def convert_event(event: Event, released: Unit, budgeted: Unit) -> Event:
    """Return what an event for one unit amounts to in another, or refuse.

    >>> convert_event(Pure(0.5), Unit.slice("user"), Unit.entry())
    Pure(epsilon=1.0)
    """
    if released == budgeted:
        return event
    steps = _count_steps(released, budgeted)
    if steps is None:
        raise InputError(
            f"this data set's budget is for unit {str(budgeted)!r}, and a release for unit {str(released)!r} is not "
            f"covered by it{_explain(released, budgeted)}. Release for unit {str(budgeted)!r}. A second ledger for "
            "the same data would count only a part of what can be learned about them."
        )
    return event if steps == 1 else _multiply(event, steps)


def _count_steps(released: Unit, budgeted: Unit) -> int | None:
    if released.kind == budgeted.kind == "tensor":  # those that differ in fewer entries are neighbours all the same
        fewer = budgeted.differ is not None and (released.differ is None or budgeted.differ <= released.differ)
        return 1 if fewer else None
    return _STEPS.get((released.kind, budgeted.kind))


def _explain(released: Unit, budgeted: Unit) -> str:
    if released.kind == "value" and budgeted.kind in ("entry", "slice"):
        return ": it publishes which entries there are and their labels"
    return ""


def _multiply(event: Event, steps: int) -> Event:
    """Return what an event amounts to for data sets that are so many steps apart (group privacy)."""
    if isinstance(event, Pure):
        return Pure(at_least(steps * exactly(event.epsilon)))
    if isinstance(event, Gaussian):
        return Gaussian(at_least(steps * exactly(event.mu)))
    if isinstance(event, ZCDP):
        return ZCDP(at_least(steps**2 * exactly(event.rho)))
    if isinstance(event, Composed):
        return Composed(_multiply(part, steps) for part in event.events)
    if isinstance(event, Repeated):
        return Repeated(_multiply(event.event, steps), event.count)
    raise InputError(
        "what this kind of event costs in another unit is not known. Charge it to a ledger of its own unit, which must "
        "then be the only ledger of these data."
    )
