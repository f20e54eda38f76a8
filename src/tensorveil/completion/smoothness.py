"""From the parameter ``smooth`` to priors of modes, and to the pair of modes that make one time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.solvers.bayes import Bayes
from tensorveil.solvers.catalogue import Solve
from tensorveil.solvers.priors.row_prior import PriorFactory
from tensorveil.solvers.priors.series import Look, Series, look_at_series, solve_with_series
from tensorveil.solvers.priors.walk import Walk
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import Mode
from tensorveil.tensor.modes import find_axis, ordered_indices

KINDS = ("walk", "cycle")
_EXAMPLE = 'Try smooth={"day": "walk", "hour": "cycle"}.'


@dataclass(frozen=True, kw_only=True)
class Smoothness:
    """What is smooth: priors by mode; a pair of modes that make one time, or None; by mode the order of its indices."""

    priors: Mapping[int, PriorFactory]
    series: Series | None = None
    orders: Mapping[int, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.priors) or self.series is not None

    def describe(self, modes: Sequence[Mode]) -> tuple[str, ...]:
        """Say what is taken to be smooth."""
        said = [f"that neighbours in mode {modes[mode].name!r} may be alike" for mode in self.priors]
        if self.series is not None:
            names = " and ".join(repr(modes[mode].name) for mode in self.series.modes)
            said.append(f"that neighbours along the time of {names} may be alike")
        return tuple(said)

    @property
    def times(self) -> tuple[Series, ...]:
        """Along what neighbours may be alike: the time that a pair makes, or each smooth mode by itself."""
        if self.series is not None:
            return (self.series,)
        return tuple(Series(modes=(mode,), orders=(order,)) for mode, order in self.orders.items())


def read_smoothness(smooth: Any, modes: tuple[Mode, ...], shape: Sequence[int]) -> Smoothness:
    """Check the parameter against the modes of a tensor."""
    if smooth is None:
        return Smoothness(priors={})
    if not isinstance(smooth, Mapping):
        raise InputError(f"smooth must map modes to how they are smooth. {_EXAMPLE}")
    priors: dict[int, PriorFactory] = {}
    orders: dict[int, Any] = {}
    series = None
    for key, kind in smooth.items():
        if kind not in KINDS:
            raise InputError(f'smooth must be "walk" or "cycle" for each mode; got {kind!r}. {_EXAMPLE}')
        if isinstance(key, tuple):
            if series is not None:
                raise InputError("smooth takes one pair of modes at most, which make one time. Leave out the other.")
            series = _read_pair(key, kind, modes, shape)
            continue
        mode = find_axis(modes, key)
        if mode in priors:
            raise InputError("smooth names a mode twice. Name it once.")
        orders[mode] = ordered_indices(modes[mode], shape[mode])
        priors[mode] = partial(Walk.start, order=orders[mode], cycle=kind == "cycle")
    return Smoothness(priors=priors, series=series, orders=orders)


def check_smooth_release(smoothness: Smoothness, unit: str, method: str, solver: str) -> None:
    """Refuse smooth modes where a private fit would not heed them."""
    if not smoothness:
        return
    if unit != "value":
        raise InputError(
            f'smooth is for unit="value", not unit="{unit}": where positions are private, tables show noisy counts as '
            "well, for which no smooth prior is there. Leave it out."
        )
    if not METHODS[method].smooths:
        words = ", ".join(f'"{name}"' for name in BY_UNIT["value"] if METHODS[name].smooths)
        raise InputError(f'smooth has no meaning for method="{method}". Leave it out, or try "auto" or one of {words}.')
    if solver != "bayes":
        raise InputError(f'smooth has no meaning for solver="{solver}". Leave it out, or try solver="bayes".')


def with_priors(settings: Any, smoothness: Smoothness, side: Mapping[int, PriorFactory], solver: str) -> Any:
    """Return the solver's settings with the priors; refuse where they would be ignored."""
    if not smoothness and not side:
        return settings
    name = "side (or implicit)" if side else "smooth"
    if set(side) & set(smoothness.priors):
        raise InputError("side (or implicit): a mode cannot be both smooth and have features. Leave out one of them.")
    if "priors" not in {f.name for f in fields(settings)}:
        raise InputError(f'{name} has no meaning for solver="{solver}". Leave it out, or try solver="bayes".')
    if getattr(settings, "laplace", False):
        raise InputError(f'{name} cannot be combined with noise_law="laplace". Leave one of them out.')
    return replace(settings, priors={**smoothness.priors, **side})


def _read_pair(key: tuple[Any, ...], kind: str, modes: tuple[Mode, ...], shape: Sequence[int]) -> Series:
    if len(key) != 2 or kind != "walk":
        raise InputError(
            'smooth takes pairs of modes, the slower one first, as a "walk". Try smooth={("day", "hour"): "walk"}.'
        )
    slow, fast = (find_axis(modes, mode) for mode in key)
    if slow == fast:
        raise InputError("smooth: a pair must name two modes, such as the day and the hour within it.")
    orders = tuple(ordered_indices(modes[m], shape[m]) for m in (slow, fast))
    return Series(modes=(slow, fast), orders=(orders[0], orders[1]))


def make_smooth(solve: Solve, series: Series | None) -> Solve:
    """Return a solver that fits, where two modes make one time, what the model leaves over along it as well."""
    if series is None:
        return solve
    looks: list[Look] = []  # one for all starts

    def solve_smoothly(task: Task, settings: Any, watch: Watch) -> Solution:
        def fit(each: Task, independent: float, sweeps: int | None) -> Solution:
            # The first fit only shows how large and how alike remainders are: the watch sees the second.
            if sweeps is not None:
                short = replace(settings, sweeps=min(sweeps, settings.sweeps))
                return solve(each, short, Watch(iterations=short.sweeps, tol=settings.tol, patience=1))
            tempered = replace(settings, temper=independent) if isinstance(settings, Bayes) else settings
            return solve(each, tempered, watch)

        if not looks:
            looks.append(look_at_series(task, series, settings.sweeps, fit))
        return solve_with_series(task, series, looks[0], fit)

    return solve_smoothly
