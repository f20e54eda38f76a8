"""Table 5 of Yuan et al., "comparison of expected error": as printed, by the noise that is added, as measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.published.baselines import IDN, MVG, GaussianNoise, LaplaceNoise
from tensorveil.published.tensor_noise import TensorNoise
from tensorveil.published.tldp import TLDP


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

    LLAGP is not in it (the paper gives no error for it), nor DPHSGD, which is printed as a constant times the Gaussian
    mechanism's and depends on its clipping threshold alone.
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
    return rows


def label_of(mechanism: TensorNoise) -> str:
    """Name a mechanism with its reading or calibration."""
    if isinstance(mechanism, TLDP):
        return f"{mechanism.name}, p of the {mechanism.reading}"
    if isinstance(mechanism, GaussianNoise):
        return f"{mechanism.name}, {mechanism.calibration}"
    return mechanism.name
