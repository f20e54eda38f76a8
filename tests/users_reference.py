"""What the compiled bounded sums should do, in plain numpy; and the same with one piece broken on purpose."""

import numpy as np


def add_bounded(
    pointers, columns, offsets, scales, width, parts, own, per_unit, limit, scratch, touched, out, broken=None
):
    """Stand in for `kernels.users.add_bounded`."""
    for i in range(len(pointers) - 1):
        mine = np.zeros(len(out))
        entries = 0.0  # sum of squares of single entries: what a bound that forgets repeated rows would look at
        part = slice(pointers[i], pointers[i + 1])
        for m, offset in enumerate(offsets):
            at = (offset + columns[m, part].astype(np.int64)) * width
            np.add.at(mine, at[:, None] + np.arange(width), scales[m] * parts[part])
            entries += float(np.sum((scales[m] * parts[part]) ** 2))
        tail = len(out) - own.shape[1]
        mine[tail:] = own[i]
        square = {
            None: np.sum(mine**2),
            "no clip": 0.0,
            "linear sums ignored": entries + np.sum(own[i] ** 2),
            "mean charged too little": np.sum(mine[:tail] ** 2),
        }[broken]
        length = np.sqrt(square) * per_unit
        factor = per_unit * min(1.0, (limit - 1) / length if length > 0 else 1.0)
        out += np.trunc(mine * factor).astype(np.int64)
