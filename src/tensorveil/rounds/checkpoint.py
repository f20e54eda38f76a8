"""What a run of rounds needs to go on after its process has died: the recipe, the charge, and the state of every round.

    CHECKPOINT/run.json          recipe, digest of the data, id of the release; written before anything is charged
    CHECKPOINT/000001.state      the state after the first round, written before the second begins

A file is written once, and never again: of two runs that compute the same round, the second to finish is refused, and
its noise is dropped unseen. States are public, as results of noisy sums are; so is the digest, since a store has a name
that was drawn when it was made (tensor/stored.py). A digest of the data alone would tell who knows all but one user's
whether a guess is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

from tensorveil.errors import InputError
from tensorveil.rounds.contract import State
from tensorveil.rounds.runner import AnyRecipe
from tensorveil.tensor.files.atomic import name_beside
from tensorveil.tensor.files.renaming import hold_lock, is_held

__all__ = ["Checkpoint", "open_checkpoint"]

_RUN: Final = "run.json"
_DAMAGED = "checkpoint: a file of it is damaged, or was changed. Nothing can be gone on from; begin again elsewhere."


AnyRounds = TypeVar("AnyRounds", bound=AnyRecipe)


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Generic[AnyRounds]):
    """A run that can be gone on with: where its states are kept, and what it has been charged as.

    Parameters
    ----------
    folder
        Where its files are.
    recipe
        What is computed; its seed is that of the first attempt.
    release_id
        By what id the ledger is charged, once, whatever the number of attempts.
    begun
        Whether this is a further attempt.
    """

    folder: Path
    recipe: AnyRounds
    release_id: str
    begun: bool

    def last(self) -> State | None:
        """Return the state after the last round that was finished, if there is one."""
        kept = [number for number in range(1, len(self.recipe.rounds) + 1) if self._file(number).exists()]
        if not kept:
            return None
        content = self._file(max(kept)).read_bytes()
        stated, _, packed = content.partition(b"\n")
        if stated.decode("ascii", "replace") != self._digest(packed):
            raise InputError(_DAMAGED)
        state = State.from_bytes(packed)
        if state.round != max(kept):
            raise InputError(_DAMAGED)
        return state

    def keep(self, state: State) -> None:
        """Keep a state; when this returns it is on disk."""
        packed = state.to_bytes()
        _write_once(self._file(state.round), self._digest(packed).encode() + b"\n" + packed)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.state"

    def _digest(self, packed: bytes) -> str:
        """Return a digest of a state that belongs to this run and no other."""
        return hashlib.sha256(self.release_id.encode() + b"\n" + packed).hexdigest()


@contextlib.contextmanager
def open_checkpoint(
    folder: str | os.PathLike[str], recipe: AnyRounds, *, data: str, secure: bool
) -> Iterator[Checkpoint[AnyRounds]]:
    """Begin a run in a new folder, or go on with the one that is there; nobody else can while the block runs.

    Parameters
    ----------
    folder
        Where to keep the run.
    recipe
        What is to be computed. An earlier attempt must have been at the same, but for the seed of its start.
    data
        The digest of the data, which must be the same: one that cannot be computed from a guess at them.
    secure
        Whether noise is that of a release.
    """
    place = Path(folder).absolute()
    if not place.parent.is_dir():
        raise InputError(f"checkpoint: {place.parent} does not exist. Make it first.")
    if place.exists() and not place.is_dir():
        raise InputError("checkpoint must be a folder, or the name of one to make.")
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
    if is_held(place):
        raise InputError("checkpoint: another run is going on there. Wait for it, or choose another folder.")
    with hold_lock(place):
        if not (place / _RUN).exists():
            if any(name.suffix != ".tmp" for name in place.iterdir()):
                raise InputError("checkpoint: this folder holds something else. Choose another one.")
            facts: dict[str, Any] = {
                "recipe": recipe.to_json(), "data": data, "secure": secure, "release_id": str(uuid.uuid4()),
                "place": _identify(place),
            }  # fmt: skip
            _write_once(place / _RUN, json.dumps(facts).encode())
            yield Checkpoint(folder=place, recipe=recipe, release_id=facts["release_id"], begun=False)
            return
        yield _go_on(place, recipe, data=data, secure=secure)


def _go_on(place: Path, recipe: AnyRounds, *, data: str, secure: bool) -> Checkpoint[AnyRounds]:
    facts: Any = None
    with contextlib.suppress(OSError, ValueError):
        facts = json.loads((place / _RUN).read_bytes())
    if not isinstance(facts, dict) or not {"recipe", "data", "secure", "release_id", "place"} <= facts.keys():
        raise InputError(_DAMAGED)
    earlier = cast(AnyRounds, type(recipe).from_json(facts["recipe"]))
    if facts["place"] != _identify(place):
        raise InputError(
            "checkpoint: this folder is a copy. A copy that is gone on with draws noise for rounds that have some "
            "already, under one charge. Go on in the folder where the run began."
        )
    if replace(earlier, seed=recipe.seed) != recipe or facts["data"] != data or facts["secure"] is not secure:
        raise InputError(
            "checkpoint: the run in this folder was about other data, or another promise. Repeat its parameters to go "
            "on with it, or choose another folder."
        )
    return Checkpoint(folder=place, recipe=earlier, release_id=str(facts["release_id"]), begun=True)


def _identify(place: Path) -> list[int]:
    """Return what tells a folder from its copies."""
    found = place.stat()
    return [found.st_dev, found.st_ino]


def _write_once(path: Path, content: bytes) -> None:
    """Write a file that is not there yet, whole and through to the disk; of two writers one fails."""
    temporary = name_beside(path, "tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # which fails where the name is taken, unlike a renaming
        except FileExistsError:
            raise InputError("checkpoint: another run has finished this round. Go on with its folder later.") from None
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
