"""Recommendations of a saved model: the best candidates for each of several people, without what they have already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.models import load_model
from tensorveil.models.indexing import label_positions, no_bin
from tensorveil.models.recommending import find_places, settle_question
from tensorveil.release.cells import read_model_table
from tensorveil.release.names import model_file
from tensorveil.rounds.own_entries import read_own
from tensorveil.rounds.shared import SharedModel, is_shared
from tensorveil.runs.people import read_own_table
from tensorveil.runs.recommend_stored import recommend_for_people, recommend_from_store
from tensorveil.runs.stores import check_same_modes
from tensorveil.tensor import Mode
from tensorveil.tensor.files.dialect import PLAIN, Dialect
from tensorveil.tensor.files.formats import write_table
from tensorveil.tensor.lists import match_labels
from tensorveil.tensor.modes import near
from tensorveil.tensor.stored import StoredTensor, is_store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Recommendation", "Recommended", "recommend_items"]


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What is to be recommended.

    Parameters
    ----------
    model
        A model's file, or the folder of a result or a release.
    wanted
        The mode to recommend for, such as "user".
    n
        How many candidates each of them gets.
    along
        The mode that is ranked; None if there is only one other.
    at
        Labels of other modes to rank at, {"day": "monday"}; what is not here is averaged.
    entries
        A table of what people have already, or a store that is ordered by them. For a model of unit slice: people's
        own entries, from which they are served.
    users
        Labels of those to recommend for; None for everybody in ``entries``, "all" for everybody in the model.
    output
        The table to write, .csv, .tsv or .parquet; None for none.
    safe_csv
        Whether texts that a spreadsheet would take for formulas get an apostrophe before them.
    force
        Whether an existing output may be replaced.
    dialect
        How CSV and TSV files are written, where that is not to be detected.
    """

    model: Path
    wanted: str
    n: int = 10
    along: str | None = None
    at: Mapping[str, str] | None = None
    entries: str | os.PathLike[str] | None = None
    users: Sequence[Any] | str | None = None
    output: Path | None = None
    safe_csv: bool = False
    force: bool = False
    dialect: Dialect = PLAIN


@dataclass(frozen=True, kw_only=True, eq=False)
class Recommended:
    """The table of recommendations, the mode that was ranked, and the modes that were averaged."""

    table: pa.Table
    along: str
    averaged: tuple[str, ...]
    output: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        output = None if self.output is None else str(self.output)
        rows = self.table.to_pylist()
        return {"along": self.along, "averaged": list(self.averaged), "output": output, "recommendations": rows}


def recommend_items(run: Recommendation) -> Recommended:
    """Recommend, and write the table if that is asked for, whole or not at all."""
    if run.output is not None and run.output.exists() and not run.force:
        raise InputError(f"output: {run.output} already exists. Choose another name, or add force=True.")
    path = model_file(run.model)
    model: Any = SharedModel.load(path) if is_shared(path) else load_model(path)
    at = {name: _find_labels(_mode(model, name), [text])[0] for name, text in (run.at or {}).items()}
    owner, target, fixed = settle_question(model.modes, model.shape, run.wanted, run.along, at)
    along = model.modes[target].name
    if run.entries is not None and is_store(run.entries):
        table = _by_store(model, run, owner, along, at)
    elif isinstance(model, SharedModel):
        table = _for_people(model, run, owner, along, at)
    else:
        mine = None if run.entries is None else _read_entries(run, model, owner, target)
        users = _choose_users(run, model, owner, mine)
        table = model.recommend(owner, run.n, users=users, along=along, at=at, seen=mine)
    if run.output is not None:
        write_table(table, run.output, safe=run.safe_csv)
    averaged = [mode.name for m, mode in enumerate(model.modes) if m not in (owner, target, *fixed)]
    return Recommended(table=table, along=along, averaged=tuple(averaged), output=run.output)


