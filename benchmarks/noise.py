"""python -m benchmarks.noise: exact samplers against numpy's floating-point ones, taking turns in one run."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.noise import (
    SecureSource,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    norm_laplace,
    rounded_gaussian,
    uniform_below,
)

RESULTS = Path(__file__).parent / "results"
SCALE = 2.0**20  # what Grid.for_scale aims at
OPENDP_DRAWS = 20_000


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Two ways to draw numbers: ours, exact and secure, and a peer's."""

    name: str
    peer_name: str
    numbers: int
    ours: Callable[[], Any]
    peer: Callable[[], Any]
    peer_numbers: int | None = None


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(duel: Duel, rounds: int) -> dict[str, Any]:
    """Best rate of each over rounds in which they take turns; a first round compiles and is not counted."""
    times = [(seconds(duel.ours), seconds(duel.peer)) for _ in range(rounds + 1)][1:]
    ours, peer = (min(column) for column in zip(*times, strict=True))
    share = (duel.peer_numbers or duel.numbers) / duel.numbers
    return {
        "sampler": duel.name,
        "peer": duel.peer_name,
        "numbers": duel.numbers,
        "ours_per_second": duel.numbers / ours,
        "peer_per_second": duel.numbers * share / peer,
        "time_over_peer": ours / (peer / share),
        "ratios_by_round": [a / (b / share) for a, b in times],
    }


def norm_by_floats(rng: np.random.Generator, dimension: int, count: int) -> Any:
    direction = rng.normal(size=(count, dimension))
    direction *= (rng.gamma(dimension, SCALE, count) / np.linalg.norm(direction, axis=1))[:, None]
    return direction


def duels(n: int) -> list[Duel]:
    """All comparisons with numpy; n numbers each."""
    source, rng = SecureSource(), np.random.default_rng(0)
    found = [
        Duel(name="random words", peer_name="Generator.integers", numbers=n,
             ours=lambda: source.uniform64(n), peer=lambda: rng.integers(0, 2**64, n, dtype=np.uint64)),
    ]  # fmt: skip
    for scale, label in ((1.0, "1"), (SCALE, "2**20"), (2.0**30, "2**30")):
        found += [
            Duel(name=f"discrete_laplace, scale {label}", peer_name="Generator.laplace", numbers=n,
                 ours=lambda s=scale: discrete_laplace(s, n, source), peer=lambda s=scale: rng.laplace(0, s, n)),
            Duel(name=f"rounded_gaussian, sigma {label}", peer_name="Generator.normal", numbers=n,
                 ours=lambda s=scale: rounded_gaussian(s, n, source), peer=lambda s=scale: rng.normal(0, s, n)),
            Duel(name=f"discrete_gaussian, sigma {label}", peer_name="Generator.normal", numbers=n,
                 ours=lambda s=scale: discrete_gaussian(s, n, source), peer=lambda s=scale: rng.normal(0, s, n)),
        ]  # fmt: skip
    for d in (3, 8, 16, 32):
        rows = n // (4 * d)
        found.append(
            Duel(name=f"norm_laplace, dimension {d}", peer_name="normal and gamma", numbers=rows * d,
                 ours=lambda d=d, rows=rows: norm_laplace(SCALE, d, rows, source),
                 peer=lambda d=d, rows=rows: norm_by_floats(rng, d, rows))
        )  # fmt: skip
    x = np.full(n // 4, 0.7)
    found += [
        Duel(name="bernoulli_exp", peer_name="random() < exp(-x)", numbers=len(x),
             ours=lambda: bernoulli_exp(x, source), peer=lambda: rng.random(len(x)) < np.exp(-x)),
        Duel(name="uniform_below 1000", peer_name="Generator.integers", numbers=n,
             ours=lambda: uniform_below(1000, n, source), peer=lambda: rng.integers(0, 1000, n)),
    ]  # fmt: skip
    return found


def opendp_duels(n: int) -> list[Duel]:
    """The same laws by OpenDP, exact too; none if it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return []
    dp.enable_features("contrib")
    source = SecureSource()
    domain = dp.vector_domain(dp.atom_domain(T=int), size=OPENDP_DRAWS)
    laplace = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=SCALE)
    gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=SCALE)
    zeros = [0] * OPENDP_DRAWS
    return [
        Duel(name="discrete_laplace, scale 2**20", peer_name="OpenDP", numbers=n, peer_numbers=OPENDP_DRAWS,
             ours=lambda: discrete_laplace(SCALE, n, source), peer=lambda: laplace(zeros)),
        Duel(name="discrete_gaussian, sigma 2**20", peer_name="OpenDP", numbers=n, peer_numbers=OPENDP_DRAWS,
             ours=lambda: discrete_gaussian(SCALE, n, source), peer=lambda: gaussian(zeros)),
    ]  # fmt: skip


def markdown(records: list[dict[str, Any]], rounds: int) -> str:
    lines = [
        "# Speed of the noise",
        "",
        f"Secure, exact draws on one thread against a peer taking turns with it; best of {rounds} rounds, and the",
        "range of the ratio over the rounds. A ratio below 1 means that ours is faster.",
        "",
        "| sampler | peer | ours, M/s | peer, M/s | time over peer's | rounds |",
        "|---|---|---|---|---|---|",
    ]
    for r in records:
        low, high = min(r["ratios_by_round"]), max(r["ratios_by_round"])
        lines.append(
            f"| {r['sampler']} | {r['peer']} | {r['ours_per_second'] / 1e6:.1f} | {r['peer_per_second'] / 1e6:.2g} "
            f"| {r['time_over_peer']:.3g} | {low:.3g} to {high:.3g} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write benchmarks/results/noise.md and noise.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("--numbers", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    everything = [*duels(options.numbers), *opendp_duels(options.numbers)]
    records = []
    for duel in everything:
        print(f"measuring {duel.name} against {duel.peer_name} ...", flush=True)
        records.append(measure(duel, options.rounds))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "noise.json").write_text(json.dumps(records, indent=1) + "\n")
    (RESULTS / "noise.md").write_text(markdown(records, options.rounds))
    print(markdown(records, options.rounds))


if __name__ == "__main__":
    main()
