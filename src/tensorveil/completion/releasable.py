"""What can be released: a model together with the guarantee that speaks of it, never one beside another's."""

from __future__ import annotations

from typing import Any, Protocol

from tensorveil.errors import InputError, NotFittedError
from tensorveil.mechanisms.planner import Plan
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Guarantee
from tensorveil.privacy.gate import name_lists
from tensorveil.rounds import SharedModel

__all__ = ["FittedModel", "Releasable", "check_pair", "check_releasable"]

FittedModel = CPModel | TuckerModel | SharedModel


class Releasable(Protocol):
    """What can be released: a fitted private estimator, a private selection, or the outcome of a federated run."""

    @property
    def model_(self) -> Any:
        """The model, as its mechanism left it."""

    @property
    def guarantee_(self) -> Guarantee:
        """What the model promises."""

    @property
    def plan_(self) -> Plan | None:
        """What the planner chose, with the public facts that it chose from; None if nothing was planned."""

    @property
    def notes_(self) -> tuple[str, ...]:
        """What its mechanism found worth measuring, in words."""

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""


def check_releasable(fitted: Releasable) -> tuple[FittedModel, Guarantee]:
    """Return model and guarantee, after checking that the guarantee speaks of this model."""
    if not hasattr(fitted, "confirm"):
        raise InputError("estimator must be a private one, which has a guarantee. Try PrivateCP or PrivateTucker.")
    if not hasattr(fitted, "guarantee_"):
        raise NotFittedError("estimator must be fitted first. Try .fit(tensor).")
    model, guarantee = fitted.model_, fitted.guarantee_
    # A model that was put in the place of the fitted one may hold rows that were computed without noise.
    if getattr(fitted, "private_model_", model) is not model:
        raise InputError("the model is no longer the one that was fitted, so its guarantee does not hold. Fit anew.")
    check_pair(model, guarantee)
    return model, guarantee


def check_pair(model: FittedModel, guarantee: Guarantee) -> None:
    """Refuse a model that contradicts the guarantee beside it."""
    if model.bounds != guarantee.bounds:
        raise InputError("the model and the guarantee have different bounds, so they do not belong together.")
    said = name_lists(model.modes)
    if guarantee.unit.kind != "value" and said is not None and said not in guarantee.public:
        raise InputError(
            f"a model for unit {str(guarantee.unit)!r} must have no labels but those of declared public lists, which "
            "its guarantee names: others tell who is in the data."
        )
