"""The best candidates for many rows at once, with labels and without what they have already: films for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, LeftOutWarning, warn
from tensorveil.models.indexing import index_positions, label_positions
from tensorveil.models.ranking import rank_positions
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.frames import as_table
from tensorveil.tensor.lists import find_listed, match_columns
from tensorveil.tensor.modes import find_axis, near
from tensorveil.tensor.number_columns import read_floats

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorveil.models.multilinear import MultilinearModel

Array = NDArray[Any]

__all__ = ["Seen", "find_places", "find_seen", "recommend", "settle_question"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Who has what already, as indices of the two modes."""

    owners: Array
    items: Array


def find_places(given: pa.Table | ObservedTensor, modes: Sequence[Mode], shape: Sequence[int], axis: int) -> Array:
    """Return where a model has what entries hold in one of its modes, -1 where it is nowhere."""
    mode = modes[axis]
    if isinstance(given, ObservedTensor):
        if given.order != len(shape):
            raise InputError(f"seen must have {len(shape)} modes like the model; got {given.order}.")
        found: Array = match_columns(given, modes, (axis,))[axis]
    elif mode.name not in given.column_names:
        raise InputError(f"entries: there must be a column {mode.name!r}. {near(mode.name, given.column_names)}")
    elif mode.labels is not None:
        found = find_listed(given.column(mode.name), mode)
    else:
        numbers = read_floats(given.column(mode.name))
        found = np.where(numbers == np.floor(numbers), numbers, -1.0)  # what is no number equals nothing
    return np.where(found < shape[axis], found, -1).astype(np.int64)


def find_seen(given: Any, modes: Sequence[Mode], shape: Sequence[int], owner: int, target: int) -> Seen:
    """Find who has what already: by the two modes, whatever else entries hold. Others say nothing, and that is told.

    Whoever has seen a film on one day has seen it on all of them. Entries are a tensor, a table, a frame or a mapping
    of columns.
    """
    if isinstance(given, Seen):
        return given
    if given is None:
        return Seen(owners=np.empty(0, np.int64), items=np.empty(0, np.int64))
    entries = given if isinstance(given, ObservedTensor) else _table_of(given)
    owners, items = (find_places(entries, modes, shape, axis) for axis in (owner, target))
    known = (owners >= 0) & (items >= 0)
    if not known.all():
        warn(
            f"entries: {np.count_nonzero(~known):,} of {len(known):,} leave nothing out, since the model does not know "
            f"their {modes[owner].name!r} or their {modes[target].name!r}. Check how these are written if it should.",
            LeftOutWarning,
        )
    return Seen(owners=owners[known], items=items[known])


def _table_of(given: Any) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.table(dict(given)) if isinstance(given, Mapping) else as_table(given)
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError):
        pass
    raise InputError("seen must be a tensor, a frame, or a mapping of columns of one length.")


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
    seen: Any,
) -> pa.Table:
    """Rank the candidates of every user; see `MultilinearModel.recommend`."""
    import pyarrow as pa

    owner, target, fixed = settle_question(model.modes, model.shape, wanted, along, at)
    rows = _find_users(users, model.modes[owner], model.shape[owner])
    known = find_seen(seen, model.modes, model.shape, owner, target)
    order = np.argsort(known.owners, kind="stable")
    owners, items = known.owners[order], known.items[order]
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
    try:
        return label_positions(listed, mode, size)
    except InputError as error:
        if mode.labels is None:
            raise
        problem = InputError(
            f"users must be known to the model as {mode.name!r}; some are not. Check how they are written."
        )
        raise problem from error


def _name(mode: Mode, indices: NDArray[Any]) -> Any:
    labels = mode.decode(indices)
    return labels.tolist() if labels.dtype.kind == "T" else labels
