"""What the compiled bounded sums should do, in plain numpy; and the same with one piece broken on purpose."""

from typing import Any

import numpy as np


def add_bounded(
    pointers: Any,
    columns: Any,
    offsets: Any,
    scales: Any,
    width: Any,
    parts: Any,
    own: Any,
    per_unit: Any,
    limit: Any,
    places: Any,
    touched: Any,
    numbers: Any,
    steps: Any,
    out: Any,
    broken: Any = None,
) -> None:
    """Stand in for `kernels.users.add_bounded`."""
    for i in range(len(pointers) - 1):
        mine = np.zeros(len(out))
        entries = 0.0  # sum of squares of single entries: what a bound that forgets repeated rows would look at
        part = slice(pointers[i], pointers[i + 1])
        for m, offset in enumerate(offsets):
            rows = offset + columns[m, part].astype(np.int64)
            scaled = scales[rows][:, None] * parts[part][:, :width]
            np.add.at(mine, (rows * width)[:, None] + np.arange(width), scaled)
            entries += float(np.sum(scaled**2))
        tail = len(out) - own.shape[1]
        mine[tail:] = own[i]
        square = {
            None: np.sum(mine**2),
            "no clip": 0.0,
            "linear sums ignored": entries + np.sum(own[i] ** 2),
            "mean charged too little": np.sum(mine[:tail] ** 2),
        }[broken]
        length = np.sqrt(square) * per_unit
        room = limit - 1 - 0.5 * np.sqrt(np.count_nonzero(mine))
        factor = per_unit * min(1.0, room / length if length > 0 else 1.0)
        out += np.rint(mine * factor).astype(np.int64)


def entry_norms(pointers: Any, columns: Any, offsets: Any, scales: Any, scratch: Any, out: Any) -> None:
    """Stand in for `slice_norms`: weigh users by the number of their entries, as if no two fell into one row."""
    out[:] = np.sqrt(np.diff(pointers) * np.sum(scales[offsets] ** 2))


def no_norms(pointers: Any, columns: Any, offsets: Any, scales: Any, scratch: Any, out: Any) -> None:
    """Stand in for `slice_norms`: weigh nobody."""
    out[:] = 0.0
