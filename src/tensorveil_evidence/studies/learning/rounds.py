"""Type III: published noise on averaged parameters, published private gradients, and ours, on the same three users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from tensorveil.learning import (
    AveragedParameters,
    ClassContrasts,
    ClassMoments,
    Directions,
    LearningRounds,
    Network,
    PrivateGradients,
    Samples,
    learn_in_rounds,
    majority_f1,
    predict,
    share_out,
    weighted_f1,
)
from tensorveil.noise import SeededSource
from tensorveil.rounds import State
from tensorveil_evidence.studies.learning.descents import descend
from tensorveil_evidence.studies.learning.mechanisms import DELTA, MAKERS, SPAN, ByLayer, nominal_for, worth
from tensorveil_evidence.studies.learning.names import (
    CLEAN,
    CONTRASTS,
    DESCENT,
    F1,
    FAMILIES_OF_ROUNDS,
    GUESS,
    MAJORITY,
    NOMINAL,
    RECORD,
    TRUE,
    USER,
)
from tensorveil_evidence.studies.learning.scores import guess_classes
from tensorveil_evidence.studies.study import NOT_PRIVATE, PROVEN, Row

USERS: Final = 3
MOST_RECORDS: Final = 60_000  # in the largest of the datasets
CLIP: Final = 1.0  # of every parameter, as in table 4 of Yuan et al.
WIDTH: Final = 2 * CLIP / USERS  # by which one user, replaced, moves an average


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Three users' records of one run, the network that they train, and what ours tells of a record.

    ``network`` and ``rows`` are for averaged parameters; ``small`` and ``small_rows`` for methods that need a gradient
    per record, ours with so many ``steps`` of that length (``descent``); ``directions`` and ``told_rows`` for our
    moments; ``contrasts`` gives both for a user's contrasts, by the true epsilon; ``layered`` and ``layered_rows``, the
    network itself where nothing is named, for LLAGP and DPHSGD, which need fully connected layers and make so many
    ``passes``, as many as there are epochs where nothing is named. Rows are public forms of tensors. With ``last_only``
    noise falls on the last average only, which flatters every method: all of them share one training, where each would
    need many.
    """

    run: int
    train: Samples
    test: Samples
    network: Network
    rows: Callable[[Any], Any]
    small: Network
    small_rows: Callable[[Any], Any]
    directions: Directions
    told_rows: Callable[[Any], Any]
    products: bool
    contrasts: Callable[[float], tuple[Directions, Callable[[Any], Any]]]
    steps: int
    descent: float
    epochs: int
    span: float = SPAN
    rate: float = 0.001
    last_only: bool = False
    passes: int | None = None
    layered: Network | None = None
    layered_rows: Callable[[Any], Any] | None = None

    def _row(self, panel: str, method: str, status: str, x: float | None, predicted: Any, note: str = "") -> Row:
        value = weighted_f1(self.test.y, predicted, self.test.classes)
        return Row(panel=panel, method=method, status=status, run=self.run, x=x, metric=F1, value=value, note=note)

    def _groups(self, rows: Callable[[Any], Any]) -> list[Samples]:
        return share_out(self.train.with_x(rows(self.train.x)), USERS, self.run)

    @cached_property
    def _users(self) -> list[Samples]:
        return self._groups(self.rows)

    @cached_property
    def _seen(self) -> Any:
        """The test tensors as the network takes them."""
        return self.rows(self.test.x)

    @cached_property
    def _average_parameters(self) -> AveragedParameters:
        """The paper's rounds. What they would promise with our noise is not used here: published noise is added."""
        return AveragedParameters(
            epsilon=1.0, delta=DELTA, most_users=USERS, network=self.network, users=USERS, epochs=self.epochs,
            clip=CLIP, clip_kind="max", rate=self.rate, seed=self.run,
        )  # fmt: skip

    def lines(self) -> Iterator[Row]:
        """The most frequent class, a guess, and averaging without noise."""
        value = majority_f1(self.train.y, self.test.y, self.test.classes)
        yield Row(panel="", method=MAJORITY, status=NOT_PRIVATE, run=self.run, metric=F1, value=value)
        yield self._row("", GUESS, NOT_PRIVATE, None, guess_classes(self.test, self.run))
        yield self._row("", CLEAN, NOT_PRIVATE, None, self._average(lambda mean, _: mean))

    def _average(self, noised: Callable[[Any, int], Any]) -> Any:
        """Average parameters in rounds, with noise on each average, and give predictions of the test records."""
        state, mean = self._average_parameters.start(), self._first_mean
        for number in range(self.epochs - 1 if self.last_only else 0, self.epochs):
            mean = self._last_mean if self.last_only else mean if number == 0 else self._mean(state)
            # Networks hold 32-bit floats; parameters beyond 1e30 would only overflow.
            state = state.after(parameters=np.clip(noised(mean, number), -1e30, 1e30))
        return predict(self._average_parameters.at(state), self._seen)

    def _mean(self, state: State) -> Any:
        """Return the clipped average of what the three users train from these parameters."""
        recipe = self._average_parameters
        total = np.sum([recipe.contribute(state, group) for group in self._users], axis=0)
        return np.clip(total * (recipe.step / USERS), -CLIP, CLIP)

    @cached_property
    def _first_mean(self) -> Any:
        """The first average, which is the same for all methods."""
        return self._mean(self._average_parameters.start())

    @cached_property
    def _last_mean(self) -> Any:
        """The last average where none had noise."""
        state, mean = self._average_parameters.start(), self._first_mean
        for _ in range(1, self.epochs):
            state = state.after(parameters=mean)
            mean = self._mean(state)
        return mean

    @cached_property
    def _forms(self) -> list[tuple[int, ...]]:
        """The forms of the network's parameters."""
        return [tuple(p.shape) for p in self.network.make(0).parameters()]

    def _mechanism(self, method: str, epsilon: float) -> Any:
        if method == "MVG":
            return ByLayer.make(self._forms, epsilon, (-CLIP, CLIP))
        return MAKERS[method]((self._average_parameters.size,), epsilon, (-CLIP, CLIP), self.span)

    def _perturb(self, mechanism: Any, number: int) -> Any:
        def noised(mean: Any, round_: int) -> Any:
            return mechanism.perturb(mean, random_state=[self.run, number, round_])

        return self._average(noised)

    def run_published(self, method: str, epsilons: Sequence[float]) -> Iterator[Row]:
        """A published method at nominal epsilons per round; also at what all rounds are worth for one user."""
        for number, epsilon in enumerate(epsilons):
            mechanism = self._mechanism(method, epsilon)
            found = self._perturb(mechanism, number)
            true = worth(mechanism, width=WIDTH, rounds=self.epochs)
            note = f"{true.note(epsilon)}; record: no better than tensor"
            status = mechanism.status("tensor")
            yield self._row(NOMINAL, method, status, epsilon, found, note)
            if np.isfinite(true.tensor):
                yield self._row(TRUE, method, status, true.tensor, found, note)

    def at_true(self, family: str, budgets: Sequence[float]) -> Iterator[Row]:
        """Published noise that is worth the budgets for one user over all rounds."""

        def true_of(mechanism: Any) -> float:
            return worth(mechanism, width=WIDTH, rounds=self.epochs).tensor

        for number, budget in enumerate(budgets):
            nominal = nominal_for(lambda e: self._mechanism(FAMILIES_OF_ROUNDS[family], e), budget, true_of)
            mechanism = self._mechanism(FAMILIES_OF_ROUNDS[family], nominal)
            found, status = self._perturb(mechanism, 100 + number), mechanism.status("tensor")
            note = f"nominal {nominal:.4g} per round; true for one user {budget:g} at delta {DELTA:g}"
            yield self._row(USER, family, status, budget, found, note)

    def gradients(self, method: str, budgets: Sequence[float], panel: str) -> Iterator[Row]:
        """LLAGP or DPHSGD over disjoint batches: a record takes part once per epoch, so epochs compose."""
        rows, private = self.layered_rows or self.rows, method == "DPHSGD"
        train, test = self.train.with_x(rows(self.train.x)), rows(self.test.x)
        for number, budget in enumerate(budgets):
            network = (self.layered or self.network).make(self.run)
            found = descend(
                method, budget, network=network, train=train, test=test, passes=self.passes or self.epochs,
                seed=[self.run, number],
            )  # fmt: skip
            told = f"nominal = true in exact arithmetic: record {budget:g} at delta {DELTA:g}"
            if private:
                told = "record: more than nominal, thresholds are read off private batches"
            yield self._row(
                panel, method, "refuted" if private else "claimed", budget, found, f"{told}; user: not bounded"
            )  # fmt: skip

    def run_ours(self, method: str, budgets: Sequence[float]) -> Iterator[Row]:
        """Ours at true epsilons."""
        for number, budget in enumerate(budgets):
            recipe, rows = self._recipe(method, budget)
            model = learn_in_rounds(recipe, self._groups(rows), SeededSource(1000 * self.run + number)).model
            test = rows(self.test.x)
            predicted = predict(model, test) if method == DESCENT else model.predict(test)
            note = f"nominal = true: {recipe.protect} {budget:g} at delta {DELTA:g}"
            yield self._row(USER if method == CONTRASTS else RECORD, method, PROVEN, budget, predicted, note)
            if method == CONTRASTS:
                yield self._row(TRUE, method, PROVEN, budget, predicted, note)

    def _recipe(self, method: str, budget: float) -> tuple[LearningRounds, Callable[[Any], Any]]:
        """Return the recipe, and the form of the tensors that it takes."""
        common: dict[str, Any] = {"epsilon": budget, "delta": DELTA}
        if method == DESCENT:
            recipe = PrivateGradients(
                **common, most_users=MOST_RECORDS, network=self.small, records=len(self.train), steps=self.steps,
                clip=1.0, rate=self.descent,
            )  # fmt: skip
            return recipe, self.small_rows
        classes = self.train.classes
        if method == CONTRASTS:
            directions, rows = self.contrasts(budget)
            return ClassContrasts(
                **common, most_users=USERS, users=USERS, directions=directions, classes=classes
            ), rows  # fmt: skip
        return ClassMoments(
            **common, most_users=MOST_RECORDS, directions=self.directions, classes=classes, products=self.products
        ), self.told_rows  # fmt: skip
