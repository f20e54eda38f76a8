"""Links between things: nations and UMLS, standard splits: `OMP_NUM_THREADS=1 python -m benchmarks.relations`.

Every relation is also listed backwards (Lacroix, Usunier and Obozinski 2018), so that a query for the head is one for
the tail of the backward relation, and `CP` gives a thing one row as head and another as tail. Rank and ridge are chosen
by MRR on the validation links; the fit is to the training links. Ranks are filtered: of all candidates those are left
out that are known links of training, validation or test. AUC is that of the test links among all cells in no split.
Given are means over starts, and the start with the best MRR on the validation links.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.count_data import RESULTS, relational, timed, write_rows

RANKS = {"nations": (16, 32, 48), "umls": (32, 64)}
RIDGES, SEEDS, SWEEPS = (2.0, 3.0, 4.0), {"nations": 10, "umls": 3}, 30


def judge(model: Any, held: tv.ObservedTensor, known: list[tv.ObservedTensor]) -> dict[str, float]:
    """Return the measures of held-out links, both directions together."""
    found = tv.evaluate(model, held, exclude=known, along="tail", k=10)
    first = tv.evaluate(model, held, exclude=known, along="tail", k=1).ranking
    assert found.ranking is not None
    assert found.auc is not None
    assert first is not None
    return {"auc": found.auc, "mrr": found.ranking.mrr, "hits1": first.hits, "hits10": found.ranking.hits}


def main(names: list[str]) -> None:
    """Choose and judge; keep what was measured of the others."""
    for name in names or list(RANKS):
        parts = relational(name, inverse=True)
        train, valid, test = (parts[part] for part in ("train", "valid", "test"))

        def fit(rank: int, ridge: float, seed: int) -> tuple[float, Any]:
            options: dict[str, Any] = {"regularization": ridge, "random_state": seed, "threads": 1, "sweeps": SWEEPS}
            return timed(lambda: tv.CP(rank, loss="bernoulli", **options).fit(train))  # noqa: B023

        tried = []
        for rank, ridge in itertools.product(RANKS[name], RIDGES):
            seconds, model = fit(rank, ridge, 0)
            tried.append((judge(model, valid, [train, test])["mrr"], rank, ridge))
            print(name, *tried[-1], round(seconds, 2), flush=True)
        _, rank, ridge = max(tried)
        found = []
        for seed in range(SEEDS[name]):
            seconds, model = fit(rank, ridge, seed)
            on_valid = judge(model, valid, [train, test])["mrr"]
            found.append({"seconds": seconds, "valid mrr": on_valid, **judge(model, test, [train, valid])})
        means = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
        chosen = max(found, key=lambda each: each["valid mrr"])
        row = {"data": name, "rank": rank, "ridge": ridge, "mean": means, "best start by validation": chosen}
        print(row, flush=True)
        path = RESULTS / "relations.json"
        kept = json.loads(path.read_text()) if path.exists() else []
        write_rows("relations", [*(old for old in kept if old["data"] != name), {**row, "starts": found}])


if __name__ == "__main__":
    main(sys.argv[1:])
