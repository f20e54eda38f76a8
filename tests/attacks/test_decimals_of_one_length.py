"""Decimal numbers, as databases hand them over: a column has as many digits as its longest number, for all of them.

Turned into floats they were rounded by this number of digits. So one entry with many digits moved the last bits of
more than half of the others.
"""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import tensorveil as tv

pa = pytest.importorskip("pyarrow")

RULES: dict[str, Any] = {
    "shape": (50, 41),
    "bounds": (0, 10),
    "duplicates": "keep",
    "missing": "drop",
    "out_of_bounds": "clip",
    "out_of_range": "drop",
}


@pytest.mark.parametrize("rules", [RULES, {"bounds": (0, 10)}])
@pytest.mark.parametrize("long", ["1.0000000000000000001", "1.00000000000000000000000000001", "0.3"])
def test_a_long_number_moves_no_other(rules: dict[str, Any], long: str) -> None:
    numbers = [Decimal(int(number)) / 10**5 for number in np.random.default_rng(0).integers(0, 10**6, 2000)]

    def read(values: list[Decimal]) -> Any:
        cells = np.arange(len(values))
        frame = pa.table({"user": cells % 50, "film": cells // 50, "value": values})
        return tv.ObservedTensor.from_frame(frame, labels=False, **rules).values

    expected = [float(number) for number in numbers]
    assert read(numbers).tolist() == expected
    assert read([*numbers, Decimal(long)]).tolist() == [*expected, float(Decimal(long))]
