"""Every method of private completion, as whole runs on tiny tensors: everything that is released, on neighbours.

The tensors are as small as the methods allow, with values at their bounds, because one value then counts most and a
run takes about a millisecond. Methods that measure in stages need more entries: with fewer they release a mean. What is
drawn is all that would be released: offset, factors, core, biases, errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateEntries, PrivateValues
from tensorveil.privacy.private import Private
from tensorveil.solvers.task import Solution
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]

BOUNDS = (-1.0, 3.0)
_EPSILON, _MU = 2.0, 2.0
STAGES, CROSSTABS = "docs/guarantees.md#stages", "docs/guarantees.md#crosstabs"
_SIDE, _STAGED_RUNS = 8, 2_000
# Models of stages have as many components as two-way effects were found; outputs are padded to this length.
_LONGEST = 512


def method_subjects() -> Iterator[BlackBox]:
    """Yield every method with both kinds of noise, for CP; and those that use a core, for Tucker too."""
    for name, method in METHODS.items():
        for claim in (Claim(epsilon=_EPSILON), Claim(mu=_MU)):
            for core in (False, True) if method.uses_core else (False,):
                law = "laplace" if claim.mu is None else "gaussian"
                model = "tucker, " if core else ""
                yield BlackBox(
                    name=f"completion/{name}, {model}{law}",
                    unit=method.unit,
                    claim=claim,
                    proven=claim,
                    about="whole runs",
                    neighbours=choose_neighbours(method),
                    mechanism=whole_run(name, claim, core),
                    batched=False,
                    samples=2_000,
                    many=_STAGED_RUNS if adapts(method) else method.audit_runs,
                )


def count_subjects() -> Iterator[BlackBox]:
    """Yield whole runs where cells without an entry are zero, with both kinds of noise."""
    for claim in (Claim(epsilon=_EPSILON), Claim(mu=_MU)):
        yield BlackBox(
            name=f"completion/crosstabs of counts, {'laplace' if claim.mu is None else 'gaussian'}",
            unit="entry",
            claim=claim,
            proven=claim,
            about="whole runs",
            neighbours=count_neighbours,
            mechanism=whole_run("crosstabs", claim, core=False),
            batched=False,
            samples=2_000,
            many=_STAGED_RUNS,
        )


def count_neighbours() -> list[tuple[PrivateEntries, PrivateEntries]]:
    """Return what `crossed_neighbours` does, for counts between 0 and the upper bound."""
    ((one, other),) = crossed_neighbours()
    bounds = (0.0, BOUNDS[1])
    return [(replace(one, bounds=bounds, zeros=True), replace(other, bounds=bounds, zeros=True))]


def adapts(method: Method) -> bool:
    """Tell whether a method decides on what to measure while it measures, so that it needs more entries."""
    return STAGES in method.proofs or CROSSTABS in method.proofs


def choose_neighbours(method: Method) -> Callable[[], list[Any]]:
    """Return what gives neighbours for a method."""
    if method.unit == "entry":
        return crossed_neighbours if adapts(method) else entry_neighbours
    return staged_neighbours if STAGES in method.proofs else value_neighbours


def staged_neighbours() -> list[tuple[PrivateValues, PrivateValues]]:
    """Return an 8 x 8 x 8 tensor, half of it at either bound, and its neighbour with one value at the other."""
    shape = (_SIDE,) * 3
    cells = np.argwhere(np.ones(shape))
    columns = np.ascontiguousarray(cells.T.astype(np.int32))
    values = np.where(cells[:, 0] < _SIDE // 2, *BOUNDS)
    changed = np.append(BOUNDS[1], values[1:])
    one, other = (
        PrivateValues(columns=columns, values=Private(each), shape=shape, bounds=BOUNDS) for each in (values, changed)
    )
    return [(one, other)]


def crossed_neighbours() -> list[tuple[PrivateEntries, PrivateEntries]]:
    """Return the same tensor for unit entry, and its neighbour without one entry."""
    ((data, _),) = staged_neighbours()
    values = data.values.reveal()
    one, other = (
        PrivateEntries(
            columns=Private(np.ascontiguousarray(data.columns[:, first:])), values=Private(values[first:]),
            shape=data.shape, bounds=BOUNDS,
        )
        for first in (0, 1)
    )  # fmt: skip
    return [(one, other)]


def value_neighbours() -> list[tuple[PrivateValues, PrivateValues]]:
    """Return a 2 x 2 matrix with every value at a bound, and its neighbour with one value at the other."""
    low, high = BOUNDS
    columns = np.ascontiguousarray(np.argwhere(np.ones((2, 2))).T.astype(np.int32))

    def data(values: list[float]) -> PrivateValues:
        return PrivateValues(columns=columns, values=Private(np.array(values)), shape=(2, 2), bounds=BOUNDS)

    return [(data([low, high, high, low]), data([high, high, high, low]))]


def entry_neighbours() -> list[tuple[PrivateEntries, PrivateEntries]]:
    """Return three entries of a 2 x 2 matrix, and the same without the one that had a row to itself."""
    columns = np.array([[0, 0, 1], [0, 1, 1]], dtype=np.int32)
    values = np.array([BOUNDS[1], BOUNDS[0], BOUNDS[1]])

    def data(kept: slice) -> PrivateEntries:
        chosen = np.ascontiguousarray(columns[:, kept])
        return PrivateEntries(columns=Private(chosen), values=Private(values[kept]), shape=(2, 2), bounds=BOUNDS)

    return [(data(slice(None)), data(slice(2)))]


def whole_run(name: str, claim: Claim, core: bool) -> Callable[[Any, np.random.Generator], Array]:
    """Return the mechanism that runs a method once, from the same public start, and gives all it would release."""

    def mechanism(data: Any, rng: np.random.Generator) -> Array:
        form = Form(ranks=(1,) * len(data.shape), core=core, sweeps=3, restarts=1, threads=1, seed=0)
        spend = Spend(source=source(rng), epsilon=claim.epsilon, mu=claim.mu)
        found = flatten_outcome(METHODS[name].run(data, form, spend))
        if not adapts(METHODS[name]):
            return found
        return np.pad(found, (0, _LONGEST - len(found)), constant_values=np.nan)

    return mechanism


def flatten_outcome(outcome: Outcome) -> Array:
    """Return every number of a solution, and of its errors where they were measured."""
    found, errors = flatten_solution(outcome.solution), outcome.errors
    return found if errors is None else np.concatenate([found, errors.levels, errors.masses.reshape(-1)])


def flatten_solution(solution: Solution) -> Array:
    """Return every number of a solution."""
    parts = [np.array([solution.offset]), *solution.factors, *(solution.biases or ())]
    if solution.core is not None:
        parts.append(solution.core)
    return np.concatenate([np.asarray(part, dtype=np.float64).reshape(-1) for part in parts])
