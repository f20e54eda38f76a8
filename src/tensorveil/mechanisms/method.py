"""How a mechanism describes itself: ``METHOD = Method(...)`` at the end of its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.spend import Spend

# Private data as the gate admits them: `PrivateValues` in unit "value", `PrivateEntries` in unit "entry".
Run = Callable[[Any, Form, Spend], Outcome]
Expected = Callable[[Case], float]


class NotCompared(Enum):
    """The type of `NOT_COMPARED`."""

    NOT_COMPARED = "not compared"


# For mechanisms that the planner leaves out of its comparison: they run only when they are asked for by name, or when
# they are the first that `names.py` lists for a unit without comparison.
NOT_COMPARED: Final = NotCompared.NOT_COMPARED


@dataclass(frozen=True, kw_only=True)
class Method:
    """All that other code may want to know about a mechanism.

    Parameters
    ----------
    name
        What users call it: ``method="input"``.
    title
        Its name in reports and guarantees.
    unit
        What it protects: "value" or "entry".
    run
        Compute the release: ``run(data, form, spend)``.
    proofs
        Where its guarantee is proven: paragraphs of docs/guarantees.md.
    expected
        Predict its squared error from a public `Case`, as a share of the values' variance; the planner compares these.
        Required: `NOT_COMPARED` leaves the mechanism out on purpose, as in unit "entry", where the number of entries is
        private and there is no such case.
    has_rank
        Whether the model that it releases has components, and so a rank; otherwise it has an offset and perhaps biases.
    fits_values
        Whether it fits values that are already perturbed, so that any solver may be used and the rank may be found.
    uses_core
        Whether the core of a Tucker model enters what it computes from the data, so that audits have to run it with
        and without one.
    noise
        The noise that it adds, "laplace" or "gaussian", where the budget allows both and no prediction decides; by
        default "gaussian".
    smooths
        Whether it heeds that neighbours are alike in some modes.
    zeros
        Whether it can be told that cells without an entry are zero, so that they count.
    audit_runs
        How many whole runs on a tiny tensor a thorough audit makes: fewer for slow mechanisms.
    """

    name: str
    title: str
    unit: str
    run: Run
    proofs: tuple[str, ...]
    expected: Expected | NotCompared | None = None
    has_rank: bool = True
    fits_values: bool = False
    uses_core: bool = False
    noise: str | None = None
    smooths: bool = False
    zeros: bool = False
    audit_runs: int = 20_000

    def __post_init__(self) -> None:
        if self.expected is None:
            raise TypeError(
                f"the method {self.name!r} predicts no error, so the planner cannot compare it with the others. "
                "Add expected=FUNCTION of a Case to its METHOD, or expected=NOT_COMPARED to leave it out on purpose."
            )
        if self.unit != "value" and not isinstance(self.expected, NotCompared):
            raise TypeError(
                f"the method {self.name!r} cannot be compared: in unit {self.unit!r} the number of entries is private, "
                "so nothing can be predicted. Use expected=NOT_COMPARED."
            )
        if not self.proofs:
            raise TypeError(f"the method {self.name!r} names no proof. Add proofs=('docs/guarantees.md#...',).")
