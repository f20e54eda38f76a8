"""Guo's planted matrices: standard normal factors of rank 10, 15 % of the cells observed; relative errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.completion import LowRankMatrix, PrivateLowRankMatrix
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.published import MatrixPerturbation
from tensorveil_evidence.studies.study import CLAIMED, NOT_PRIVATE, Row

Array = NDArray[Any]

RANK, SHARE, SWEEPS = 10, 0.15, 400
# Known before any value is seen: a cell has standard deviation sqrt(10), and lies outside in about 3 of 1000 cases.
BOUNDS = (-10.0, 10.0)
TITLES = {"sor": "SOR", "dlnm_qr": "DLNM_QR", "altmin": "AM"}
# What the paper's tables measure: the completed matrix with noisy entries kept, for AM the low-rank estimate.
MEASURED = {"SOR": "kept", "DLNM_QR": "kept", "AM": "low rank"}
AS_CLAIMED, OURS, CONSTANT, FIT = "Laplace as claimed, bayes", "ours, auto", "constant", "well-solved fit"
SETTINGS = {"rank": RANK, "observed": SHARE, "sweeps": SWEEPS, "bounds of the proven": BOUNDS}


def plant(size: int, seed: int) -> tuple[Array, Array, np.random.Generator]:
    """Return the true matrix, the mask of observed cells, and the generator."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((size, RANK)) @ rng.standard_normal((RANK, size))
    return truth, rng.random((size, size)) < SHARE, rng


def observe(truth: Array, mask: Array, noise: Any = 0.0) -> ObservedTensor:
    """Return the observed cells, with noise."""
    columns = np.ascontiguousarray(np.argwhere(mask).T.astype(np.int32))
    return ObservedTensor.from_columns(columns, truth[mask] + noise, shape=truth.shape)


def rse(estimate: Array, truth: Array) -> float:
    """Return the relative error: Frobenius norm of the difference over that of the truth."""
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def matrix_rows(size: int, epsilon: float, seed: int, x: float) -> Iterator[Row]:
    """Run everything on one matrix; ``x`` is the place in the table."""
    truth, mask, rng = plant(size, seed)
    tensor = observe(truth, mask)

    def rows(method: str, status: str, seconds: float = 0.0, **errors: float) -> Iterator[Row]:
        values = {name.replace("_", " "): value for name, value in errors.items()}
        for metric, value in (values | ({"CPU seconds": seconds} if seconds else {})).items():
            yield Row(panel="", method=method, status=status, run=seed, x=x, metric=metric, value=value)

    for solver, title in TITLES.items():
        began = time.process_time()
        published = MatrixPerturbation(
            RANK, epsilon=epsilon, solver=solver, sweeps=SWEEPS, random_state=seed, verbose=False
        ).fit(tensor)
        seconds = time.process_time() - began
        kept, low_rank = rse(published.complete(tensor), truth), rse(published.model_.dense(), truth)
        yield from rows(title, published.guarantee_.status, seconds, kept=kept, low_rank=low_rank)
    began = time.process_time()
    noisy = observe(truth, mask, rng.laplace(0.0, 1.0 / epsilon, tensor.n_entries))
    known: dict[str, Any] = {"noise_variance": 2.0 / epsilon**2, "noise_law": "laplace"}
    told = LowRankMatrix(RANK, baseline="none", random_state=seed, threads=1, **known).fit(noisy)
    yield from rows(AS_CLAIMED, CLAIMED, time.process_time() - began, low_rank=rse(told.dense(), truth))
    began = time.process_time()
    private = PrivateLowRankMatrix(
        RANK, epsilon=epsilon, delta=0.0, unit="value", bounds=BOUNDS, threads=1, random_state=seed,
        noise_seed=1000 + seed,
    ).fit(tensor)  # fmt: skip
    ours = rse(private.model_.dense(), truth)
    yield from rows(OURS, private.guarantee_.status, time.process_time() - began, low_rank=ours)
    yield from rows(CONSTANT, NOT_PRIVATE, low_rank=rse(np.full_like(truth, tensor.values.mean()), truth))
    began = time.process_time()
    plain = LowRankMatrix(RANK, baseline="none", random_state=seed, threads=1).fit(tensor)
    yield from rows(FIT, NOT_PRIVATE, time.process_time() - began, low_rank=rse(plain.dense(), truth))
