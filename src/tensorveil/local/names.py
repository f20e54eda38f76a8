"""The one list of local mechanisms, as data only, so that the command knows their names at no cost.

A new mechanism is a module of this folder and an entry here. Everything else (what can be stored, what `choose`
compares, what `--mechanism` takes, what the audit attacks, what `tensorveil.local` exports) follows from this list and
from what the class says about itself. `choose` settles ties in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # for type checkers and editors; at run time classes are imported when they are first used
    from tensorveil.local.dtldp import DTLDP as DTLDP
    from tensorveil.local.gaussian import ExactGaussian as ExactGaussian
    from tensorveil.local.hybrid import Hybrid as Hybrid
    from tensorveil.local.piecewise import Piecewise as Piecewise
    from tensorveil.local.privunit import PrivUnit as PrivUnit
    from tensorveil.local.privunitg import PrivUnitG as PrivUnitG
    from tensorveil.local.projected import Projected as Projected
    from tensorveil.local.randomized_response import RandomizedResponse as RandomizedResponse
    from tensorveil.local.staircase import Staircase as Staircase

# Name in the command -> module:class.
MECHANISMS: Final[dict[str, str]] = {
    "k-rr": "tensorveil.local.randomized_response:RandomizedResponse",
    "hybrid": "tensorveil.local.hybrid:Hybrid",
    "piecewise": "tensorveil.local.piecewise:Piecewise",
    "staircase": "tensorveil.local.staircase:Staircase",
    "dtldp": "tensorveil.local.dtldp:DTLDP",
    "privunit": "tensorveil.local.privunit:PrivUnit",
    "privunitg": "tensorveil.local.privunitg:PrivUnitG",
    "gaussian": "tensorveil.local.gaussian:ExactGaussian",
}

# Mechanisms that wrap one of the others; the command has an option of its own for each (`--basis`).
WRAPPERS: Final[dict[str, str]] = {
    "projected": "tensorveil.local.projected:Projected",
}
