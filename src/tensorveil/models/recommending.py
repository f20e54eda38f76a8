"""The best candidates for many rows at once, with labels and without what they have already: films for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.indexing import index_positions, label_positions
from tensorveil.models.ranking import rank_positions
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.modes import find_axis

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorveil.models.multilinear import MultilinearModel

__all__ = ["recommend", "settle_question"]


def settle_question(
    modes: Sequence[Mode], shape: Sequence[int], wanted: str | int, along: str | int | None, at: Mapping[Any, Any]
) -> tuple[int, int, dict[int, int]]:
    """Return the mode to recommend for, the mode that is ranked, and the indices at which others are held."""
    known = tuple(modes)
    owner = find_axis(known, wanted)
    fixed = index_positions(at, known, shape, "at")
    if owner in fixed:
        raise InputError(f"at must not name {known[owner].name!r}, which is recommended for. Name people in users.")
    free = [m for m in range(len(known)) if m != owner and m not in fixed]
    if along is None:
        if len(free) != 1:
            names = [known[m].name for m in free]
            if not names:
                raise InputError("at must leave a mode to rank; it holds all of them. Leave one out.")
            raise InputError(
                f"along must say what is recommended: {', '.join(map(repr, names))} could be. Try along={names[0]!r}; "
                "other modes are averaged, or held at a label, at={'day': 'monday'}."
            )
        return owner, free[0], fixed
    target = find_axis(known, along)
    if target == owner or target in fixed:
        raise InputError(f"along must be another mode than the one recommended for and those in at; got {along!r}.")
    return owner, target, fixed


def recommend(
    model: MultilinearModel,
    wanted: str | int,
    n: int,
    users: Any,
    along: str | int | None,
    at: Mapping[Any, Any],
    seen: ObservedTensor | None,
) -> pa.Table:
    """Rank the candidates of every user; see `MultilinearModel.recommend`."""
    import pyarrow as pa

    owner, target, fixed = settle_question(model.modes, model.shape, wanted, along, at)
    rows = _find_users(users, model.modes[owner], model.shape[owner])
    # Whoever has seen a film on one day has seen it on all of them.
    owners, items = (np.empty(0, np.int32),) * 2 if seen is None else (seen.columns[owner], seen.columns[target])
    order = np.argsort(owners, kind="stable")
    owners, items = owners[order], items[order]
    cuts = [np.searchsorted(owners, rows, side=side) for side in ("left", "right")]
    found = [
        rank_positions(model, n, {**fixed, owner: row}, target, np.unique(items[first:last]), largest=True)
        for row, first, last in zip(rows.tolist(), *cuts, strict=True)
    ]
    counts = [len(each) for each in found]
    ranks = [np.arange(1, count + 1) for count in counts]
    columns = [
        (model.modes[owner].name, _name(model.modes[owner], np.repeat(rows, counts))),
        (model.modes[target].name, _name(model.modes[target], np.concatenate([each.indices for each in found]))),
        ("rank", np.concatenate(ranks)),
        ("prediction", np.concatenate([each.values for each in found])),
    ]
    names: list[str] = []
    for name, _ in columns:
        names.append(f"{name}_" if name in names else name)
    return pa.table([pa.array(column) for _, column in columns], names=names)


def _find_users(users: Any, mode: Mode, size: int) -> NDArray[np.int32]:
    """Return the rows of users, or all of them."""
    if users is None or (isinstance(users, str) and users == "all"):
        return np.arange(size, dtype=np.int32)
    listed = [users] if isinstance(users, str | int) else list(users)
    if not listed:
        raise InputError("users must name at least one. Leave it out for all of them.")
    return label_positions(listed, mode, size)


def _name(mode: Mode, indices: NDArray[Any]) -> Any:
    labels = mode.decode(indices)
    return labels.tolist() if labels.dtype.kind == "T" else labels
