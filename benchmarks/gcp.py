"""Counts and yes/no against pyttb: `OMP_NUM_THREADS=1 python -m benchmarks.gcp [dense sparse]`; needs pyttb.

The same CP model, without offset, fitted to the same cells, those that are not listed counting as zeros: expected
counts with non-negative factors, and log odds. The deviance is over all cells. Peer and ours take turns in one process;
times are of the processor, so that other load hurts neither. Both begin anywhere, so every problem has several seeds
(one where it has MANY cells); medians of deviances are compared. "Until as low" is after what share of the peer's time
ours was as low as the peer at its end, seed by seed.

pyttb's own settings: for dense tensors `LBFGSB()`, for sparse ones, which it fits by stochastic gradients alone,
`Adam()` (1000 steps an epoch, until two epochs fail), here for EPOCHS epochs: to the end it
takes hours on the largest problem.
Ours: the solver that ``solver="auto"`` takes, with no regularization, which the peer has not, and tol=1e-5 for counts.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.count_data import busiest, crimes, listed, purchases, relational, taxi_trips, timed, write_rows
from tensorveil.solvers.losses import LOSSES

SEEDS, MANY, EPOCHS = 3, 500_000, 3


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


def fit_ours(
    tensor: tv.ObservedTensor, loss: str, rank: int, seed: int
) -> tuple[float, Any, list[tuple[float, float]]]:
    """Return seconds, factors, and after which seconds the deviance was what."""
    options: dict[str, Any] = {"regularization": 0.0, "baseline": "none", "random_state": seed, "threads": 1}
    if loss == "poisson":
        options |= {"nonnegative": True, "tol": 1e-5}
    trace: list[tuple[float, float]] = []
    began = time.process_time()

    def note(record: Any) -> None:
        trace.append((time.process_time() - began, record.train_error))

    seconds, fitted = timed(lambda: tv.CP(rank, loss=loss, **options).fit(tensor, progress=note))
    return seconds, fitted.model_.factors, trace


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
    columns, values = tensor.entries.load().columns, tensor.values
    ours, theirs, until = [], [], []
    for seed in range(seeds):
        with np.errstate(all="ignore"):
            seconds, factors, trace = fit_ours(tensor, loss, rank, seed)
            ours.append((judge(loss, factors, columns, values), seconds))
            seconds, factors = fit_theirs(tensor, loss, rank, seed, dense)
            theirs.append((judge(loss, factors, columns, values), seconds))
        until.append(next((at for at, error in trace if error <= theirs[-1][0]), math.inf))
    row: dict[str, Any] = {"problem": name, "loss": loss, "rank": rank, "seeds": seeds, "listed": tensor.n_entries}
    row["cells"] = math.prod(tensor.shape)
    for label, rounds in (("ours", ours), ("pyttb", theirs)):
        deviances, times = np.array(rounds).T
        row[label] = {
            "deviance": float(np.median(deviances)),
            "seconds": float(times.mean()),
            "each": deviances.tolist(),
        }
    row["deviance ratio"] = row["ours"]["deviance"] / row["pyttb"]["deviance"]
    row["time ratio"] = row["ours"]["seconds"] / row["pyttb"]["seconds"]
    row["until as low"] = [
        None if math.isinf(at) else at / seconds for at, (_, seconds) in zip(until, theirs, strict=True)
    ]
    print(row, flush=True)
    return row


def main(parts: list[str]) -> None:
    """Measure what was asked for, and write after each problem."""
    logging.disable(logging.WARNING)  # the peer logs in every step
    rows: list[dict[str, Any]] = []
    if "dense" in parts or not parts:
        for name, loss, rank, x in dense_problems():
            rows.append(compare(name, loss, rank, listed(x), SEEDS if x.size < MANY else 1, True))
            write_rows("gcp-dense", rows)
    if "sparse" in parts or not parts:
        retail = purchases()
        bought = tv.ObservedTensor(retail, np.ones(len(retail)), duplicates="sum", unlisted="zero")
        links = bought.with_values(np.ones(bought.n_entries))
        problems = [("retail, 4339 x 3665 x 13", "poisson", bought), ("retail, bought or not", "bernoulli", links)]
        rows = []
        for name, loss, tensor in problems:
            rows.append(compare(name, loss, 8, tensor, 1, False))
            write_rows("gcp-sparse", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
