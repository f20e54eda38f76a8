"""How large a delta may be. With probability delta anything may be revealed, so it must stay far below one in all.

A mechanism that publishes each unit's data as they are, with probability delta, is (0, delta)-differentially private.
Of n units it is expected to publish n delta: from delta = 1/n on, somebody's data.
"""

from __future__ import annotations

from tensorveil.errors import InputError
from tensorveil.privacy.exact import probability
from tensorveil.privacy.unit import Unit

__all__ = ["check_delta", "compare_delta", "is_large", "is_negligible"]

LARGEST = 1e-2  # accepted without being asked, where it is not known how many units there are
NEGLIGIBLE = 1e-4  # up to here, and to a tenth of one in all, a sentence may pass over delta
_MANY = {
    "value": "values",
    "entry": "indices of the longest mode",
    "slice": "indices of the protected mode",
    "tensor": "tensors",
    "local entry": "entries",
}


def check_delta(delta: float, unit: Unit, *, among: int | None, accepted: bool | None = None) -> float:
    """Return delta, unless it is so large that it promises nothing.

    Parameters
    ----------
    delta
        The delta of a promise.
    unit
        What the promise protects.
    among
        How many of these there are, or may well be, as a public number: entries in unit value, the longest mode of the
        declared shape in unit entry, the declared size of the protected mode in unit slice. None if none is known.
    accepted
        Whether the user insists; the guarantee's sentence then says what such a delta means. None where nobody can.

    >>> check_delta(1e-6, Unit.slice("user"), among=6040)
    1e-06
    """
    delta = probability("delta", delta)
    if accepted or not is_large(delta, among):
        return delta
    rule = f"at most {LARGEST:g}" if among is None or delta > LARGEST else f"below one in the number of {_name(unit)}"
    insist = "" if accepted is None else "; to promise this little all the same, add accept_delta=True"
    raise InputError(
        f"delta must be {rule}: with probability delta anything may be revealed. Try delta=1e-6 or less{insist}."
    )


def is_large(delta: float, among: int | None) -> bool:
    """Tell whether a delta promises nothing: more than one in a hundred, or no less than one in all."""
    return delta > LARGEST or _reaches_one_in(delta, among)


def is_negligible(delta: float, among: int | None) -> bool:
    """Tell whether it is fair to say "almost the same" without a word on delta."""
    return delta <= NEGLIGIBLE and not _reaches_one_in(10 * delta, among)


def compare_delta(delta: float, unit: Unit, among: int | None) -> str:
    """Say how large a delta is: "no less than one in the 1,000 values"."""
    if among is not None and _reaches_one_in(delta, among):
        return f"no less than one in the {among:,} {_name(unit)}"
    return f"more than one in {round(1 / LARGEST)}"


def _reaches_one_in(delta: float, among: int | None) -> bool:
    return among is not None and delta * among >= 1 - 1e-12  # 1 / among, as a float, reaches it


def _name(unit: Unit) -> str:
    return _MANY.get(unit.kind, "units")
