"""Losses other than squared error against peers: `python -m benchmarks.losses [pyttb implicit relational ...]`.

Peers (pyttb, implicit) are imported where they are measured; install them into an environment of your own. Peer and
ours run in turns in one process, one thread each; times are of the processor, so that other load hurts neither.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tensorveil.solvers.losses import LOSSES
from tensorveil.tensor.unlisted import known_cells

RESULTS = Path(__file__).parent / "results" / "losses.json"
DATA = Path(os.environ.get("TENSORVEIL_DATA", "data"))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return processor seconds and the result."""
    began = time.process_time()
    out = work()
    return time.process_time() - began, out


def links(name: str, part: str) -> np.ndarray[Any, Any]:
    """Read triples as text, (n, 3)."""
    return np.loadtxt(DATA / "relational" / name / f"{part}.txt", dtype=str, delimiter="\t")


def relational(name: str) -> dict[str, tv.ObservedTensor]:
    """Return the standard splits as tensors of known links, all else zero."""
    parts = {part: links(name, part) for part in ("train", "valid", "test")}
    every = np.concatenate(list(parts.values()))
    people = sorted({*every[:, 0], *every[:, 2]})
    modes = [tv.Mode("head", people), tv.Mode("relation", sorted(set(every[:, 1]))), tv.Mode("tail", people)]
    shape = tuple(len(mode.labels) for mode in modes)  # type: ignore[arg-type]
    out = {}
    for part, rows in parts.items():
        columns = [mode.encode(rows[:, m]) for m, mode in enumerate(modes)]
        out[part] = tv.ObservedTensor(np.stack(columns, 1), np.ones(len(rows)), shape, modes=modes, unlisted="zero")
    return out


def listed(x: Any) -> tv.ObservedTensor:
    """Return the cells of a dense array that are not zero."""
    coords = np.argwhere(x != 0)
    return tv.ObservedTensor(coords, x[tuple(coords.T)].astype(float), shape=x.shape, unlisted="zero")


def against_pyttb() -> list[dict[str, Any]]:
    """Fit planted and real tensors with pyttb's gcp_opt (L-BFGS-B and Adam) and with ours; deviance over all cells."""
    import pyttb as ttb
    from pyttb.gcp.handles import Objectives
    from pyttb.gcp.optimizers import LBFGSB, Adam

    rng = np.random.default_rng(0)
    factors = [rng.gamma(0.5, 1.0, (size, 4)) for size in (60, 50, 40)]
    counts = rng.poisson(np.einsum("ir,jr,kr->ijk", *factors) * 0.5).astype(float)
    signs = [rng.normal(0, 1.0, (size, 4)) for size in (60, 50, 40)]
    flags = (rng.random((60, 50, 40)) < 1 / (1 + np.exp(2 - np.einsum("ir,jr,kr->ijk", *signs)))).astype(float)
    nations = relational("nations")["train"].to_dense()
    taxi = np.zeros((265, 265, 24))
    with np.load(DATA / "nyc-taxi-2023-01" / "od_day_hour_counts.npz") as file:
        np.add.at(taxi, (file["pu"] - 1, file["do"] - 1, file["hour"]), file["count"])
    taxi = taxi[np.ix_(*[np.argsort(-taxi.sum(axis=ax))[:60] for ax in ((1, 2), (0, 2))], range(24))]
    problems: list[tuple[str, Any, str, Any, bool]] = [
        ("planted counts", counts, "poisson", Objectives.POISSON, True),
        ("planted links", flags, "bernoulli", Objectives.BERNOULLI_LOGIT, False),
        ("nations", nations, "bernoulli", Objectives.BERNOULLI_LOGIT, False),
        ("taxi, 60 busiest zones", taxi, "poisson", Objectives.POISSON, True),
    ]
    rows = []
    for name, x, loss, objective, nonnegative in problems:
        tensor, rank = listed(x), 4
        measure = LOSSES[loss]
        mean = measure.link.mean

        def deviance(
            model: Any, scale: Any = mean, counts: bool = nonnegative, x: Any = x, measure: Any = measure
        ) -> float:
            dense = model if counts else scale(model.copy())
            return float(measure.value(x, measure.link.linear(dense)).mean())

        def ours(loss: str = loss, nonnegative: bool = nonnegative, tensor: Any = tensor, restarts: int = 1) -> Any:
            options: dict[str, Any] = {"regularization": 0.0, "random_state": 0, "threads": 1, "restarts": restarts}
            options["tol"] = 1e-6 if nonnegative else 1e-5
            return tv.CP(4, loss=loss, nonnegative=nonnegative, baseline="none", **options).fit(tensor)

        ours()  # compiles
        for restarts in (1, 3):
            seconds, fit = timed(lambda restarts=restarts: ours(restarts=restarts))  # type: ignore[misc]
            found = float(measure.value(x, measure.link.linear(fit.dense())).mean())
            rows.append({"problem": name, "method": f"ours, {restarts} starts", "deviance": found, "seconds": seconds})
            print(rows[-1], flush=True)
        for label, optimizer in (("L-BFGS-B", LBFGSB(maxiter=300)), ("Adam", Adam(max_iters=5, epoch_iters=200))):
            data = ttb.tensor(x) if label == "L-BFGS-B" else ttb.tensor(x).to_sptensor()
            np.random.seed(0)  # noqa: NPY002 - the peer draws its start from it
            seconds, fit = timed(lambda: ttb.gcp_opt(data, rank, objective, optimizer, printitn=0))  # noqa: B023
            rows.append(
                {
                    "problem": name,
                    "method": f"pyttb {label}",
                    "deviance": deviance(fit[0].full().data),
                    "seconds": seconds,
                }
            )
            print(rows[-1], flush=True)
    return rows


