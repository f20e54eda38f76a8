"""Yes/no feedback against implicit's ALS: `OMP_NUM_THREADS=1 python -m benchmarks.implicit_als`; needs implicit.

MovieLens 1M, all ratings taken as yes: every user's films are cut at random, a fifth for the test and a tenth of the
rest for validation (users of the standard protocol, "weak generalisation": every user is in every part). Both minimise
the objective of Hu, Koren and Volinsky (2008) with 64 factors, single precision, one thread. Weight of a yes, ridge and
number of sweeps are chosen for each by NDCG@20 on the validation part, then both are fitted to training and validation
and judged on the test, films that were fitted being left out. NDCG@20 and recall@20 are means over users, recall of as
many as can be among 20. Times are of the processor, in turns, with all that a fit does; means of SEEDS starts.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.count_data import DATA, timed, write_rows

FACTORS, SEEDS = 64, 3
ALPHAS, RIDGES, SWEEPS = (2.0, 5.0), (10.0, 30.0, 100.0), (8, 15)


def split(rng: np.random.Generator, users: Any, share: float) -> Any:
    """Return which entries are held out: a share of every user's, chosen at random."""
    order = np.lexsort((rng.random(len(users)), users))
    counts = np.bincount(users)
    place = np.empty(len(users))
    place[order] = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place < np.floor(share * counts[users])


def feedback() -> tuple[tv.ObservedTensor, tv.ObservedTensor, tv.ObservedTensor]:
    """Return training, validation and test part."""
    with np.load(DATA / "ml-1m" / "ratings.npz") as file:
        pairs = [np.unique(file[name], return_inverse=True)[1] for name in ("user", "movie")]
    shape = tuple(int(column.max()) + 1 for column in pairs)
    ones = np.ones(len(pairs[0]), np.float32)
    whole = tv.ObservedTensor(np.stack(pairs, 1), ones, shape, modes=["user", "film"], unlisted="zero")
    rng = np.random.default_rng(0)
    test = split(rng, whole.entries.load().columns[0], 0.2)
    rest = whole.take(~test)
    valid = split(rng, rest.entries.load().columns[0], 0.1)
    return rest.take(~valid), rest.take(valid), whole.take(test)


def fit_theirs(train: tv.ObservedTensor, alpha: float, ridge: float, sweeps: int, seed: int) -> tuple[float, Any]:
    """Return seconds and a model."""
    import scipy.sparse
    from implicit.als import AlternatingLeastSquares

    matrix = scipy.sparse.csr_matrix((train.values, tuple(train.entries.load().columns)), shape=train.shape)
    peer = AlternatingLeastSquares(
        factors=FACTORS, alpha=alpha, regularization=ridge, iterations=sweeps, num_threads=1, random_state=seed
    )
    seconds, _ = timed(lambda: peer.fit(matrix, show_progress=False))
    return seconds, tv.CPModel(factors=(peer.user_factors, peer.item_factors), modes=train.modes)


def fit_ours(train: tv.ObservedTensor, alpha: float, ridge: float, sweeps: int, seed: int) -> tuple[float, Any]:
    """Return seconds and a model of the same objective: all of it divided by alpha, values of mean square one."""
    scale = math.sqrt(train.n_entries / math.prod(train.shape))
    estimator = tv.LowRankMatrix(
        FACTORS, solver="als", baseline="none", unlisted_weight=1 / alpha, regularization=ridge / alpha / scale,
        sweeps=sweeps, tol=0.0, random_state=seed, threads=1,
    )  # fmt: skip
    seconds, fitted = timed(lambda: estimator.fit(train))
    return seconds, fitted.model_


METHODS = {"implicit": fit_theirs, "ours": fit_ours}


def judge(model: Any, held: tv.ObservedTensor, seen: Any) -> dict[str, float]:
    """Return the measures of a ranking of films."""
    ranking = tv.evaluate(model, held.with_unlisted("unknown"), exclude=seen, along="film", k=20).ranking
    assert ranking is not None
    return {"ndcg": ranking.ndcg, "recall": ranking.recall}


def main() -> None:
    """Choose, fit and judge."""
    train, valid, test = feedback()
    fit_ours(train, 2.0, 30.0, 2, 0)  # compiles
    rows: list[dict[str, Any]] = []
    for settings in itertools.product(ALPHAS, RIDGES, SWEEPS):
        for method, fit in METHODS.items():
            seconds, model = fit(train, *settings, 0)
            names = dict(zip(("alpha", "ridge", "sweeps"), settings, strict=True))
            rows.append(
                {"part": "validation", "method": method, **names, "seconds": seconds, **judge(model, valid, train)}
            )
            print(rows[-1], flush=True)
    chosen = {m: max((row for row in rows if row["method"] == m), key=lambda row: row["ndcg"]) for m in METHODS}
    both = tv.ObservedTensor(
        np.concatenate([train.coords, valid.coords]), np.concatenate([train.values, valid.values]), train.shape,
        modes=train.modes, unlisted="zero",
    )  # fmt: skip
    for seed in range(SEEDS):
        for method, fit in METHODS.items():
            names = {name: chosen[method][name] for name in ("alpha", "ridge", "sweeps")}
            seconds, model = fit(both, *names.values(), seed)
            rows.append(
                {
                    "part": "test",
                    "method": method,
                    "seed": seed,
                    **names,
                    "seconds": seconds,
                    **judge(model, test, both),
                }
            )
            print(rows[-1], flush=True)
    write_rows("implicit-als", rows)


if __name__ == "__main__":
    main()
