"""Mechanisms as plain data, so that a collector can decode reports and say what they promise."""

from __future__ import annotations

from typing import Any, Final

from tensorveil.errors import InputError
from tensorveil.local.basis import Basis
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.dtldp import DTLDP
from tensorveil.local.gaussian import ExactGaussian
from tensorveil.local.hybrid import Hybrid
from tensorveil.local.piecewise import Piecewise
from tensorveil.local.privunit import PrivUnit
from tensorveil.local.privunitg import PrivUnitG
from tensorveil.local.projected import Projected
from tensorveil.local.randomized_response import RandomizedResponse
from tensorveil.local.staircase import Staircase

MECHANISMS: Final[dict[str, type[LocalMechanism]]] = {
    made.__name__: made
    for made in (DTLDP, ExactGaussian, Hybrid, Piecewise, PrivUnit, PrivUnitG, Projected, RandomizedResponse, Staircase)
}


def mechanism_to_json(mechanism: LocalMechanism) -> dict[str, Any]:
    """Write a mechanism's public parameters."""
    return {"mechanism": type(mechanism).__name__, **mechanism.settings()}


def mechanism_from_json(content: dict[str, Any]) -> LocalMechanism:
    """Make the mechanism that `mechanism_to_json` described."""
    settings = dict(content)
    name = settings.pop("mechanism", None)
    if name not in MECHANISMS:
        raise InputError(f"the mechanism is unknown; it must be one of {', '.join(MECHANISMS)}. Upgrade tensorveil?")
    try:
        settings["shape"] = tuple(settings["shape"])
        if name == "Projected":
            settings["basis"] = Basis.from_settings(settings["basis"], settings["shape"])
            settings["inner"] = mechanism_from_json(settings["inner"])
        return MECHANISMS[name](**settings)
    except (KeyError, TypeError) as error:
        raise InputError("the mechanism's text is incomplete. Was it written by this program?") from error
