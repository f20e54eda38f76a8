"""Fits for whole users in rounds, in memory or on a store: what their estimators and jobs have in common."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from tensorveil.completion.job import Begun, Released, ReleasedModel
from tensorveil.completion.private import PrivateCompletion, begin_at_once
from tensorveil.completion.private_settings import UserLevelSettings
from tensorveil.engines import Engine, Loop, find_engine
from tensorveil.engines.engine import sum_over_parts
from tensorveil.errors import InputError
from tensorveil.noise import NoiseSource
from tensorveil.rounds import State, run_rounds
from tensorveil.rounds.checkpoint import Checkpoint, open_checkpoint
from tensorveil.rounds.runner import AnyRecipe
from tensorveil.tensor import ObservedTensor, StoredTensor
from tensorveil.tensor.stored import StoreError

__all__ = ["RoundsCompletion", "begin_stored"]

AnyRounds = TypeVar("AnyRounds", bound=AnyRecipe)
Tell = Callable[[int, int], None]


class RoundsRun(Protocol[ReleasedModel]):
    """A job that runs rounds."""

    @property
    def source(self) -> NoiseSource:
        """Where noise comes from."""

    @property
    def progress(self) -> Tell | None:
        """Is told after each round how many are done, and of how many."""

    def release(self, recipe: Any, state: State) -> Released[ReleasedModel]:
        """Return what is released of the last state."""


@contextlib.contextmanager
def begin_stored(
    job: RoundsRun[ReleasedModel],
    recipe: AnyRounds,
    stored: StoredTensor,
    engine: Engine,
    checkpoint: str | os.PathLike[str] | None,
) -> Iterator[Begun[ReleasedModel]]:
    """Run a job's rounds on a store: sums wherever the engine computes them, noise here, once per round.

    Before anything is charged every part has been opened where it will be worked on: it is the one that was stored, and
    shares no user with another. With a ``checkpoint`` an attempt that died is gone on with.

    Guarantee: the recipe's budget, unit slice (docs/guarantees.md#slice, docs/guarantees.md#records).
    """
    protect = recipe.protect
    engine.check_memory(stored, protect, max(this.size for this in recipe.rounds))
    if int(sum_over_parts(engine, stored, protect, recipe, None)[0]) != stored.n_entries:
        raise StoreError("unsound")
    with contextlib.ExitStack() as held:
        kept: Checkpoint[AnyRounds] | None = None
        if checkpoint is not None:
            if stored.name is None:  # the checkpoint, which others may see, would tell which data these are
                raise InputError("checkpoint: the store was made by an earlier version. Make it again, from its files.")
            kept = held.enter_context(open_checkpoint(checkpoint, recipe, data=stored.digest, secure=job.source.secure))
            recipe = kept.recipe

        def run() -> Released[ReleasedModel]:
            total = partial(sum_over_parts, engine, stored, protect, recipe)
            return job.release(recipe, run_rounds(recipe, total, job.source, keeper=kept, progress=job.progress))

        name = str(uuid.uuid4()) if kept is None else kept.release_id
        yield Begun(run=run, release_id=name, again=kept is not None and kept.begun)


class RoundsCompletion(PrivateCompletion[ReleasedModel], UserLevelSettings, Generic[ReleasedModel]):
    """What all estimators for whole users have in common: a fit in rounds, in memory or on a store."""

    def fit(
        self,
        tensor: ObservedTensor | StoredTensor | Any,
        values: Any = None,
        *,
        engine: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        trust_network: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Fit privately, as all private estimators do, in memory or on a store.

        Parameters
        ----------
        tensor, values
            An `ObservedTensor`, coordinates and values, or a `StoredTensor` that is ordered by the protected mode. The
            same entries give the same model, to the last bit, wherever they are.
        engine
            For a store: where its parts are worked on. "loop" (default) takes one after the other here, in memory that
            does not depend on their number; "dask:ADDRESS", "spark", "spark:MASTER", a Dask client or a Spark session
            use a cluster.
        checkpoint
            For a store: a folder that keeps the state of every round. If the process dies, the same call goes on from
            there: nothing is charged, and no noise drawn, twice.
        trust_network
            Allow clusters beyond this machine whose connections are not encrypted.
        progress
            Is called after each round with the number of rounds that are done, and of all.
        """
        if not isinstance(tensor, StoredTensor) or values is not None:
            if engine is not None or checkpoint is not None:
                raise InputError(
                    "engine and checkpoint are for a StoredTensor: tensorveil.write_store makes one from files."
                )
            observed = self._read(tensor, values)
            return self._fit(observed, lambda job, seen: begin_at_once(replace(job, progress=progress), seen))
        name = "loop" if engine is None else engine
        found = Loop(self.threads) if name == "loop" else find_engine(name, trust_network=trust_network)
        try:
            return self._fit(
                tensor,
                lambda job, stored: begin_stored(
                    replace(job, progress=progress), job.recipe, stored, found, checkpoint
                ),
            )
        finally:
            found.close()
