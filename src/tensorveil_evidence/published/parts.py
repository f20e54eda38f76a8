"""Where the budget goes: on one mode, as in print, or in equal parts on all factors and the core."""

from __future__ import annotations

import math

from tensorveil.errors import InputError
from tensorveil.solvers.task import Task
from tensorveil.tensor.modes import Mode, find_axis


def find_noisy(modes: tuple[Mode, ...], noisy_mode: int | str, spread: bool) -> int | None:
    """Return the place of the one noisy mode, or None where the budget is spread over all."""
    if not isinstance(spread, bool):
        raise InputError("spread must be True or False.")
    axis = find_axis(modes, noisy_mode)
    if not spread:
        return axis
    if axis != len(modes) - 1:
        raise InputError("noisy_mode has no meaning with spread=True, where all modes are noisy. Leave it out.")
    return None


def sizes_of_parts(task: Task) -> tuple[int, ...]:
    """Return the lengths of what is moved at once: a row of every factor, and the core if there is one."""
    return (*task.ranks, math.prod(task.ranks)) if task.core else task.ranks
