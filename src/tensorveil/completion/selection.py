"""Choosing among private estimators by what they achieve on private data, under one guarantee for all of it."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorveil.completion.central import CentralCompletion, CentralJob, spend_budget
from tensorveil.completion.charging import AnyLedger, charge_release, confirm_release, tell_charges
from tensorveil.completion.estimator import Predictor, as_tensor
from tensorveil.completion.job import Promise, Released
from tensorveil.completion.needs import check_budget, check_event, check_fit_memory
from tensorveil.errors import InputError
from tensorveil.mechanisms.comparison import compare_models
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel, TuckerModel
from tensorveil.noise import NoiseSource, SecureSource, SeededSource
from tensorveil.privacy import Budget, Composed, Event, Guarantee, Parallel, Part, Pure, Unit, epsilon_for
from tensorveil.privacy.delta import check_delta
from tensorveil.privacy.exact import show_at_least
from tensorveil.privacy.gate import Declared, Shape, admit, check_bounds, declare, reading_rules
from tensorveil.privacy.profile import covers
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.splits import Split, cell_split

__all__ = ["Chosen", "Selection", "choose_privately"]

PROOF = "docs/guarantees.md#selection"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Chosen(Predictor[Any]):
    """The candidate that was chosen, fitted, with the guarantee of the whole selection.

    It predicts and can be released like a private estimator. It cannot be fitted again: another fit with the chosen
    settings would know the choice, and its own epsilon would not count that.
    """

    model_: CPModel | TuckerModel
    guarantee_: Guarantee
    release_id_: str
    notes_: tuple[str, ...] = ()
    ledger: AnyLedger = None
    plan_: None = None  # what was planned is a candidate's share of the budget, not what the release cost

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_!r})"

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""
        confirm_release(self.ledger, self.release_id_)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What `choose_privately` found. All of it may be published, together, with `guarantee_`.

    Parameters
    ----------
    best_
        The place of the chosen candidate in the list.
    errors_
        The noisy root mean squared error of every candidate on the held-out part, in the order of the list.
    noise_, difference_noise_
        The standard deviation of the noise on the *squares* of these errors, and on the difference of two squares: two
        candidates that are closer cannot be told apart.
    estimator_
        The chosen candidate, fitted; `write_release` takes it, or the selection itself.
    """

    best_: int
    errors_: tuple[float, ...]
    noise_: float
    difference_noise_: float
    estimator_: Chosen

    @property
    def model_(self) -> CPModel | TuckerModel:
        """The model of the chosen candidate."""
        return self.estimator_.model_

    @property
    def guarantee_(self) -> Guarantee:
        """What the selection as a whole promises: all fits, all errors, the choice."""
        return self.estimator_.guarantee_

    @property
    def plan_(self) -> None:
        """Nothing: no plan was made for the budget of the whole."""
        return self.estimator_.plan_

    @property
    def notes_(self) -> tuple[str, ...]:
        """What the chosen candidate found worth measuring."""
        return self.estimator_.notes_

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""
        self.estimator_.confirm()