def _by_store(model: Any, run: Recommendation, owner: int, along: str, at: Mapping[str, Any]) -> pa.Table:
    """Recommend by what people have in a store, one part of them after the other."""
    assert run.entries is not None
    stored = StoredTensor.open(run.entries)
    shared = isinstance(model, SharedModel)
    if shared:
        _check_owner(model, owner)
    check_same_modes(stored, model.modes, but=owner if shared else None)
    mode, wanted = stored.modes[owner], None
    if run.users not in (None, "all"):
        wanted = label_positions(_find_labels(mode, run.users or ()), mode, stored.shape[owner])
    if shared:
        return recommend_for_people(model, stored, run.n, wanted, along=along, at=at)
    everybody = run.users == "all"
    return recommend_from_store(model, stored, run.n, owner, wanted, everybody=everybody, along=along, at=at)


def _check_owner(model: SharedModel, owner: int) -> None:
    name = model.modes[model.protect].name
    if owner != model.protect:
        raise InputError(
            f"this release serves each {name!r} from their own entries, and nobody else. Ask for {name!r}."
        )


def _for_people(model: SharedModel, run: Recommendation, owner: int, along: str, at: Mapping[str, Any]) -> pa.Table:
    name = model.modes[model.protect].name
    _check_owner(model, owner)
    if run.entries is None:
        raise InputError(
            f"{run.model} holds nobody's own part: recommendations for a person need the person's entries. "
            "Add entries=FILE."
        )
    mine = read_own_table(run.entries, model, dialect=run.dialect)
    own = read_own(mine, model)
    users = None if run.users in (None, "all") else _find_labels(own.modes[owner], run.users or ())
    table = model.recommend(n=run.n, entries=own, users=users, along=along, at=at)
    return table if name in mine.column_names else table.drop_columns([name])


def _read_entries(run: Recommendation, model: Any, owner: int, target: int) -> pa.Table:
    """Read who has what already; what the table holds in other modes does not matter."""
    assert run.entries is not None
    path = Path(run.entries)
    if not path.is_file():
        raise InputError(f"entries: file not found: {path}.")
    return read_model_table(path, [model.modes[owner], model.modes[target]], dialect=run.dialect).binned


def _choose_users(run: Recommendation, model: Any, owner: int, entries: pa.Table | None) -> Any:
    mode = model.modes[owner]
    if run.users == "all":
        return None
    if run.users is not None:
        return _find_labels(mode, run.users)
    if entries is None:
        raise InputError(f"users must say for which {mode.name!r} to recommend. Try users='all', or a list of labels.")
    found = np.unique(find_places(entries, model.modes, model.shape, owner))
    if not (found >= 0).any():
        raise InputError(f"entries: the model knows no {mode.name!r} of theirs. Check how they are written.")
    return mode.decode(found[found >= 0]).tolist()


def _mode(model: Any, name: str) -> Mode:
    found: list[Mode] = [mode for mode in model.modes if mode.name == name]
    if not found:
        raise InputError(
            f"at must name modes of the model, {', '.join(mode.name for mode in model.modes)}; got {name!r}. "
            f"{near(name, [mode.name for mode in model.modes])}"
        )
    return found[0]


def _find_labels(mode: Mode, given: Sequence[Any]) -> list[Any]:
    """Return the labels of a mode that were typed, or the indices where it has none."""
    if mode.labels is None:
        try:
            return [int(each) for each in given]
        except ValueError:
            raise InputError(f"mode {mode.name!r} has no labels in this model: give indices from 0.") from None
    places = match_labels(np.asarray(given, dtype=object), mode).tolist()
    if -1 in places:
        unknown = given[places.index(-1)]
        if mode.bins is not None:
            raise no_bin(mode, [unknown])
        remedy = near(str(unknown), [str(label) for label in mode.labels.tolist()])
        raise InputError(f"mode {mode.name!r} of the model has no label {unknown!r}. {remedy}")
    return [mode.labels[place] for place in places]