def against_implicit() -> list[dict[str, Any]]:
    """Rank films for users of ML-1M by yes/no feedback, beside implicit's ALS with the same weights."""
    import scipy.sparse
    from implicit.als import AlternatingLeastSquares

    with np.load(DATA / "ml-1m" / "ratings.npz") as file:
        pairs = np.stack([file["user"], file["movie"]], 1).astype(np.int64)
    pairs = np.stack([np.unique(column, return_inverse=True)[1] for column in pairs.T], 1)
    shape = tuple(int(size) for size in pairs.max(axis=0) + 1)
    ones = np.ones(len(pairs), np.float32)
    tensor = tv.ObservedTensor(pairs, ones, shape, modes=["user", "film"], unlisted="zero")
    train, held = tv.random_split(tensor, 0.2, random_state=0)
    matrix = scipy.sparse.csr_matrix((train.values, tuple(train.columns)), shape=shape)

    def judge(model: Any) -> dict[str, float]:
        ranking = tv.evaluate(model, held.with_unlisted("unknown"), exclude=train, along="film", k=20).ranking
        assert ranking is not None
        return {"ndcg": ranking.ndcg, "recall": ranking.recall}

    rows = []
    for alpha, ridge in ((1.0, 10.0), (2.0, 30.0)):
        peer = AlternatingLeastSquares(
            factors=64, alpha=alpha, regularization=ridge, iterations=15, num_threads=1, random_state=0
        )
        seconds, _ = timed(lambda: peer.fit(matrix, show_progress=False))  # noqa: B023
        found = tv.CPModel(factors=(peer.user_factors, peer.item_factors), modes=tensor.modes)
        rows.append({"method": "implicit", "alpha": alpha, "ridge": ridge, "seconds": seconds, **judge(found)})
        print(rows[-1], flush=True)
        scale = math.sqrt(len(train) / math.prod(shape))  # values are scaled to a mean square of one
        options: dict[str, Any] = {"solver": "als", "baseline": "none", "random_state": 0, "threads": 1}
        options |= {"unlisted_weight": 1 / alpha, "regularization": ridge / alpha / scale, "tol": 0.0}
        tv.LowRankMatrix(64, **options, sweeps=1).fit(train)  # compiles
        for sweeps in (8, 15):
            seconds, fit = timed(lambda: tv.LowRankMatrix(64, **options, sweeps=sweeps).fit(train))  # noqa: B023
            each = {"method": f"ours, {sweeps} sweeps", "alpha": alpha, "ridge": ridge, "seconds": seconds}
            rows.append(each | judge(fit))
            print(rows[-1], flush=True)
    return rows


