"""From the parameters of an estimator to the settings of a solver: checked once, with the remedy in every message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np

from tensorveil.errors import InputError
from tensorveil.solvers.bayes import Bayes
from tensorveil.solvers.catalogue import SOLVERS, Solve, Solvers


def solver_settings(solver: str, given: Mapping[str, Any], solvers: Solvers = SOLVERS) -> tuple[Any, Solve]:
    """Return the settings and the function of a solver; parameters left at None take the solver's defaults."""
    choose("solver", solver, solvers)
    settings_type, solve = solvers[solver]
    known = {f.name for f in fields(settings_type)}
    used = {name: value for name, value in given.items() if value is not None}
    for name, value in used.items():
        if name not in known:
            owners = [s for s, (kind, _) in solvers.items() if name in {f.name for f in fields(kind)}]
            raise InputError(f'{name} has no meaning for solver="{solver}". Leave it out, or try solver="{owners[0]}".')
        _check_setting(name, value)
    return settings_type(**used), solve


def settings_for_restart(settings: Any, restart: int) -> Any:
    """Return the settings of a restart: the second start of "bayes" is the data's spectrum, the others are random."""
    return replace(settings, start="spectral") if restart == 1 and isinstance(settings, Bayes) else settings


def _check_setting(name: str, value: Any) -> None:
    if name == "sweeps":
        whole_number(name, value, 1, 50)
    elif name == "learning_rate":
        number(name, value, above=0.0, remedy=0.005)
    elif name == "penalty":
        number(name, value, above=0.0, remedy=0.1)
    elif name == "growth":
        number(name, value, at_least=1.0, remedy=1.05)
    elif name == "multiplier":
        if not isinstance(value, bool):
            raise InputError(f"multiplier must be True or False; got {value!r}.")
    elif name not in ("estimate_rank", "laplace"):
        number(name, value, at_least=0.0, remedy=0.01)


def choose(name: str, value: Any, allowed: Any) -> None:
    """Require one of a few words."""
    if value not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed)
        raise InputError(f"{name} must be one of {words}; got {value!r}.")


def whole_number(name: str, value: Any, least: int, remedy: int) -> int:
    """Require an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}. Try {name}={remedy}.")
    return int(value)


def number(name: str, value: Any, *, remedy: float, at_least: float | None = None, above: float | None = None) -> float:
    """Require a finite number in a range."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    ok = real and math.isfinite(value)
    ok = ok and (at_least is None or value >= at_least) and (above is None or value > above)
    if not ok:
        rule = f"at least {at_least:g}" if at_least is not None else f"above {above:g}"
        raise InputError(f"{name} must be a finite number {rule}; got {value!r}. Try {name}={remedy:g}.")
    return float(value)


def cp_ranks(rank: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the rank once per mode."""
    return (whole_number("rank", rank, 1, 8),) * len(shape)


def matrix_ranks(rank: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the rank of a matrix, once per side; it is at most the smaller side."""
    if len(shape) != 2:
        raise InputError(f"a low-rank matrix has two modes; got a tensor with {len(shape)}. Try CP or Tucker.")
    number_of_columns = whole_number("rank", rank, 1, min(8, *shape))
    if number_of_columns > min(shape):
        raise InputError(
            f"rank must be at most the smaller side of the matrix, {min(shape)}; got {rank}. Try rank={min(shape)}."
        )
    return (number_of_columns, number_of_columns)


def tucker_ranks(rank: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return one rank per mode; a single number is cut to the size of smaller modes."""
    if isinstance(rank, (int, np.integer)):
        one = whole_number("rank", rank, 1, 4)
        return tuple(min(one, size) for size in shape)
    ranks = tuple(rank) if isinstance(rank, Sequence) and not isinstance(rank, str) else ()
    if len(ranks) != len(shape):
        raise InputError(
            f"rank must be a whole number or one per mode, {len(shape)} here; got {rank!r}. "
            f"Try rank={(4,) * len(shape)}."
        )
    for position, (value, size) in enumerate(zip(ranks, shape, strict=True)):
        whole_number(f"rank[{position}]", value, 1, 4)
        if value > size:
            raise InputError(
                f"rank[{position}] must be at most the size of its mode, {size}; got {value}. "
                f"Try rank[{position}]={size}."
            )
    return cast(tuple[int, ...], tuple(int(r) for r in ranks))


def fit_dtype(dtype: Any, solver: str, values: np.dtype[Any]) -> np.dtype[Any]:
    """Return the precision of the fit: as asked, else the values' own; the variational solver needs float64."""
    if dtype is None:
        return np.dtype(np.float64) if solver == "bayes" else values
    kind: np.dtype[Any]
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if solver == "bayes" and kind != np.dtype(np.float64):
        raise InputError('dtype must be "float64" for solver="bayes". Leave it out, or try solver="als".')
    return kind
