"""The papers' reference case (20 x 20 x 20, rank 3): published algorithms, proven methods and lines, on one problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tensorveil.completion import CP, PrivateCP, PrivateTucker, Tucker
from tensorveil.errors import InputError
from tensorveil.tensor import ObservedTensor, Problem, paper_problem
from tensorveil_evidence.published import GradientPerturbation, InputPerturbation, OutputPerturbation, PublishedDescent
from tensorveil_evidence.studies.study import NOT_PRIVATE, Row

Kind = Literal["cp", "tucker"]
SnrDefinition = Literal["variance", "norm"]
KINDS: tuple[Kind, ...] = ("cp", "tucker")
TITLES = {"cp": "CP", "tucker": "Tucker"}
RANK = 3
# The papers say "appropriate parameters" and print neither m nor L. Both were tried on seeds 0 to 3, against clean
# values: m = 0.1 has the least error of 1, 0.1, 0.01 and 0.001; of L = 0.2, 0.05 and 0.02 the smallest has the least
# error, as it must, and 0.05 is the one that gave the papers' order at every epsilon tried. So the order was chosen,
# not found: with L = 0.2 or 0.02 it broke. No private user could choose like this. The seeds measured are others.
CLIP, LIPSCHITZ = 0.1, 0.05
PUBLISHED_BOUNDS, PROVEN_BOUNDS = (0.0, 1.0), (-0.25, 1.25)
DESCENT: dict[str, dict[str, float]] = {
    "cp": {"learning_rate": 0.005, "regularization": 0.01},
    "tucker": {"learning_rate": 0.005, "regularization": 0.001, "core_regularization": 0.0001},
}
CONSTANT, DESCENT_LINE, FIT_LINE = "constant", "published descent", "well-solved fit"
GRADIENT, OUTPUT, INPUT, CLAMPED = "gradient", "output", "input", "input, clamped"
PUBLISHED: dict[str, Callable[..., Any]] = {
    GRADIENT: lambda kind, **o: GradientPerturbation(kind, RANK, clip_constant=CLIP, **o),
    OUTPUT: lambda kind, **o: OutputPerturbation(kind, RANK, lipschitz=LIPSCHITZ, **o),
    INPUT: lambda kind, **o: InputPerturbation(kind, RANK, bounds=PUBLISHED_BOUNDS, **o),
    CLAMPED: lambda kind, **o: InputPerturbation(kind, RANK, bounds=PUBLISHED_BOUNDS, clamp=True, **o),
}
OURS = {"ours, auto": "auto", "ours, input": "input", "ours, output": "output", "ours, gradient": "gradient"}
SETTINGS = {
    "shape": [20, 20, 20],
    "rank": RANK,
    "clip": CLIP,
    "lipschitz": LIPSCHITZ,
    "bounds of the published": PUBLISHED_BOUNDS,
    "bounds of the proven": PROVEN_BOUNDS,
    "descent": DESCENT,
    "passes": 100,
}


def rmse(prediction: Any, truth: Any) -> float:
    """Return the root mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(prediction) - truth) ** 2)))


def plain_descent(kind: str, rank: int, seed: int, settings: Mapping[str, float]) -> PublishedDescent:
    """Return the published descent without noise."""
    given: Mapping[str, Any] = settings
    return PublishedDescent(kind, rank, random_state=seed, **given)


def fit_unless_divergent(estimator: Any, tensor: ObservedTensor) -> Any | None:
    """Return the fitted estimator, or None if its descent diverged."""
    try:
        return estimator.fit(tensor)
    except InputError as error:
        if "diverged" not in str(error):
            raise
        return None


class Reference:
    """One problem; every method gives rows of errors against clean held-out values."""

    def __init__(
        self, kind: Kind, seed: int, *, missing: float = 0.5, snr: SnrDefinition = "variance", panel: str
    ) -> None:
        self.kind, self.seed, self.panel = kind, seed, panel
        self.problem: Problem = paper_problem(kind, missing=missing, snr_definition=snr, random_state=seed)
        self.truth = self.problem.clean_at(self.problem.held_out.coords)
        # Declared bounds: the range of clean values. The observed ones are noisy and may lie outside: clip them.
        self.clipped = self.problem.train.with_bounds(PUBLISHED_BOUNDS, out_of_bounds="clip")

    def lines(self) -> Iterator[Row]:
        """What does not depend on epsilon: the constant, the published descent, a well-solved fit."""
        train, held_out = self.problem.train, self.problem.held_out
        yield self._line(CONSTANT, rmse(train.values.mean(), self.truth))
        descent = plain_descent(self.kind, RANK, self.seed, DESCENT[self.kind]).fit(train)
        yield self._line(DESCENT_LINE, rmse(descent.predict(held_out), self.truth))
        estimator: Any = {"cp": CP, "tucker": Tucker}[self.kind]
        fit = estimator(RANK, restarts=3, random_state=self.seed, threads=1).fit(train)
        yield self._line(FIT_LINE, rmse(fit.predict(held_out), self.truth))

    def run_published(self, names: Sequence[str], epsilons: Sequence[float]) -> Iterator[Row]:
        """Run algorithms 1 to 3 as printed."""
        for name in names:
            for epsilon in epsilons:
                yield self.fit_published(name, epsilon, PUBLISHED[name])

    def fit_published(self, name: str, epsilon: float, make: Callable[..., Any], panel: str | None = None) -> Row:
        """Run one algorithm as printed; the value is None if its descent diverges."""
        options = {"epsilon": epsilon, "random_state": self.seed, "verbose": False}
        estimator = make(self.kind, **options, **DESCENT[self.kind])
        fit = fit_unless_divergent(estimator, self.clipped)
        return Row(
            panel=panel or self.panel, method=name, status=estimator.guarantee_.status, run=self.seed, x=epsilon,
            value=None if fit is None else rmse(fit.predict(self.problem.held_out), self.truth),
        )  # fmt: skip

    def run_proven(self, names: Sequence[str], epsilons: Sequence[float]) -> Iterator[Row]:
        """Run our methods, with seeded noise."""
        estimator: Any = {"cp": PrivateCP, "tucker": PrivateTucker}[self.kind]
        for name in names:
            for epsilon in epsilons:
                fit = estimator(
                    RANK, epsilon=epsilon, delta=0.0, unit="value", bounds=PROVEN_BOUNDS, method=OURS[name], threads=1,
                    random_state=self.seed, noise_seed=1000 + self.seed,
                ).fit(self.problem.train)  # fmt: skip
                error = rmse(fit.predict(self.problem.held_out), self.truth)
                yield Row(
                    panel=self.panel, method=name, status=fit.guarantee_.status, run=self.seed, x=epsilon, value=error,
                    note=fit.plan_.method,
                )  # fmt: skip

    def _line(self, name: str, value: float) -> Row:
        return Row(panel=self.panel, method=name, status=NOT_PRIVATE, run=self.seed, value=value)
