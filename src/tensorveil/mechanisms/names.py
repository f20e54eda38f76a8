"""The methods of private completion by unit: data only, so that the command can list them at no cost.

This is the one list to edit when a method is added. Those of units "value" and "entry" are files of this folder, called
like the method with "_" for "+", that end with ``METHOD = Method(...)``; `tensorveil.mechanisms.catalogue` imports
them. Those of unit "slice" run in rounds, and are described in `tensorveil.completion.slices` and
`tensorveil.completion.records`.
"""

from __future__ import annotations

from typing import Final

BY_UNIT: Final[dict[str, tuple[str, ...]]] = {
    "value": ("mean", "margins", "tables", "input", "staged", "output", "gradient"),
    "entry": ("crosstabs", "gram"),
    "slice": ("biases", "factors", "records"),
}
