"""Published algorithms for tensors (Wei, Li, Mao and Wang) under audit, and the attack on factors, also on ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.audit.factor_leak import Leak, recover
from tensorveil.completion import PrivateCP
from tensorveil.tensor import ObservedTensor, paper_problem
from tensorveil_evidence.published import GradientPerturbation, InputPerturbation, OutputPerturbation
from tensorveil_evidence.published.noise import laplace
from tensorveil_evidence.subjects.subject import BlackBox

Array = NDArray[Any]
Fit = Callable[[ObservedTensor, np.random.Generator], Any]

_CLAIM = Claim(epsilon=1.0)
_BOUNDS = (0.0, 1.0)
_HIDDEN = 7
_RIDGE = 0.01


def published_completion_subjects() -> Iterator[BlackBox]:
    """Yield the three algorithms, the last two with a start that is known and with one that is not."""
    yield _floating_point("published/laplace in floating point", proven=None)
    yield _floating_point("published/laplace in floating point, the law alone", proven=_CLAIM, kinds=("law", "atom"))
    yield _fits("published/input perturbation", lambda t, r: _input(_BOUNDS, r).fit(t), _few(1.0, 0.0), proven=_CLAIM)
    yield _fits(
        "published/input perturbation, bounds of the data", lambda t, r: _input("data", r).fit(t), _few(1.0, 0.1)
    )
    yield _fits("published/gradient perturbation, known start", _gradient_known, _few(1.0, 0.0))
    yield _fits("published/output perturbation, known start", _output_known, _few(1.0, 0.0))
    secret = "attacks on one value"
    yield _attack("published/gradient perturbation, secret start", _gradient_secret, secret, proven=None, many=1_000)
    yield _attack("published/output perturbation, secret start", _output_secret, secret, proven=None, many=1_000)
    for method in ("input", "output", "gradient"):
        yield _attack(f"attack/PrivateCP {method}", _ours(method), secret, proven=_CLAIM, many=500)


def _floating_point(name: str, proven: Claim | None, kinds: tuple[str, ...] | None = None) -> BlackBox:
    options: dict[str, Any] = {} if kinds is None else {"kinds": kinds}

    def mechanism(value: float, rng: np.random.Generator, n: int) -> Array:
        noisy: Array = value + laplace(rng, n, 1.0)
        return noisy

    return BlackBox(
        name=name,
        unit="value",
        claim=_CLAIM,
        proven=proven,
        about="perturbed values",
        neighbours=lambda: [_BOUNDS],
        mechanism=mechanism,
        **options,
    )


def _few(first: float, second: float) -> Callable[[], list[tuple[ObservedTensor, ObservedTensor]]]:
    """Return neighbours with three entries, no two in the same row of a mode, that differ in the first value."""

    def tensor(value: float) -> ObservedTensor:
        coords = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2]])
        return ObservedTensor(coords, np.array([value, 0.0, 0.1]), shape=(3, 3, 3))

    return lambda: [(tensor(first), tensor(second))]


def _fits(
    name: str,
    fit: Fit,
    neighbours: Callable[[], list[tuple[ObservedTensor, ObservedTensor]]],
    proven: Claim | None = None,
) -> BlackBox:
    def mechanism(tensor: ObservedTensor, rng: np.random.Generator) -> Array:
        return np.concatenate([factor.reshape(-1) for factor in fit(tensor, rng).model_.factors])

    return BlackBox(
        name=name,
        unit="value",
        claim=_CLAIM,
        proven=proven,
        about="whole runs",
        neighbours=neighbours,
        mechanism=mechanism,
        batched=False,
        samples=1_000,
        many=20_000,
    )


class KnownStart(np.random.Generator):
    """Seeds a published fit with a start that everybody knows, and with fresh noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(np.random.PCG64(0))
        # A published fit draws the seed of its start first, then that of its noise.
        self._seeds = iter((1, int(rng.integers(2**62))))

    def integers(self, *_: Any, **__: Any) -> Any:
        """Return the next seed."""
        return next(self._seeds)


def _input(bounds: Any, rng: np.random.Generator) -> InputPerturbation:
    return InputPerturbation(
        "cp", 1, epsilon=1.0, bounds=bounds, clamp=True, passes=5, learning_rate=0.1, random_state=KnownStart(rng),
        verbose=False,
    )  # fmt: skip


def _gradient_known(tensor: ObservedTensor, rng: np.random.Generator) -> GradientPerturbation:
    options: dict[str, Any] = {"passes": 1, "random_state": KnownStart(rng), "verbose": False}
    return GradientPerturbation("cp", 1, epsilon=1.0, clip_constant=0.1, **options).fit(tensor)


def _output_known(tensor: ObservedTensor, rng: np.random.Generator) -> OutputPerturbation:
    options: dict[str, Any] = {"passes": 20, "random_state": KnownStart(rng), "verbose": False}
    return OutputPerturbation("cp", 1, epsilon=1.0, lipschitz=1.0, **options).fit(tensor)


def _gradient_secret(tensor: ObservedTensor, rng: np.random.Generator) -> GradientPerturbation:
    options: dict[str, Any] = {"regularization": _RIDGE, "random_state": rng, "verbose": False}
    return GradientPerturbation("cp", 3, epsilon=1.0, clip_constant=0.1, **options).fit(tensor)


def _output_secret(tensor: ObservedTensor, rng: np.random.Generator) -> OutputPerturbation:
    options: dict[str, Any] = {"regularization": _RIDGE, "random_state": rng, "verbose": False}
    return OutputPerturbation("cp", 3, epsilon=1.0, lipschitz=0.05, **options).fit(tensor)


def _ours(method: str) -> Fit:
    def fit(tensor: ObservedTensor, rng: np.random.Generator) -> PrivateCP:
        seeds = {"random_state": int(rng.integers(2**31)), "noise_seed": int(rng.integers(2**62))}
        options: dict[str, Any] = {"sweeps": 20, "restarts": 1, "threads": 1, **seeds}
        return PrivateCP(3, epsilon=1.0, delta=0.0, unit="value", bounds=_BOUNDS, method=method, **options).fit(tensor)

    return fit


def hidden_value_neighbours() -> list[tuple[ObservedTensor, ObservedTensor]]:
    """Return the papers' reference case with one value at either bound."""
    train = paper_problem("cp", random_state=0).train
    values = np.clip(train.values.astype(np.float64), *_BOUNDS)

    def tensor(value: float) -> ObservedTensor:
        changed = values.copy()
        changed[_HIDDEN] = value
        return train.with_values(changed, keep_bounds=False)

    return [(tensor(_BOUNDS[1]), tensor(_BOUNDS[0]))]


def recover_value(tensor: ObservedTensor, model: Any) -> float:
    """Attack a model: return its hidden entry's value as the factors of the first two modes give it away."""
    leak = Leak(
        columns=tensor.columns,
        values=tensor.values - getattr(model, "offset", 0.0),
        hidden=_HIDDEN,
        factors=model.factors,
        regularization=_RIDGE,
        per_entry=True,
        solved=2,
    )
    return recover(leak, (_BOUNDS[0] - 1.0, _BOUNDS[1] + 1.0))


def _attack(name: str, fit: Fit, about: str, *, proven: Claim | None, many: int) -> BlackBox:
    return BlackBox(
        name=name,
        unit="value",
        claim=_CLAIM,
        proven=proven,
        about=about,
        neighbours=hidden_value_neighbours,
        mechanism=lambda tensor, rng: recover_value(tensor, fit(tensor, rng).model_),
        batched=False,
        kinds=("law",),
        samples=150,
        many=many,
    )