def choose_privately(
    candidates: Sequence[CentralCompletion[Any]],
    tensor: ObservedTensor,
    *,
    epsilon: float,
    delta: float,
    held_out: float = 0.2,
    ledger: AnyLedger = None,
    purpose: str = "private selection",
    accept_delta: bool = False,
    random_state: Any = None,
    noise_seed: int | None = None,
) -> Selection:
    """Fit private estimators to a part of the entries, measure them on the rest under noise, and keep the best.

    Parameters
    ----------
    candidates
        `PrivateCP`, `PrivateTucker` or `PrivateLowRankMatrix`, all for the same unit, bounds and shape, each with a
        budget of its own and without a ledger. Copies of them are fitted.
    tensor
        The private data.
    epsilon, delta
        What everything together may cost. The candidates share it: with k of them, give each epsilon / k (and delta /
        k). The errors are measured on entries that no candidate sees, so their noise follows from the whole budget.
    held_out
        The share of cells on which candidates are compared. A public hash decides for each cell by itself.
    ledger, purpose
        A `Ledger` or its path: the whole selection is charged there, once, before anything is computed.
    accept_delta
        Allow a delta that promises next to nothing.
    random_state
        Seed of the hash. It never seeds noise.
    noise_seed
        For tests and studies only: seeded noise, and a guarantee that says NOT PRIVATE.

    Guarantee: (epsilon, delta) differential privacy for the candidates' unit, of models, errors and choice together
    (docs/guarantees.md#selection). A later fit with the chosen settings costs its own budget besides.

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> promise = {"epsilon": 5.0, "delta": 0.0, "unit": "value", "bounds": (-0.5, 1.5)}
    >>> candidates = [tv.PrivateCP(rank, **promise) for rank in (1, 2)]
    >>> found = tv.choose_privately(candidates, ratings, epsilon=10.0, delta=0.0)
    >>> len(found.errors_), found.best_ in (0, 1), found.guarantee_.epsilon
    (2, True, 10.0)
    """
    fits = _check_candidates(candidates)
    unit, bounds, shape = _agree(fits)
    rules = reading_rules(unit, bounds, shape)
    observed = as_tensor(tensor, None, rules, "choose_privately(estimators, {})")
    declared = declare(observed, unit=unit, bounds=bounds, shape=shape)
    if declared.zeros:
        raise InputError(
            'unlisted="zero" cannot be chosen by: errors are measured on listed cells alone. Fit one estimator; its '
            "method weighs what to measure by what it has released."
        )
    delta = check_delta(delta, unit, among=declared.among, accepted=accept_delta)
    promise = Promise(budget=Budget(epsilon=epsilon, delta=delta), declared=declared)
    split = _split(observed, unit, held_out, random_state)
    source = SecureSource() if noise_seed is None else SeededSource(noise_seed)
    jobs = [_settle(each, _part_of(declared, split.train), source) for each in fits]
    spend = _settle_errors(promise.budget, jobs, source)
    event = _count(promise.budget, jobs, spend)
    release_id = str(uuid.uuid4())
    with tell_charges(ledger, lambda: release_id):
        charge_release(ledger, event, release_id, purpose=purpose, delta=delta, unit=unit, secure=source.secure)
        released = [job.run(split.train) for job in jobs]
        data = admit(split.held_out, _part_of(declared, split.held_out))
        found = compare_models(data, [each.model for each in released], spend)
        _check_spent(spend.event, found.parts)
        for job, each in zip(jobs, released, strict=True):
            _check_spent(job.event, each.parts)
        best = int(np.argmin(found.mean_squares))
        return Selection(
            best_=best,
            errors_=tuple(math.sqrt(max(square, 0.0)) for square in found.mean_squares),
            noise_=found.noise,
            difference_noise_=found.difference_noise,
            estimator_=Chosen(
                model_=released[best].model,
                guarantee_=_prove(promise, event, jobs, released[best], best, secure=source.secure),
                release_id_=release_id,
                notes_=released[best].notes,
                ledger=ledger,
            ),
        )


def _check_candidates(candidates: Sequence[CentralCompletion[Any]]) -> list[CentralCompletion[Any]]:
    """Return copies, which nobody else can publish with the guarantee of a single fit."""
    given = list(candidates)
    if not given or not all(isinstance(each, CentralCompletion) for each in given):
        raise InputError(
            "candidates must be a list of PrivateCP, PrivateTucker or PrivateLowRankMatrix. Estimators for whole users "
            "cannot be compared: no noisy error of whole users is proven."
        )
    for name in ("ledger", "noise_seed"):
        if any(getattr(each, name) is not None for each in given):
            raise InputError(f"{name} must be None in every candidate. Give it to choose_privately, for all together.")
    return [type(each)(**each.get_params()) for each in given]


def _agree(fits: Sequence[CentralCompletion[Any]]) -> tuple[Unit, tuple[float, float], Shape]:
    """Return unit, bounds and shape, which must be the same for all."""
    facts = {
        (each._unit(), check_bounds(each.bounds), None if each.shape is None else _settle_sizes(each.shape))
        for each in fits
    }
    if len(facts) > 1:
        raise InputError("unit, bounds and shape must be the same in every candidate: they say what is protected.")
    unit, bounds, _ = facts.pop()
    return unit, bounds, fits[0].shape


