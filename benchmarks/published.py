"""Two questions that figure 2 leaves open (`tensorveil study wei-figure-2` measures the rest).

    python -m benchmarks.published           20 seeds, about 2 minutes on one core
    python -m benchmarks.published 10        another number of seeds
    python -m benchmarks.published scaling   how far bi-scaling of ML-100K is from convergence; 4 minutes

How does published input perturbation fare at half the learning rate, which is what leaving out the factor 2 of the
gradient of a square amounts to? And how long are the gradients that output perturbation supposes to be shorter than L?
The epsilon is the one that the papers claim; none of these fits is private (docs/published.md). Results go to
benchmarks/results/published.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tensorveil.tensor import load_dataset
from tensorveil_evidence.published import InputPerturbation, biscale
from tensorveil_evidence.studies.reference import (
    DESCENT,
    KINDS,
    LIPSCHITZ,
    PUBLISHED_BOUNDS,
    RANK,
    Reference,
    plain_descent,
)
from tensorveil_evidence.studies.study import seeds_of

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
HALF = "input, half the rate"


def half_rate(kind, **options):
    slow = options | {"learning_rate": options["learning_rate"] / 2}
    return InputPerturbation(kind, RANK, bounds=PUBLISHED_BOUNDS, **slow)


def gradient_norms(case):
    """Norms of the last mode's gradients after the published descent, entry by entry, without the penalty."""
    train = case.problem.train
    model = plain_descent(case.kind, RANK, case.seed, DESCENT[case.kind]).fit(train).model_
    error = train.values - model.predict(train.coords)
    return 2 * np.abs(error) * np.linalg.norm(model.design(train.columns, train.order - 1), axis=1)


def cell(found):
    lost = sum(error is None for error in found)
    return f"diverges ({lost}/{len(found)})" if lost else f"{np.mean(found):.3f} ± {np.std(found):.3f}"


def scale_movielens():
    """Print how large values are after so many rounds, and by how much they have moved since the rounds before."""
    tensor = load_dataset("ml-100k", time=212)
    for least in (0.3, 1e-6):
        before = None
        for rounds in (20, 200, 2_000, 10_000):
            scaled = biscale(tensor, rounds=rounds, least_scale=least)
            values = scaled.tensor.values
            moved = "" if before is None else f", moved by {np.sqrt(np.mean((values - before) ** 2)):.3f}"
            done = "converged" if scaled.converged else "not converged"
            size = np.sqrt(np.mean(values**2))
            print(f"least scale {least:g}, {scaled.rounds} rounds: {done}, size {size:.3f}{moved}")
            before = values


def main(arguments):
    if arguments == ["scaling"]:
        scale_movielens()
        return
    seeds = int(arguments[0]) if arguments else 20
    kept = {}
    for kind in KINDS:
        cases = [Reference(kind, seed, panel=kind) for seed in seeds_of(seeds)]
        errors = {e: [case.fit_published(HALF, e, half_rate).value for case in cases] for e in EPSILONS}
        norms = np.concatenate([gradient_norms(case) for case in cases])
        print(f"{kind}: {HALF}, {seeds} seeds: " + ", ".join(f"{e:g}: {cell(found)}" for e, found in errors.items()))
        print(
            f"Gradients of the noisy factor after the plain descent: median norm {np.median(norms):.2f}, largest "
            f"{norms.max():.2f}; {np.mean(norms > LIPSCHITZ):.0%} exceed L.",
            flush=True,
        )
        kept[kind] = [{"method": HALF, "epsilon": e, "errors": found} for e, found in errors.items()]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "published.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
