"""Matrix completion by ALS against cmfrec, interleaved, same data and precision."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from benchmarks.process import work


def available() -> bool:
    """Whether the peer is installed."""
    return find_spec("cmfrec") is not None


def compare(path: str, dtype: str, rank: int, threads: int, rounds: int) -> dict[str, Any]:
    """Alternate the peer and ours; the best of each counts."""
    settings = {"path": path, "dtype": dtype, "rank": rank, "threads": threads}
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(work("cmfrec", **settings, repeats=2))
        ours.append(work("als", **settings, repeats=6))
    best, peer_best = (min(t for r in runs for t in r["passes"]) for runs in (ours, theirs))
    each = [min(o["passes"]) / min(t["passes"]) for o, t in zip(ours, theirs, strict=True)]
    return {"dtype": dtype, "ours": best, "peer": peer_best, "ratio": best / peer_best, "ratio_each_round": each}
