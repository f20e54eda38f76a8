"""What the engine needs of a recipe, and the recipes that an agreement may name. Further ones are added here."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.federated.errors import RefusedError
from tensorveil.rounds import Round, State

__all__ = ["RoundsRecipe", "make_recipe", "name_of", "read_state"]


class RoundsRecipe(Protocol):
    """A computation in rounds that the federated engine can run: public, and the same for all parties.

    `tensorveil.rounds.Recipe` is one, for completion; `tensorveil.learning` has others.
    """

    def __hash__(self) -> int:
        """Return a hash; recipes are facts, and equal ones are the same."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, with what each spends."""

    @property
    def protect(self) -> str:
        """Name of the protected mode."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Declared range of values."""

    @property
    def delta(self) -> float:
        """Delta of the promise."""

    @property
    def most_users(self) -> int:
        """The largest possible number of users."""

    def start(self) -> State:
        """Return the public state before the first round."""

    def contribute(self, state: State, group: Any) -> NDArray[np.int64]:
        """Sum bounded contributions; the bound holds whatever the state is, because a server may lie."""

    def advance(self, state: State, total: NDArray[np.int64]) -> State:
        """Return the next state."""

    def finish(self, state: State) -> Any:
        """Return the released model."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""


@runtime_checkable
class ChecksStates(Protocol):
    """A recipe that knows which states an honest run cannot be in; for others every finite state is possible."""

    def check_state(self, state: State) -> None:
        """Raise InputError for such a state."""


# Where the classes of recipes are. They are imported only when used, because some need torch.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "users": ("tensorveil.rounds.recipe", "Recipe"),
    "records": ("tensorveil.rounds.records", "RecordsRecipe"),
    "averaged parameters": ("tensorveil.learning.parameters", "AveragedParameters"),
    "private gradients": ("tensorveil.learning.gradients", "PrivateGradients"),
    "class means": ("tensorveil.learning.statistics", "ClassMeans"),
    "class contrasts": ("tensorveil.learning.contrasts", "ClassContrasts"),
    "class moments": ("tensorveil.learning.statistics", "ClassMoments"),
}


def make_recipe(kind: Any, content: Any) -> RoundsRecipe:
    """Read a recipe of a known kind."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"the recipe must be one of {', '.join(KINDS)}. Use the same version of tensorveil everywhere."
        )
    home, name = KINDS[kind]
    recipe: RoundsRecipe = getattr(import_module(home), name).from_json(content)
    return recipe


def name_of(recipe: RoundsRecipe) -> str:
    """Return the name under which an agreement refers to a recipe."""
    own = (type(recipe).__module__, type(recipe).__name__)
    for name, kind in KINDS.items():
        if own == kind:
            return name
    raise InputError(f"a recipe of type {type(recipe).__name__} has no name here. Add it to KINDS.")


def read_state(recipe: RoundsRecipe, content: bytes, round_: int) -> State:
    """Read a state that came over the wire; refuse it unless it belongs to this round and has the expected arrays.

    Compiled code trusts shapes, so they are compared with those of a state that is computed here from sums of zero.
    All numbers must be finite, and the recipe refuses states that no honest server can be in.
    """
    try:
        state = State.from_bytes(content)
    except InputError:
        raise RefusedError("the state cannot be read") from None
    if state.round != round_:
        raise RefusedError("the state belongs to another round")
    wanted = {name: (array.shape, array.dtype) for name, array in _blank(recipe, round_).arrays.items()}
    if {name: (array.shape, array.dtype) for name, array in state.arrays.items()} != wanted:
        raise RefusedError("the state has other arrays than it should")
    if not all(np.isfinite(array).all() for array in state.arrays.values()):
        raise RefusedError("the state holds numbers that are not finite")
    if isinstance(recipe, ChecksStates):
        try:
            recipe.check_state(state)
        except InputError:
            raise RefusedError("the state is one that no honest server can be in") from None
    return state


@lru_cache(maxsize=64)
def _blank(recipe: RoundsRecipe, round_: int) -> State:
    """Return the state before a round if all sums were zero: only its shapes matter."""
    if round_ == 0:
        return recipe.start()
    total = np.zeros(recipe.rounds[round_ - 1].size, dtype=np.int64)
    return recipe.advance(_blank(recipe, round_ - 1), total)