def _settle_sizes(shape: Sequence[int] | Mapping[str, int]) -> tuple[object, ...]:
    return tuple(sorted(shape.items())) if isinstance(shape, Mapping) else tuple(shape)


def _split(tensor: ObservedTensor, unit: Unit, held_out: float, random_state: Any) -> Split:
    if isinstance(held_out, bool) or not isinstance(held_out, int | float) or not 0 < held_out < 1:
        raise InputError("held_out must lie between 0 and 1. Try held_out=0.2.")
    split = cell_split(tensor, held_out, random_state)
    # Where positions are public, so are the sizes of both parts. Otherwise empty parts are as good as any other.
    if unit.kind == "value" and not (split.train.n_entries and split.held_out.n_entries):
        raise InputError("held_out must leave entries in both parts. Try held_out=0.5, or fit a single estimator.")
    return split


def _part_of(declared: Declared, part: ObservedTensor) -> Declared:
    return declared if declared.n_entries is None else replace(declared, n_entries=part.n_entries)


def _settle(fit: CentralCompletion[Any], declared: Declared, source: NoiseSource) -> CentralJob[Any]:
    budget = Budget(epsilon=fit.epsilon, delta=fit.delta)
    check_budget(budget)
    job = fit._choose(Promise(budget=budget, declared=declared), source)
    check_event(job.event)
    check_fit_memory(declared, job.plan)
    return job


def _settle_errors(budget: Budget, jobs: Sequence[CentralJob[Any]], source: NoiseSource) -> Spend:
    """Spend the whole budget on the held-out part, by noise of the fits' kind, so that a ledger need not convert it."""
    pure = all(isinstance(job.event, Pure) for job in jobs)
    return spend_budget(budget, "laplace" if pure or budget.delta == 0 else "gaussian", source)


def _count(budget: Budget, jobs: Sequence[CentralJob[Any]], spend: Spend) -> Event:
    """Return what the selection costs: an entry is in one of the two parts, and which one is public."""
    fits = Composed(job.event for job in jobs)
    cost = epsilon_for(fits, budget.delta)
    if not cost <= budget.epsilon:
        raise InputError(
            f"the candidates together cost epsilon = {show_at_least(cost)} at this delta, more than the epsilon of the "
            f"selection. Give each of them epsilon={budget.epsilon / len(jobs):.3g} and "
            f"delta={budget.delta / len(jobs):.3g}, or fewer candidates."
        )
    return Parallel((fits, spend.event))


def _prove(
    promise: Promise, event: Event, jobs: Sequence[CentralJob[Any]], chosen: Released[Any], best: int, *, secure: bool
) -> Guarantee:
    """Return the guarantee of everything that was computed, whichever model leaves."""
    statistic = f"{len(jobs)} fits to one part of the entries; their errors on the other part"
    proofs = dict.fromkeys([PROOF, *(proof for job in jobs for proof in job.method.proofs)])
    return Guarantee.prove(
        unit=promise.unit,
        event=event,
        epsilon=promise.budget.epsilon,
        delta=promise.budget.delta,
        composition=[Part(name="selection", statistic=statistic, event=event)],
        released=[*chosen.holds, "noisy errors of all candidates", "which candidate was chosen"],
        proof=", ".join(proofs),
        secure_noise=secure,
        bounds=promise.bounds,
        mechanism=f"{jobs[best].method.title}, chosen privately among {len(jobs)} candidates",
        among=promise.declared.among,
        about=promise.declared.about,
        public=(*promise.declared.public, "the candidates' settings"),
        against="anyone who sees the release",
    )


def _check_spent(allowed: Event, parts: Sequence[Part]) -> None:
    """Make sure that what was charged stands for what was spent."""
    if not covers(allowed, (part.event for part in parts)):
        raise AssertionError("a step of a selection spends more than its share; please report this")
