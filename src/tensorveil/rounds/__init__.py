"""User-level privacy in rounds: models whose released parts protect everything that one user contributes.

    recipe (public) -> rounds: contribute, add noise, advance -> shared model -> a person's own part, locally

A `Recipe` fixes its rounds in advance. `contribute` returns exact integers, with every user's contribution bounded, and
the sums do not depend on how users are split into groups. Noise is added by whoever is trusted to add it; `advance` and
`finish` are post-processing. docs/explanation/rounds.md says how a round works and how to add one.
"""

from __future__ import annotations

from tensorveil.rounds.contract import LIMIT, Round, State
from tensorveil.rounds.recipe import Recipe
from tensorveil.rounds.records import RecordsRecipe
from tensorveil.rounds.runner import describe_parts, draw_noise, run_recipe, run_rounds
from tensorveil.rounds.shared import SharedModel
from tensorveil.rounds.stage import Setup, Stage

__all__ = [
    "LIMIT",
    "Recipe",
    "RecordsRecipe",
    "Round",
    "Setup",
    "SharedModel",
    "Stage",
    "State",
    "describe_parts",
    "draw_noise",
    "run_recipe",
    "run_rounds",
]
