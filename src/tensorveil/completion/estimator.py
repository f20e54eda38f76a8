"""The line every fit follows: tensor -> task -> solver, perhaps several starts -> model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar, cast, overload

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.completion.averaging import average
from tensorveil.completion.fit_settings import FitSettings
from tensorveil.completion.params import Params
from tensorveil.completion.progress import bar
from tensorveil.completion.response import (
    HeldOut,
    Response,
    check_priors,
    check_response,
    explained,
    few_enough,
    find_same,
    hold_out,
    hold_out_all,
    pick_solver,
)
from tensorveil.completion.side_table import read_side
from tensorveil.completion.smoothness import read_smoothness, solve_smoothly, with_priors
from tensorveil.errors import GuessWarning, InputError, NotFittedError, warn
from tensorveil.models import CPModel, NewRows, Ranking, TuckerModel
from tensorveil.models.indexing import check_numbering, find_places, like_model
from tensorveil.models.tables import check_container, frame_of
from tensorveil.solvers.catalogue import SOLVERS, Solve, Solvers
from tensorveil.solvers.loss import GAUSSIAN
from tensorveil.solvers.losses import find_loss
from tensorveil.solvers.stored_rows import Elsewhere, check_stored_memory
from tensorveil.solvers.task import Array, Progress, Record, Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.given import VALUE, arrays_to_tensor, in_order_of, is_frame
from tensorveil.tensor.options import FrameOptions
from tensorveil.tensor.stored import NOT_IN_MEMORY, StoredTensor


class Savable(Protocol):
    """What every model can do, whole or shared."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file."""


AnyModel = TypeVar("AnyModel", bound=Savable)
Model = TypeVar("Model", CPModel, TuckerModel)


