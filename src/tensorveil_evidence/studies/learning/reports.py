"""Types I and II: published noise and ours on the same records, and the scores of what a server learns from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.learning import (
    Directions,
    Samples,
    fit_discriminant,
    learn_from_directions,
    majority_f1,
    moments_of_reports,
    report,
    weighted_f1,
)
from tensorveil.local import Hybrid
from tensorveil.noise import SeededSource
from tensorveil_evidence.studies.learning.mechanisms import MAKERS, SPAN, nominal_for, worth
from tensorveil_evidence.studies.learning.names import (
    CLEAN,
    CLEAN_OURS,
    F1,
    FAMILIES,
    GUESS,
    HYBRID,
    MAJORITY,
    NOMINAL,
    PRIVUNIT,
    SAME,
    TRUE,
)
from tensorveil_evidence.studies.learning.scores import guess_classes
from tensorveil_evidence.studies.study import NOT_PRIVATE, PROVEN, Row


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Records of one run, how a network is trained on them, and what ours tells of them.

    ``bounds`` are those of the entries that are perturbed; ``learn`` gives predictions of the test records from
    training tensors.
    """

    run: int
    train: Samples
    test: Samples
    bounds: tuple[float, float]
    learn: Callable[[Samples], Any]
    directions: Directions

    def row(self, panel: str, method: str, status: str, x: float | None, predicted: Any, note: str = "") -> Row:
        """Score predictions."""
        value = weighted_f1(self.test.y, predicted, self.test.classes)
        return Row(
            panel=panel, method=method, status=status, run=self.run, x=x, metric=F1, value=value,
            note=note,
        )  # fmt: skip

    def lines(self) -> Iterator[Row]:
        """What needs no noise: the most frequent class, a guess, and both ways to learn from clean records."""
        value = majority_f1(self.train.y, self.test.y, self.test.classes)
        yield Row(
            panel="", method=MAJORITY, status=NOT_PRIVATE, run=self.run, metric=F1, value=value
        )  # fmt: skip
        yield self.row("", GUESS, NOT_PRIVATE, None, guess_classes(self.test, self.run))
        yield self.row("", CLEAN, NOT_PRIVATE, None, self.learn(self.train))
        moments = moments_of_reports(self.directions(self.train.x), self.train.y, self.train.classes)
        found = fit_discriminant(moments, self.directions)
        yield self.row("", CLEAN_OURS, NOT_PRIVATE, None, found.predict(self.test.x))

    def run_published(self, method: str, epsilons: Sequence[float]) -> Iterator[Row]:
        """A published method at nominal epsilons; the same score stands at the true one, where it is finite."""
        for number, epsilon in enumerate(epsilons):
            mechanism = MAKERS[method](self.train.shape, epsilon, self.bounds, SPAN)
            found, status = self._perturb(mechanism, number), mechanism.status("tensor")
            true = worth(mechanism)
            row = self.row(NOMINAL, method, status, epsilon, found, true.note(epsilon))
            yield row
            if np.isfinite(true.tensor):
                yield self.row(TRUE, method, status, true.tensor, found, row.note)

    def at_true(self, family: str, budgets: Sequence[float]) -> Iterator[Row]:
        """Published noise at nominal epsilons that are worth the budgets."""

        def make(nominal: float) -> Any:
            return MAKERS[FAMILIES[family]](self.train.shape, nominal, self.bounds, SPAN)

        for number, budget in enumerate(budgets):
            nominal = nominal_for(make, budget, lambda each: worth(each).tensor)
            mechanism = make(nominal)
            found = self._perturb(mechanism, 100 + number)
            status, note = mechanism.status("tensor"), worth(mechanism).note(nominal)
            yield self.row(SAME, family, status, budget, found, note)

    def _perturb(self, mechanism: Any, number: int) -> Any:
        seed = [self.run, number]
        return self.learn(self.train.with_x(mechanism.perturb(self.train.x.astype(np.float64), random_state=seed)))

    def run_ours(self, method: str, budgets: Sequence[float]) -> Iterator[Row]:
        """Our method at true epsilons: nominal and true are the same."""
        for number, budget in enumerate(budgets):
            source = SeededSource(1000 * self.run + number)
            model, promise = _OURS[method](self.train, self.directions, budget, source)
            note = f"nominal = true: tensor {promise.epsilon:g}, delta {promise.delta:g}; at most that per local entry"
            for panel in (SAME, TRUE):
                yield self.row(panel, method, PROVEN, budget, model.predict(self.test.x), note)


def _privunit(train: Samples, told: Directions, budget: float, source: SeededSource) -> Any:
    return learn_from_directions(train, told, epsilon=budget, source=source)


def _hybrid(train: Samples, told: Directions, budget: float, source: SeededSource) -> Any:
    mechanism = Hybrid(
        shape=(told.dimension,), epsilon=budget, unit="tensor", bounds=(-1, 1), coordinates="best"
    )  # fmt: skip
    seen = report(train, mechanism, encode=told, source=source)
    return fit_discriminant(moments_of_reports(seen.samples.x, train.y, train.classes), told), seen.guarantee


_OURS: dict[str, Callable[..., Any]] = {PRIVUNIT: _privunit, HYBRID: _hybrid}
