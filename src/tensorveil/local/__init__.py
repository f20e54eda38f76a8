"""Perturb a tensor before it leaves its owner: proven mechanisms, how to choose one, what to do with many reports.

Names are imported when they are first used. Mechanisms come from `tensorveil.local.names`, so adding one needs no edit
here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorveil.local import names as _names

if TYPE_CHECKING:
    from tensorveil.local.aggregate import LowRankMean as LowRankMean
    from tensorveil.local.aggregate import MeanEstimate as MeanEstimate
    from tensorveil.local.aggregate import combine as combine
    from tensorveil.local.aggregate import low_rank_mean as low_rank_mean
    from tensorveil.local.aggregate import mean_of as mean_of
    from tensorveil.local.allocation import weights_of_importance as weights_of_importance
    from tensorveil.local.allocation import weights_of_regions as weights_of_regions
    from tensorveil.local.basis import Basis as Basis
    from tensorveil.local.choice import Choice as Choice
    from tensorveil.local.choice import choose as choose
    from tensorveil.local.contract import LocalMechanism as LocalMechanism
    from tensorveil.local.names import *  # noqa: F403 - the mechanisms
    from tensorveil.local.projected import project as project
    from tensorveil.local.shuffling import shuffle as shuffle
    from tensorveil.local.shuffling import shuffled_epsilon as shuffled_epsilon
    from tensorveil.local.storage import mechanism_from_json as mechanism_from_json
    from tensorveil.local.storage import mechanism_to_json as mechanism_to_json

_HOMES = {
    "tensorveil.local.aggregate": ("LowRankMean", "MeanEstimate", "combine", "low_rank_mean", "mean_of"),
    "tensorveil.local.allocation": ("weights_of_importance", "weights_of_regions"),
    "tensorveil.local.basis": ("Basis",),
    "tensorveil.local.choice": ("Choice", "choose"),
    "tensorveil.local.contract": ("LocalMechanism",),
    "tensorveil.local.projected": ("project",),
    "tensorveil.local.shuffling": ("shuffle", "shuffled_epsilon"),
    "tensorveil.local.storage": ("mechanism_from_json", "mechanism_to_json"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
for _address in (*_names.MECHANISMS.values(), *_names.WRAPPERS.values()):
    _module, _, _class = _address.partition(":")
    _HOME[_class] = _module

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tensorveil.local' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
