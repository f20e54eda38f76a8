"""Mechanisms as plain data, so that a collector can decode reports and say what they promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorveil.errors import InputError
from tensorveil.local.catalogue import all_mechanisms
from tensorveil.local.contract import LocalMechanism


def mechanism_to_json(mechanism: LocalMechanism) -> dict[str, Any]:
    """Return a mechanism's public parameters as plain data."""
    return {"mechanism": type(mechanism).__name__, **mechanism.settings()}


def mechanism_from_json(content: Mapping[str, Any]) -> LocalMechanism:
    """Make the mechanism that `mechanism_to_json` described."""
    settings = dict(content)
    name = settings.pop("mechanism", None)
    known = all_mechanisms()
    if name not in known:
        raise InputError(f"the mechanism is unknown; it must be one of {', '.join(known)}. Try to upgrade tensorveil.")
    try:
        return known[name].from_settings(settings)
    except (KeyError, TypeError) as error:
        raise InputError("the mechanism's text is incomplete. Was it written by this program?") from error
