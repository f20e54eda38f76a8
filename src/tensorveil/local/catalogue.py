"""The local mechanisms that `tensorveil.local.names` lists, as classes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from tensorveil.errors import InputError
from tensorveil.local import names
from tensorveil.local.contract import LocalMechanism

Class = type[LocalMechanism]


def mechanisms() -> Mapping[str, Class]:
    """Return the mechanisms by their names in the command, in the order of the list.

    >>> from tensorveil.local.catalogue import mechanisms
    >>> mechanisms()["k-rr"].__name__
    'RandomizedResponse'
    """
    return {name: _load(name, address) for name, address in names.MECHANISMS.items()}


def all_mechanisms() -> Mapping[str, Class]:
    """Return the mechanisms and those that wrap another one, by the names of their classes."""
    found = [*mechanisms().values(), *(_load(name, address) for name, address in names.WRAPPERS.items())]
    return {kind.__name__: kind for kind in found}


def find_mechanism(name: str) -> Class:
    """Return the mechanism of this name in the command."""
    if name not in names.MECHANISMS:
        raise InputError(
            f"mechanism must be one of {', '.join(names.MECHANISMS)}; got {name!r}. Try mechanism='hybrid'."
        )
    return _load(name, names.MECHANISMS[name])


def _load(name: str, address: str) -> Class:
    """Import a class, which checks itself; refuse an entry of the list that its class does not agree with."""
    module, _, attribute = address.partition(":")
    kind = getattr(import_module(module), attribute, None)
    if not (isinstance(kind, type) and issubclass(kind, LocalMechanism)):
        raise TypeError(f"local/names.py: {address} is not a LocalMechanism. Correct the entry of {name!r}.")
    if kind.command != name:
        raise TypeError(
            f"local/names.py calls {attribute} {name!r}, but the class calls itself {kind.command!r}. "
            "Set the class attribute `command` to the name in the list."
        )
    return kind
