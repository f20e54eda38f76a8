"""A matrix product over all entries rounds differently for another number of entries.

In unit entry with a Tucker model one entry more moved the last bits of other entries' designs, which are rounded to a
grid afterwards: the sum could move by more than one contribution.
"""

from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms import design as designs


def make_designs(columns: Any, core: Any, factors: Any, mode: int) -> Any:
    made = getattr(designs, "make_entry_design", None) or designs.make_row_design
    return made(np.ascontiguousarray(columns), core, factors, mode)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("core", [False, True])
def test_a_design_depends_on_its_own_entry_alone(order: int, core: bool) -> None:
    rng = np.random.default_rng(order)
    shape, ranks = (30,) * order, (7,) * order
    factors = [rng.standard_normal(size) for size in zip(shape, ranks, strict=True)]
    middle = rng.standard_normal(ranks) if core else None
    columns = rng.integers(0, 30, (order, 203)).astype(np.int32)
    for mode in range(order):
        everybody = make_designs(columns, middle, factors, mode)
        for kept in (1, 2, 3, 5, 8, 17, 64, 200, 202):
            assert np.array_equal(make_designs(columns[:, :kept], middle, factors, mode), everybody[:kept])


@pytest.mark.parametrize("core", [False, True])
def test_designs_are_right(core: bool) -> None:
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((6, rank)) for rank in ((3, 4, 2) if core else (3, 3, 3))]
    middle = rng.standard_normal((3, 4, 2)) if core else None
    columns = rng.integers(0, 6, (3, 40)).astype(np.int32)
    for mode in range(3):
        expected = designs.make_row_design(columns, middle, factors, mode)
        np.testing.assert_allclose(make_designs(columns, middle, factors, mode), expected, rtol=1e-12)