def of_relations() -> list[dict[str, Any]]:
    """Predict held-out links of nations and UMLS: AUC, filtered MRR over heads and tails."""
    rows = []
    for name in ("nations", "umls"):
        parts = relational(name)
        seen = [parts["train"], parts["valid"]]
        for label, make in (
            ("CP", lambda ridge, seed: tv.CP(32, loss="bernoulli", regularization=ridge, random_state=seed)),
            (
                "Tucker, head and tail the same",
                lambda ridge, seed, data=name: tv.Tucker(
                    (14 if data == "nations" else 24, 14, 14 if data == "nations" else 24),
                    loss="bernoulli",
                    same=("head", "tail"),
                    regularization=ridge,
                    random_state=seed,
                ),
            ),
        ):
            tried = []
            for ridge in (0.1, 0.5, 2.0):
                seconds, fit = timed(lambda: make(ridge, 0).fit(parts["train"]))  # noqa: B023
                tried.append(
                    (tv.evaluate(fit, parts["valid"], exclude=parts["train"], along="tail").ranking, ridge, fit)
                )
            _, ridge, fit = max(tried, key=lambda each: each[0].mrr)
            sides = [tv.evaluate(fit, parts["test"], exclude=seen, along=side, k=10) for side in ("head", "tail")]
            rankings = [side.ranking for side in sides if side.ranking is not None]
            rows.append(
                {
                    "data": name, "model": label, "regularization": ridge, "seconds": seconds, "auc": sides[0].auc,
                    "mrr": float(np.mean([each.mrr for each in rankings])),
                    "hits10": float(np.mean([each.hits for each in rankings])),
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def count_problems() -> dict[str, tv.ObservedTensor]:
    """Return real counts, all cells that are not listed being zero."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with np.load(DATA / "nyc-taxi-2023-01" / "od_day_hour_counts.npz") as file:
        taxi = np.stack([file["pu"] - 1, file["do"] - 1, file["day"] % 7, file["hour"]], 1).astype(np.int64)
        trips = file["count"].astype(float)
    table = pq.read_table(DATA / "tensor-online-retail" / "online_retail.parquet")
    bought = table.filter(pc.and_(pc.greater(table["quantity"], 0), pc.is_valid(table["customer"])))
    month = pc.add(pc.multiply(pc.year(bought["time"]), 12), pc.month(bought["time"]))
    columns = [bought["customer"], bought["stock_code"].combine_chunks().indices, month]
    retail = np.stack([np.unique(np.asarray(column), return_inverse=True)[1] for column in columns], 1)
    options: dict[str, Any] = {"duplicates": "sum", "unlisted": "zero"}
    return {
        "taxi, zone x zone x weekday x hour": tv.ObservedTensor(taxi, trips, **options),
        "retail, customer x item x month": tv.ObservedTensor(retail, np.ones(len(retail)), **options),
    }


def of_counts() -> list[dict[str, Any]]:
    """Thin counts: a fit of four fifths of the events predicts a fourth as many for the rest, cell by cell."""
    rows = []
    for name, tensor in count_problems().items():
        rng = np.random.default_rng(0)
        kept = rng.binomial(tensor.values.astype(int), 0.8).astype(float)
        train = tensor.with_values(kept).take(kept > 0)
        rest = tensor.values - kept
        cells = known_cells(tensor.with_values(rest).take(rest > 0))
        poisson, weights = LOSSES["poisson"], cells.weights
        for label, options in (
            ("poisson", {"loss": "poisson", "nonnegative": True}),
            ("squared error", {"solver": "als", "baseline": "none"}),
        ):
            fits = []
            for ridge in (0.0, 1.0, 10.0) if label == "poisson" else (1.0, 10.0, 100.0):
                estimator = tv.CP(16, **options, regularization=ridge, random_state=0, threads=1, sweeps=25)
                seconds, fit = timed(lambda: estimator.fit(train))  # noqa: B023
                raw = fit.predict(cells.columns.T) / 4
                # What is predicted below the best small number counts as that number.
                floors = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2) if label != "poisson" else (1e-6, 1e-5, 1e-4, 1e-3)
                tried = []
                for floor in floors:
                    mean = np.maximum(raw, floor)
                    value = poisson.value(cells.values, np.log(mean))
                    tried.append((float(np.sum(weights * value) / weights.sum()), floor))
                found = {"problem": name, "method": label, "ridge": ridge, "seconds": seconds}
                found |= {"deviance": min(tried)[0], "floor": min(tried)[1]}
                found["bias"] = float(np.sum(weights * raw) / np.sum(weights * cells.values) - 1)
                fits.append(found)
                print(found, flush=True)
            rows.append(min(fits, key=lambda each: each["deviance"]))
    return rows


def of_scale(most: int) -> list[dict[str, Any]]:
    """Fit yes/no tensors of 10,000 x 10,000 x 100 cells with up to ``most`` listed ones: time per pass and memory."""
    rows = []
    for share in (8, 4, 2, 1):
        n = most // share
        rng = np.random.default_rng(0)
        shape = (10_000, 10_000, 100)
        columns = np.stack([rng.integers(size, size=n, dtype=np.int32) for size in shape])
        values = np.ones(n, np.float32)
        tensor = tv.ObservedTensor.from_columns(columns, values, shape, duplicates="first", unlisted="zero")
        times: list[float] = []
        estimator = tv.CP(16, loss="bernoulli", solver="adam", sweeps=3, random_state=0, threads=1)
        estimator.fit(tensor, progress=lambda record: times.append(time.process_time()))  # noqa: B023
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append({"listed": tensor.n_entries, "seconds per pass": times[-1] - times[-2], "peak GB so far": peak})
        print(rows[-1], flush=True)
        del tensor, columns, values
    return rows


def main() -> None:
    """Measure what was asked for, and keep what was measured before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["pyttb", "implicit", "relational", "counts", "scale"])
    parser.add_argument("--most", type=int, default=20_000_000, help="listed cells of the largest tensor of scale")
    given = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "pyttb": against_pyttb,
        "implicit": against_implicit,
        "relational": of_relations,
        "counts": of_counts,
        "scale": lambda: of_scale(given.most),
    }
    for part in given.parts:
        rows = parts[part]()
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(kept | {part: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
