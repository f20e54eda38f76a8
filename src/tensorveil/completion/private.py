"""The one road of every private fit, whatever its unit: promise, choose, charge, run, guarantee."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, NoReturn, Self

import numpy as np

from tensorveil.completion.charging import (
    charge_release,
    confirm_release,
    tell_charges,
    warn_of_copies,
    warn_without_ledger,
)
from tensorveil.completion.estimator import Fitted, as_tensor
from tensorveil.completion.job import Begun, Job, Promise, ReleasedModel, prove
from tensorveil.completion.needs import check_budget, check_event, check_fit_memory
from tensorveil.completion.private_settings import PrivateSettings
from tensorveil.errors import InputError
from tensorveil.mechanisms.planner import Plan
from tensorveil.noise import NoiseSource, SecureSource, SeededSource
from tensorveil.privacy import Budget, Event, Guarantee, Unit
from tensorveil.privacy.delta import check_delta
from tensorveil.privacy.gate import declare, reading_rules
from tensorveil.tensor import ObservedTensor, StoredTensor
from tensorveil.tensor.given import is_frame

NO_SCORE = (
    "private estimators have no score: it would be computed from private data without noise, and a model that is "
    "chosen by it keeps no guarantee. Compare settings with tensorveil.choose_privately, which is charged."
)


Begin = Callable[[Any, Any], AbstractContextManager[Begun[ReleasedModel]]]  # of a job, and of what it is to fit


@contextlib.contextmanager
def begin_at_once(job: Job[ReleasedModel], tensor: ObservedTensor) -> Iterator[Begun[ReleasedModel]]:
    """Run a job on a tensor in memory, which needs no preparation."""
    yield Begun(run=lambda: job.run(tensor), release_id=str(uuid.uuid4()))


class PrivateCompletion(Fitted[ReleasedModel], PrivateSettings, Generic[ReleasedModel]):
    """What all private estimators have in common; they differ in how they choose and what they release."""

    guarantee_: Guarantee
    plan_: Plan
    release_id_: str
    notes_: tuple[str, ...]
    private_model_: ReleasedModel
    # Searches copy again and again, also copies, and make Python forget what it has warned of: these remember.
    _has_copies = _is_copy = False

    def fit(self, tensor: ObservedTensor | Any, values: Any = None) -> Self:
        """Fit privately: charge the ledger (if one is given), then run the chosen method once.

        Values outside the declared bounds are clipped to them, silently: a warning would be a release. In units "entry"
        and "slice" entries outside the declared shape are left out, as silently. The order of entries does not matter.
        Every call spends the budget anew, and without a ledger a `tensorveil.NoLedgerWarning` says so. If the method
        fails after the charge, ``release_id_`` names the charge, and so does a note on the error.
        """
        return self._fit(self._read(tensor, values), begin_at_once)

    def _read(self, tensor: ObservedTensor | Any, values: Any) -> ObservedTensor:
        self._by_label = not isinstance(tensor, StoredTensor) and is_frame(tensor)
        return as_tensor(tensor, values, reading_rules(self._unit(), self.bounds, self.shape))

    def _fit(self, observed: ObservedTensor | StoredTensor, begin: Begin[ReleasedModel]) -> Self:
        """Fit by the one road; ``begin`` prepares the job, and can still refuse it before the charge."""
        unit = self._unit()
        declared = declare(observed, unit=unit, bounds=self.bounds, shape=self.shape)
        delta = check_delta(self.delta, unit, among=declared.among, accepted=self.accept_delta)
        budget = Budget(epsilon=self.epsilon, delta=delta)
        check_budget(budget)
        promise = Promise(budget=budget, declared=declared)
        source = SecureSource() if self.noise_seed is None else SeededSource(self.noise_seed)
        job = self._choose(promise, source)
        check_event(job.event)
        check_fit_memory(promise.declared, job.plan, has_rank=getattr(job.method, "has_rank", True))
        if source.secure and not self._is_copy:  # whoever copied it was warned of all copies
            warn_without_ledger(self.ledger, self.epsilon)
        with begin(job, observed) as begun, tell_charges(self.ledger, lambda: begun.release_id):
            self._charge(job.event, begun.release_id, promise.unit, secure=source.secure, again=begun.again)
            released = begun.run()
            self.plan_ = job.plan
            self.notes_ = released.notes
            self.n_features_in_ = observed.order
            # The guarantee is about this model: rows that are folded in later come from data without noise.
            self.model_ = self.private_model_ = released.model
            self.guarantee_ = prove(promise, job, released, secure=source.secure)
        return self

    @property
    def n_entries_(self) -> int | None:
        """How many entries were fitted, where this is public: in unit "value"; otherwise None."""
        return self.plan_.n_entries

    @property
    def score(self) -> NoReturn:
        """Not there: whoever chooses by a score of private data, as a grid search does, publishes what it tells.

        This is no AttributeError. scikit-learn would catch it, and advise to name a scorer instead.
        """
        raise InputError(NO_SCORE)

    def __sklearn_clone__(self) -> Self:
        """Return what scikit-learn's ``clone`` makes: an unfitted copy with the same settings."""
        from sklearn.base import _clone_parametrized

        if self.noise_seed is None and not (self._is_copy or self._has_copies):
            warn_of_copies(self.ledger)
        self._has_copies = True
        copy: Self = _clone_parametrized(self)
        copy._is_copy = True
        return copy

    def _choose(self, promise: Promise, source: NoiseSource) -> Job[ReleasedModel]:
        """Settle what will run, from public facts alone."""
        raise NotImplementedError

    def _unit(self) -> Unit:
        """Return the unit, if this estimator can protect it."""
        raise NotImplementedError

    def _seed(self) -> int:
        """Draw the seed of public starting points."""
        return int(np.random.default_rng(self.random_state).integers(2**62))

    def _charge(self, event: Event, release_id: str, unit: Unit, *, secure: bool, again: bool) -> None:
        """Charge the ledger and name the release.

        A fit that is refused leaves an earlier one as it was. One that is charged drops it first, so that no model is
        ever taken for what another charge has paid for.
        """
        charge_release(
            self.ledger,
            event,
            release_id,
            purpose=self.purpose,
            delta=self.delta,
            unit=unit,
            secure=secure,
            again=again,
        )
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.release_id_ = release_id

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""
        confirm_release(self.ledger, self.release_id_)