class Fitted(Params, Generic[AnyModel]):
    """What every fitted estimator has: a model."""

    model_: AnyModel
    _by_label = False  # whether a frame of labels was fitted

    def _fitted(self) -> AnyModel:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted first. Try .fit(tensor).")
        return self.model_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file; read it with `tensorveil.load_model` or `SharedModel.load`."""
        self._fitted().save(path)


class Predictor(Fitted[Model], Generic[Model]):
    """What every estimator of a whole model can do once it is fitted; the work is the model's."""

    noise_variance_: float | None = None

    @property
    def estimated_rmse_(self) -> float | None:
        """The model's own estimate of its root mean squared error; None if it has none, as without a private fit."""
        errors = self._fitted().errors
        return None if errors is None else errors.rmse

    @overload
    def predict(self, coords: ObservedTensor | Any, *, interval: None = None) -> Array: ...
    @overload
    def predict(self, coords: ObservedTensor | Any, *, interval: float) -> tuple[Array, Array, Array]: ...

    def predict(
        self, coords: ObservedTensor | Any, *, interval: float | None = None
    ) -> Array | tuple[Array, Array, Array]:
        """Predict at (n, order) coordinates, at a frame of labels, or at the coordinates of an observed tensor.

        With ``interval=0.9`` return predictions, low and high: nine of ten values are expected between low and high.
        Private fits of units "value" and "entry" measure what is needed for that.
        """
        model = self._fitted()
        self._tell_of_indices(coords)
        container = getattr(self, "_sklearn_output_config", {}).get("predict", "default")
        if container == "default":
            return model.predict(coords, interval=interval)
        columns = find_places(coords, model.modes, model.shape)
        if interval is None:
            values, bounds = model.predict(columns.T), None
        else:
            values, *both = model.predict(columns.T, interval=interval)
            bounds = (both[0], both[1])
        return frame_of(coords, columns, values, model.modes, model.value_name, bounds, container)  # type: ignore[no-any-return]

    def set_output(self, *, predict: str | None = None, transform: str | None = None) -> Self:
        """Choose what `predict` returns: "default" for arrays, "pandas" or "polars" for a frame.

        A frame has the columns of the modes and one that is called as the value column was; with ``interval`` also low
        and high. A pandas frame that was asked about keeps its index. None changes nothing, as in scikit-learn, whose
        ``transform`` has no meaning here.

        >>> import tensorveil as tv
        >>> fitted = tv.CP(rank=1, random_state=0).fit([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 2.0])
        >>> fitted.set_output(predict="pandas").predict([[1, 1]]).columns.tolist()
        ['mode_0', 'mode_1', 'value']
        """
        if transform is not None:
            raise InputError(
                "transform has no meaning for what predicts. Say what predict returns: "
                f"set_output(predict={transform!r})."
            )
        if predict is not None:
            # The name under which scikit-learn's clone looks for such a choice.
            self._sklearn_output_config = {"predict": check_container(predict)}
        return self

    def rmse(self, tensor: ObservedTensor | Any, values: Any = None) -> float:
        """Return the root mean squared error on a tensor, unlisted zeros included, or on coordinates and values.

        If these data are private, so is the result: it is a diagnostic and no part of a release, and to choose a
        private model by it voids the model's guarantee. `choose_privately` compares under noise.
        """
        observed = self._observe(tensor, values)
        if observed.unlisted == "zero":
            return hold_out_all(observed).error(GAUSSIAN, self._fitted().predict)
        return GAUSSIAN.error_over(self._fitted().predict, observed.entries)

    def _tell_of_indices(self, given: Any) -> None:
        """Warn of numbers without names, as a frame turns into on its way: its labels would be taken for indices."""
        if not self._by_label or not isinstance(given, np.ndarray | list | tuple):
            return
        if all(mode.labels is not None and mode.labels.dtype.kind in "iuf" for mode in self._fitted().modes):
            warn(
                "coords without names of columns are indices from 0, and no labels as in the frame that was fitted. "
                f"Give a frame with the columns {', '.join(mode.name for mode in self._fitted().modes)} for "
                "labels; for indices ask model_.",
                GuessWarning,
            )

    def _observe(self, tensor: ObservedTensor | Any, values: Any) -> ObservedTensor:
        """Return a tensor of the model's cells, by the labels of the model; a store, which is passed over, as it is."""
        model = self._fitted()
        self._tell_of_indices(tensor)
        if isinstance(tensor, StoredTensor) and values is None:
            check_numbering(tensor.modes, model.modes)
            return cast(ObservedTensor, tensor)
        if not isinstance(tensor, ObservedTensor) and values is not None:
            values = in_order_of(tensor, values, strict=True)
            tensor = find_places(tensor, model.modes, model.shape).T
            return as_tensor(tensor, np.asarray(values), {"shape": model.shape})
        return like_model(as_tensor(tensor, values, {}, "rmse({})"), model.modes, model.shape)

    def slice(self, given: Mapping[Any, Any]) -> Array:
        """Reconstruct the cells at ``given`` {mode: index or label}; see the model's ``slice``."""
        return self._fitted().slice(given)

    def dense(self, **options: Any) -> Array:
        """Reconstruct every cell, if that fits in memory; see the model's ``dense``."""
        return self._fitted().dense(**options)

    def top(self, n: int = 10, **options: Any) -> Ranking:
        """Return the best n candidates for a row; see the model's ``top``."""
        return self._fitted().top(n, **options)

    def recommend(self, mode: str | int, n: int = 10, **options: Any) -> Any:
        """Return a table of the n best candidates for every index of a mode; see the model's ``recommend``."""
        return self._fitted().recommend(mode, n, **options)

    def solve_rows(self, tensor: ObservedTensor, mode: str | int, **options: Any) -> NewRows:
        """Compute rows for new indices of a mode without changing the model; see the model's ``solve_rows``."""
        return self._fitted().solve_rows(tensor, mode, **self._ridge(options))

    def _ridge(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"noise_variance": self.noise_variance_, **options}

    def to_tensorly(self, **options: Any) -> Any:
        """Return the fitted model as TensorLy's tensor of the same kind."""
        return self._fitted().to_tensorly(**options)


