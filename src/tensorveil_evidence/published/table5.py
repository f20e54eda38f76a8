"""Table 5 of Yuan et al., "comparison of expected error": as printed, by the noise that is added, as measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorveil_evidence.published.baselines import IDN, MVG, GaussianNoise, LaplaceNoise
from tensorveil_evidence.published.gradients import DPHSGD
from tensorveil_evidence.published.tensor_noise import TensorNoise
from tensorveil_evidence.published.tldp import TLDP


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """One method: its expected error as printed, by the noise it adds, and measured; its epsilon, nominal and true."""

    method: str
    printed: float
    formula: float
    measured: float
    nominal_epsilon: float
    pure_tensor: float
    epsilon_tensor: float
    epsilon_entry: float
    least_delta_tensor: float


def table5_mechanisms(
    shape: tuple[int, ...], epsilon: float, bounds: tuple[float, float], span: float, delta: float
) -> list[TensorNoise]:
    """Return the mechanisms of the table, both readings of TLDP and both forms of Gaussian noise."""
    common: dict[str, Any] = {"shape": shape, "epsilon": epsilon, "bounds": bounds}
    readings = [
        TLDP(noise=noise, reading=reading, span=span, **common)
        for reading in ("algorithm", "proof")
        for noise in ("laplace", "gaussian")
    ]
    return [
        LaplaceNoise(span=span, **common),
        GaussianNoise(calibration="paper", span=span, **common),
        GaussianNoise(calibration="classic", delta=delta, **common),
        MVG(delta=delta, **common),
        IDN(delta=delta, **common),
        *readings,
    ]


def table5(
    shape: tuple[int, ...],
    epsilon: float,
    bounds: tuple[float, float],
    span: float,
    delta: float,
    *,
    runs: int = 100,
    random_state: Any = 0,
) -> list[ErrorRow]:
    """Compute the table by formula and by simulation, with the true epsilon beside the nominal one.

    LLAGP is not in it: the paper gives no error for it. DPHSGD stands for a gradient of the tensor's size in one layer,
    clipped to the tensors' largest distance (C = 1 in the printed formula), with the classic noise multiplier.
    """
    rng = np.random.default_rng(random_state)
    rows = []
    for mechanism in table5_mechanisms(shape, epsilon, bounds, span, delta):
        tensor = mechanism.truth("tensor", delta=delta)
        entry = mechanism.truth("local entry", delta=delta)
        rows.append(
            ErrorRow(
                method=label_of(mechanism),
                printed=mechanism.printed_error,
                formula=mechanism.rms_error,
                measured=mechanism.measured_error(runs, rng),
                nominal_epsilon=epsilon,
                pure_tensor=tensor.pure,
                epsilon_tensor=tensor.epsilon,
                epsilon_entry=entry.epsilon,
                least_delta_tensor=tensor.least_delta,
            )
        )
    return [*rows, _dphsgd_row(rows, shape, epsilon, bounds, span, delta, runs, rng)]


def _dphsgd_row(
    rows: list[ErrorRow],
    shape: tuple[int, ...],
    epsilon: float,
    bounds: tuple[float, float],
    span: float,
    delta: float,
    runs: int,
    rng: np.random.Generator,
) -> ErrorRow:
    """Measure DPHSGD on one example whose gradient is 0; its true epsilon is that of the classic Gaussian mechanism."""
    size = math.prod(shape)
    clip = (bounds[1] - bounds[0]) * math.sqrt(size)
    multiplier = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    mechanism = DPHSGD(clip_norm=clip, clip_range=(clip, clip), noise_multiplier=multiplier, layers=1, steps=1)
    zero = [np.zeros((1, *shape))]
    norms = [np.linalg.norm(mechanism.noisy_means(zero, [clip], rng)[0]) for _ in range(runs)]
    classic = next(row for row in rows if row.method == "Gaussian, classic")
    return replace(
        classic,
        method="DPHSGD, C = 1",
        printed=span / epsilon * size * math.sqrt(2 * size),
        formula=multiplier * clip * math.sqrt(size),
        measured=float(np.mean(norms)),
    )


def label_of(mechanism: TensorNoise) -> str:
    """Name a mechanism with its reading or calibration."""
    if isinstance(mechanism, TLDP):
        return f"{mechanism.name}, p of the {mechanism.reading}"
    if isinstance(mechanism, GaussianNoise):
        return f"{mechanism.name}, {mechanism.calibration}"
    return mechanism.name
