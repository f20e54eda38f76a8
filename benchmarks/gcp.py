"""Counts and yes/no against pyttb's `gcp_opt`: `OMP_NUM_THREADS=1 python -m benchmarks.gcp [dense sparse]`; needs pyttb.

The same CP model, without offset, fitted to the same cells, those that are not listed counting as zeros: expected
counts with non-negative factors, and log odds. The deviance is over all cells. Peer and ours take turns in one process;
times are of the processor, so that other load hurts neither. Both begin anywhere, so every problem has several seeds.

pyttb's own settings: for dense tensors `LBFGSB()`, for sparse ones, which it fits by stochastic gradients alone,
`Adam()` (1000 steps an epoch, until two epochs fail), here for at most EPOCHS epochs.
Ours: the solver that ``solver="auto"`` takes, its own settings but no regularization, which the peer has not.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.count_data import busiest, crimes, listed, purchases, relational, taxi_trips, timed, write_rows
from tensorveil.solvers.losses import LOSSES

SEEDS, EPOCHS = 5, 20


def planted(kind: str, shape: tuple[int, ...], rank: int) -> Any:
    """Draw counts or yes and no around a planted model."""
    rng = np.random.default_rng(0)
    counts = kind == "poisson"
    grid = np.ones((*[1] * len(shape), rank))
    for mode, size in enumerate(shape):
        factor = rng.gamma(0.5, 1.0, (size, rank)) if counts else rng.normal(0.0, 1.0, (size, rank))
        grid = grid * factor.reshape([size if m == mode else 1 for m in range(len(shape))] + [rank])
    linear = grid.sum(axis=-1)
    if counts:
        return rng.poisson(0.5 * linear).astype(float)
    return (rng.random(shape) < 1 / (1 + np.exp(2 - linear))).astype(float)


def dense_problems() -> Iterator[tuple[str, str, int, Any]]:
    """Yield name, loss, rank and cells."""
    for shape in ((60, 50, 40), (40, 30, 20, 15)):
        size = " x ".join(map(str, shape))
        yield f"planted counts, {size}", "poisson", 4, planted("poisson", shape, 4)
        yield f"planted yes/no, {size}", "bernoulli", 4, planted("bernoulli", shape, 4)
    cells, trips = taxi_trips()
    taxi = busiest(cells, trips, {0: 60, 1: 60}).sum(axis=2)
    for rank in (4, 16):
        yield "taxi, 60 busiest zones, by hour", "poisson", rank, taxi
    retail = purchases()
    yield (
        "retail, 300 customers x 300 items x month",
        "poisson",
        8,
        busiest(retail, np.ones(len(retail)), {0: 300, 1: 300}),
    )
    reports = crimes()
    yield "crimes, weekday x hour x area x type", "poisson", 8, busiest(reports, np.ones(len(reports)), {})
    yield "nations", "bernoulli", 4, relational("nations")["train"].to_dense()
    yield "UMLS", "bernoulli", 8, relational("umls")["train"].to_dense()
    yield (
        "retail, bought or not",
        "bernoulli",
        8,
        np.minimum(busiest(retail, np.ones(len(retail)), {0: 300, 1: 300}), 1),
    )


def judge(loss: str, factors: Any, columns: Any, values: Any) -> float:
    """Return the mean deviance over all cells, slice by slice."""
    shape = [len(factor) for factor in factors]
    order = np.argsort(columns[0], kind="stable")
    columns, values = columns[:, order], values[order]
    cuts = np.searchsorted(columns[0], np.arange(shape[0] + 1))
    rest = np.ones((1, factors[0].shape[1]))
    for factor in factors[1:]:
        rest = (rest[:, None, :] * factor[None]).reshape(-1, factor.shape[1])
    total = 0.0
    for i in range(shape[0]):
        linear = rest @ factors[0][i]
        if loss == "poisson":
            linear = np.log(np.maximum(linear, 1e-10))
        truth = np.zeros(len(linear))
        here = slice(cuts[i], cuts[i + 1])
        truth[np.ravel_multi_index(tuple(columns[1:, here]), tuple(shape[1:]))] = values[here]
        total += float(LOSSES[loss].value(truth, linear).sum())
    return total / float(np.prod(np.array(shape, float)))


def fit_ours(tensor: tv.ObservedTensor, loss: str, rank: int, seed: int) -> tuple[float, Any]:
    """Return seconds and factors."""
    options: dict[str, Any] = {"regularization": 0.0, "baseline": "none", "random_state": seed, "threads": 1}
    estimator = tv.CP(rank, loss=loss, nonnegative=loss == "poisson", **options)
    seconds, fitted = timed(lambda: estimator.fit(tensor))
    return seconds, fitted.model_.factors


def fit_theirs(tensor: tv.ObservedTensor, loss: str, rank: int, seed: int, dense: bool) -> tuple[float, Any]:
    """Return seconds and factors."""
    import pyttb as ttb
    from pyttb.gcp.handles import Objectives
    from pyttb.gcp.optimizers import LBFGSB, Adam

    if dense:
        data, optimizer = ttb.tensor(tensor.to_dense()), LBFGSB()
    else:
        data = ttb.sptensor(tensor.coords.astype(np.int64), tensor.values[:, None].astype(float), tensor.shape)
        optimizer = Adam(max_iters=EPOCHS)
    objective = Objectives.POISSON if loss == "poisson" else Objectives.BERNOULLI_LOGIT
    np.random.seed(seed)  # noqa: NPY002 - the peer draws its start from it
    seconds, found = timed(lambda: ttb.gcp_opt(data, rank, objective, optimizer, printitn=0))
    model = found[0]
    return seconds, [model.factor_matrices[0] * model.weights, *model.factor_matrices[1:]]


def compare(name: str, loss: str, rank: int, tensor: tv.ObservedTensor, seeds: int, dense: bool) -> dict[str, Any]:
    """Fit one problem from several seeds, in turns."""
    fit_ours(tensor, loss, rank, 0)  # compiles
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "pyttb": []}
    for seed in range(seeds):
        for label in found:
            with np.errstate(all="ignore"):
                fit = (
                    fit_ours(tensor, loss, rank, seed)
                    if label == "ours"
                    else fit_theirs(tensor, loss, rank, seed, dense)
                )
                deviance = judge(loss, fit[1], tensor.entries.load().columns, tensor.values)
            found[label].append((deviance, fit[0]))
    row: dict[str, Any] = {
        "problem": name,
        "loss": loss,
        "rank": rank,
        "cells": int(np.prod(tensor.shape)),
        "listed": tensor.n_entries,
        "seeds": seeds,
    }
    for label, rounds in found.items():
        deviances, seconds = np.array(rounds).T
        row[label] = {
            "deviance": float(deviances.mean()),
            "least": float(deviances.min()),
            "seconds": float(seconds.mean()),
            "deviances": deviances.tolist(),
        }
    row["time ratio"] = row["ours"]["seconds"] / row["pyttb"]["seconds"]
    row["deviance ratio"] = row["ours"]["deviance"] / row["pyttb"]["deviance"]
    print(
        {key: row[key] for key in ("problem", "rank", "deviance ratio", "time ratio")},
        row["ours"],
        row["pyttb"],
        flush=True,
    )
    return row


def main(parts: list[str]) -> None:
    """Measure what was asked for."""
    logging.disable(logging.WARNING)  # the peer logs in every step
    if "dense" in parts or not parts:
        rows = [compare(name, loss, rank, listed(x), SEEDS, True) for name, loss, rank, x in dense_problems()]
        write_rows("gcp-dense", rows)
    if "sparse" in parts or not parts:
        retail = purchases()
        bought = tv.ObservedTensor(retail, np.ones(len(retail)), duplicates="sum", unlisted="zero")
        links = bought.with_values(np.ones(bought.n_entries))
        problems = [("retail, 4339 x 3665 x 13", "poisson", bought), ("retail, bought or not", "bernoulli", links)]
        write_rows("gcp-sparse", [compare(name, loss, 8, tensor, 1, False) for name, loss, tensor in problems])


if __name__ == "__main__":
    main(sys.argv[1:])