class Completion(Predictor[Model], FitSettings, Generic[Model]):
    """What CP, Tucker and LowRankMatrix have in common."""

    history_: list[Record]
    n_iter_: int
    converged_: bool

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        raise NotImplementedError

    def _core(self) -> bool:
        raise NotImplementedError

    def _model(self, solution: Solution, tensor: ObservedTensor) -> Model:
        raise NotImplementedError

    def _solvers(self) -> Solvers:
        return SOLVERS

    def _solver_settings(self) -> dict[str, Any]:
        """Return the settings of the solver; None stands for its own default."""
        names = (
            "sweeps", "tol", "regularization", "regularization_per_entry", "learning_rate", "noise_variance",
            "unlisted_weight",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def fit(
        self,
        tensor: ObservedTensor | Any,
        values: Any = None,
        *,
        validation: ObservedTensor | None = None,
        progress: Progress | None = None,
        engine: Any = None,
        trust_network: bool = False,
    ) -> Self:
        """Fit the model to an observed tensor, to coordinates (n, order) and their values, or to a frame and a column.

        The columns of a frame are labels; where ``shape`` is declared, integers are indices.
        ``validation`` is a tensor of the same shape on which to stop early, instead of ``validation_fraction`` of the
        entries; ``progress`` is called with a `Record` after every sweep. A `StoredTensor` that is ordered by all of
        its modes is fitted part by part, by ``solver="bayes"`` (`CP` and `LowRankMatrix`) or "als", here or where an
        ``engine`` is ("dask:ADDRESS", "spark:MASTER", a Dask client, a Spark session). Connections of a cluster that
        leave the machine must be encrypted, or ``trust_network`` must say that nobody else is there.
        """
        if engine is None:
            return self._fit_here(tensor, values, validation, progress, None)
        if not isinstance(tensor, StoredTensor) or values is not None:
            raise InputError("engine is for a StoredTensor: tensorveil.write_store makes one from files.")
        if engine == "loop":
            return self._fit_here(tensor, None, validation, progress, None)
        return self._fit_elsewhere(tensor, validation, progress, engine, trust_network)

    def _fit_elsewhere(
        self,
        stored: StoredTensor,
        validation: ObservedTensor | None,
        progress: Progress | None,
        engine: Any,
        trust_network: bool,
    ) -> Self:
        """Fit a store on a cluster."""
        from tensorveil.engines import find_engine
        from tensorveil.engines.rows import EngineRows

        found = find_engine(engine, trust_network=trust_network)
        try:
            return self._fit_here(stored, None, validation, progress, EngineRows(engine=found, stored=stored))
        finally:
            found.close()

    def _fit_here(
        self,
        tensor: Any,
        values: Any,
        validation: ObservedTensor | None,
        progress: Progress | None,
        elsewhere: Elsewhere | None,
    ) -> Self:
        if isinstance(tensor, StoredTensor) and values is None:
            observed: Any = self._check_stored(tensor)
        else:
            observed = as_tensor(tensor, values, {"shape": self.shape})
        self._by_label = not isinstance(tensor, StoredTensor) and is_frame(tensor)
        self._check()
        response = self._response(observed)
        solver = pick_solver(self.solver, response)
        settings, solve = rules.solver_settings(solver, self._solver_settings(), self._solvers())
        smoothness = read_smoothness(self.smooth, observed.modes, observed.shape)
        if self._knows_more():
            check_priors(response)
        if self.implicit not in (None, False) and solver != "bayes":
            raise InputError(f'implicit has no meaning for solver="{solver}". Leave it out, or try solver="bayes".')
        ranks = self._ranks(observed.shape)
        rng = np.random.default_rng(self.random_state)
        train, held = self._hold_out(observed, validation, rng)
        settings = with_priors(settings, smoothness, read_side(self.side, self.implicit, train), solver)
        dtype = rules.fit_dtype(self.dtype, solver, np.dtype(observed.dtype))
        task = Task(
            entries=train.entries, ranks=ranks, core=self._core(), baseline=self.baseline, dtype=dtype,
            threads=self.threads, seed=0, loss=response.loss, zeros=response.zeros,
            excluded=np.empty((observed.order, 0), np.int32) if held is None else held.cells.columns,
            excluded_entries=0 if held is None else int(np.count_nonzero(held.cells.values)),
            nonnegative=response.nonnegative, same=(response.same,) if response.same else (), elsewhere=elsewhere,
        )  # fmt: skip
        with bar(self.verbose, self.restarts * settings.sweeps, progress) as report:
            fits = [
                self._fit_once(
                    partial(solve_smoothly, solve, series=smoothness.series),
                    rules.settings_for_restart(settings, restart),
                    replace(task, seed=int(rng.integers(2**62))),
                    held,
                    report,
                    restart,
                )
                for restart in range(self.restarts)
            ]
        solution, watch = min(fits, key=lambda fit: _badness(fit[1]))
        if self.keep == "mean":
            solution = average([each for each, _ in fits])
        self.history_ = [record for _, each in fits for record in each.history]
        self.n_iter_ = len(watch.history)
        self.converged_ = watch.converged
        self.noise_variance_ = solution.noise_variance
        self.n_features_in_ = observed.order
        self.model_ = replace(self._model(solution, observed), value_name=observed.origin.value or VALUE)
        return self

    def score(self, tensor: ObservedTensor | Any, values: Any = None) -> float:
        """Return the share of the loss of the best constant that predictions take away.

        For squared error that is the coefficient of determination R^2, as of scikit-learn's regressors. Where the
        tensor's unlisted cells are zeros they count too.
        """
        observed = self._observe(tensor, values)
        loss = find_loss(self.loss, nonnegative=self.nonnegative)
        if loss.scalable and observed.unlisted == "unknown":
            return GAUSSIAN.score(self._fitted().predict(observed.coords), observed.values)
        return explained(loss, self._fitted().predict, observed)

    def fold_in(self, tensor: ObservedTensor, mode: str | int, **options: Any) -> Self:
        """Append rows for new indices of a mode to the model, without refitting; returns the estimator."""
        self.model_ = self._fitted().fold_in(tensor, mode, **self._ridge(options))
        return self

    def _fit_once(
        self,
        solve: Solve,
        settings: Any,
        task: Task,
        held: HeldOut | None,
        report: Progress | None,
        restart: int,
    ) -> tuple[Solution, Watch]:
        evaluate = None
        if held is not None:
            evaluate = lambda solution: held.error(task.loss, self._model(solution, held.like).predict)  # noqa: E731
        watch = Watch(
            iterations=settings.sweeps, tol=settings.tol, patience=self.patience, evaluate=evaluate, progress=report,
            restart=restart, loss=task.loss,
        )  # fmt: skip
        return solve(task, settings, watch), watch

    def _response(self, tensor: ObservedTensor) -> Response:
        """Return what is asked about the values, once everything goes together."""
        response = Response(
            loss=find_loss(self.loss, nonnegative=self.nonnegative), zeros=tensor.unlisted == "zero",
            nonnegative=self.nonnegative, same=find_same(self.same, tensor), core=self._core(),
            biases=self.baseline == "biases",
            few=few_enough(tensor),
        )  # fmt: skip
        check_response(response, tensor, baseline=self.baseline, given_weight=self.unlisted_weight)
        return response

    def _check_stored(self, stored: StoredTensor) -> StoredTensor:
        """Refuse a store for fits that need all entries in memory."""
        plain = self.loss == "gaussian" and not self.nonnegative and stored.unlisted == "unknown" and self.same is None
        laplace = getattr(self, "noise_law", "gaussian") == "laplace"
        known = self.solver in ("auto", "bayes", "als") and not laplace
        known = known and not (self._core() and self.solver != "als")
        if not known or not plain or self._knows_more():
            raise InputError(
                "this fit needs all entries in memory. On a StoredTensor CP and LowRankMatrix fit squared error with "
                'solver="bayes" or "als", Tucker with "als", without smooth, side, implicit, same or '
                'noise_law="laplace"; or load it, if it fits: stored.load().'
            )
        solver = "als" if self.solver == "als" else "bayes"
        if solver == "bayes" and self.restarts > 1 and stored.order > 2:
            raise InputError(
                "restarts: the second start looks at the spectrum of all entries, which a StoredTensor keeps on disk. "
                "Leave it out; or load it, if it fits: stored.load()."
            )
        if self.validation_fraction > 0:
            raise InputError(
                "validation_fraction needs all entries in memory. Give validation=, a tensor of entries that were held "
                "out before the store was made."
            )
        if not stored.n_entries:
            raise InputError("the store holds no entry. Check the files that it was made of.")
        dtype = rules.fit_dtype(self.dtype, solver, np.dtype(stored.dtype))
        check_stored_memory(stored, self._ranks(stored.shape), dtype, moments=solver == "bayes")
        return stored

    def _knows_more(self) -> bool:
        """Tell whether anything but the entries is known of rows."""
        return self.smooth is not None or self.side is not None or self.implicit not in (None, False)

    def _link(self) -> dict[str, Any]:
        """Return what a model has to know about the loss."""
        loss = find_loss(self.loss, nonnegative=self.nonnegative)
        return {"link": loss.link, "loss": loss.name}

    def _check(self) -> None:
        rules.choose("baseline", self.baseline, ("none", "mean", "biases"))
        rules.choose("keep", self.keep, ("best", "mean"))
        rules.whole_number("restarts", self.restarts, 1, 1)
        rules.whole_number("patience", self.patience, 1, 5)
        if self.threads is not None:
            rules.whole_number("threads", self.threads, 1, 2)
        fraction = rules.number("validation_fraction", self.validation_fraction, at_least=0.0, remedy=0.1)
        if fraction >= 1:
            raise InputError("validation_fraction must be below 1. Try validation_fraction=0.1.")

    def _hold_out(
        self, tensor: ObservedTensor, validation: ObservedTensor | None, rng: np.random.Generator
    ) -> tuple[ObservedTensor, HeldOut | None]:
        """Return what is fitted and what is watched."""
        if validation is not None:
            validation = like_model(validation, tensor.modes, tensor.shape)
            if validation.shape != tensor.shape:
                raise InputError("validation must have the same shape as the tensor that is fitted.")
            return tensor, hold_out(tensor, validation, 0)
        n_held = int(self.validation_fraction * tensor.n_entries)
        if n_held == 0:
            return tensor, None
        mask = np.zeros(tensor.n_entries, dtype=bool)
        mask[rng.choice(tensor.n_entries, n_held, replace=False)] = True
        train, held = tensor.take(~mask), tensor.take(mask)
        return train, hold_out(train, held, int(rng.integers(2**62)) if tensor.unlisted == "zero" else 0)


def as_tensor(tensor: ObservedTensor | Any, values: Any, rules: FrameOptions, call: str = "fit({})") -> ObservedTensor:
    """Return an observed tensor from one, or by these rules from coordinates and values as scikit-learn passes them.

    ``call`` is how errors write what was called with them.
    """
    if isinstance(tensor, ObservedTensor):
        if values is not None:
            raise InputError("values must be left out when an ObservedTensor is given: it brings its own.")
        return tensor
    if isinstance(tensor, StoredTensor):
        raise InputError(NOT_IN_MEMORY)
    return arrays_to_tensor(tensor, values, rules, call)


def _badness(watch: Watch) -> float:
    """Rank fits: by validation error, else by evidence, else by training error."""
    last = watch.history[-1]
    if last.validation_error is not None:
        return watch.best_error
    return -last.bound if last.bound is not None else last.train_error
