"""User-level privacy: models whose released parts are private for all that one user contributes, and run in rounds.

    recipe (public) -> rounds: contribute, noise, advance -> shared model -> a person's own part, locally

The contract: a `Recipe` fixes its rounds beforehand; `contribute` gives exact integers, each user's bounded, whatever
the split into groups; noise is added by whoever is trusted to; `advance` and `finish` are post-processing.
"""

from __future__ import annotations

from tensorveil.rounds.contract import LIMIT, Round, State
from tensorveil.rounds.recipe import Recipe
from tensorveil.rounds.runner import noise_for, parts_of, run_recipe
from tensorveil.rounds.shared import SharedModel

__all__ = ["LIMIT", "Recipe", "Round", "SharedModel", "State", "noise_for", "parts_of", "run_recipe"]
