"""Every method of private completion, as whole runs on tiny tensors: everything that is released, on neighbours.

The tensors are as small as the methods allow, with values at their bounds, because one value then counts most and a
run takes about a millisecond. What is drawn is all that would be released: offset, factors, core, biases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateEntries, PrivateValues
from tensorveil.privacy.private import Private
from tensorveil.solvers.task import Solution
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]

BOUNDS = (-1.0, 3.0)
_EPSILON, _MU = 2.0, 2.0


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
                    neighbours=value_neighbours if method.unit == "value" else entry_neighbours,
                    mechanism=whole_run(name, claim, core),
                    batched=False,
                    samples=2_000,
                    many=method.audit_runs,
                )


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
    form = Form(ranks=(1, 1), core=core, sweeps=3, restarts=1, threads=1, seed=0)

    def mechanism(data: Any, rng: np.random.Generator) -> Array:
        spend = Spend(source=source(rng), epsilon=claim.epsilon, mu=claim.mu)
        return flatten_solution(METHODS[name].run(data, form, spend).solution)

    return mechanism


def flatten_solution(solution: Solution) -> Array:
    """Return every number of a solution."""
    parts = [np.array([solution.offset]), *solution.factors, *(solution.biases or ())]
    if solution.core is not None:
        parts.append(solution.core)
    return np.concatenate([np.asarray(part, dtype=np.float64).reshape(-1) for part in parts])
