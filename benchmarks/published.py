"""The published mechanisms on the reference case: error against clean held-out values, by epsilon.

    python -m benchmarks.published           20 seeds, about 5 minutes on one core
    python -m benchmarks.published 10        another number of seeds

Beside them stand the constant, the published descent without privacy, and our own fit without privacy. The epsilon is
the one that the papers claim; none of these fits is private (docs/published.md). Results go to
benchmarks/results/published.json and are printed as tables.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import tensorveil as tv
from tensorveil.published import GradientPerturbation, InputPerturbation, OutputPerturbation

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# The papers say "appropriate parameters" and print neither m nor L. Both were tried on seeds 0 to 3, against clean
# values: m = 0.1 has the least error of 1, 0.1, 0.01 and 0.001; of L = 0.2, 0.05 and 0.02 the smallest has the least
# error, as it must, and 0.05 is the one that gave the papers' order at every epsilon tried. So the order measured below
# was chosen, not found: with L = 0.2 or 0.02 it broke. No private user could choose like this. The seeds measured are
# others.
CLIP, LIPSCHITZ, FIRST_SEED = 0.1, 0.05, 100
SETTINGS = {
    "cp": {"learning_rate": 0.005, "regularization": 0.01},
    "tucker": {"learning_rate": 0.005, "regularization": 0.001, "core_regularization": 0.0001},
}
MECHANISMS = {
    "gradient": lambda kind, **o: GradientPerturbation(kind, 3, clip_constant=CLIP, **o),
    "output": lambda kind, **o: OutputPerturbation(kind, 3, lipschitz=LIPSCHITZ, **o),
    "input": lambda kind, **o: InputPerturbation(kind, 3, bounds=(0, 1), **o),
    # The gradient of a square has a factor 2; who leaves it out, as many do, descends at half the rate.
    "input, half the rate": lambda kind, **o: InputPerturbation(
        kind, 3, bounds=(0, 1), **o | {"learning_rate": 0.0025}
    ),
    "input, clamped": lambda kind, **o: InputPerturbation(kind, 3, bounds=(0, 1), clamp=True, **o),
}


def rmse(prediction, truth):
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


def published_descent(kind, seed):
    estimator = {"cp": tv.CP, "tucker": tv.Tucker}[kind]
    options = {"solver": "sgd", "schedule": "published", "baseline": "none", "sweeps": 100, "tol": 0.0}
    return estimator(3, random_state=seed, **options, **SETTINGS[kind])


def our_fit(kind, seed):
    return {"cp": tv.CP, "tucker": tv.Tucker}[kind](3, restarts=3, random_state=seed)


def gradient_norms(model, tensor):
    """Norms of the last mode's gradients at a fitted model, entry by entry, without the penalty."""
    error = tensor.values - model.predict(tensor.coords)
    return 2 * np.abs(error) * np.linalg.norm(model.design(tensor.columns, tensor.order - 1), axis=1)


def measure(kind, seeds):
    """Return {method: {epsilon or None: errors}} and the gradient norms of the non-private fits."""
    errors, norms = {}, []

    def note(name, epsilon, error):
        errors.setdefault(name, {}).setdefault(epsilon, []).append(error)

    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        problem = tv.paper_problem(kind, random_state=seed)
        truth = problem.clean_at(problem.held_out.coords)
        note("constant", None, rmse(problem.train.values.mean(), truth))
        plain = published_descent(kind, seed).fit(problem.train)
        norms.append(gradient_norms(plain.model_, problem.train))
        note("published descent, not private", None, rmse(plain.predict(problem.held_out), truth))
        note(
            "our fit, not private", None, rmse(our_fit(kind, seed).fit(problem.train).predict(problem.held_out), truth)
        )
        # Declared bounds: the range of the clean values. The observed ones are noisy and may lie outside; clip them.
        train = problem.train.with_bounds((0, 1), out_of_bounds="clip")
        for name, make in MECHANISMS.items():
            for epsilon in EPSILONS:
                fit = make(kind, epsilon=epsilon, random_state=seed, verbose=False, **SETTINGS[kind])
                try:
                    error = rmse(fit.fit(train).predict(problem.held_out), truth)
                except tv.InputError:  # the descent diverged
                    error = np.inf
                note(name, epsilon, error)
    return errors, np.concatenate(norms)


def cell(found):
    if lost := int(np.sum(~np.isfinite(found))):
        return f"diverges ({lost} of {len(found)})"
    return f"{np.mean(found):.3f} ± {np.std(found):.3f}"


def table(errors):
    lines = [f"| method | {' | '.join(f'{e:g}' for e in EPSILONS)} |", "|---" * (len(EPSILONS) + 1) + "|"]
    for name, by_epsilon in errors.items():
        cells = [cell(by_epsilon.get(epsilon, by_epsilon.get(None))) for epsilon in EPSILONS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ordered(errors):
    """At which epsilons the papers' order holds for the means: gradient, then output, then input."""
    means = {name: {e: np.mean(found) for e, found in errors[name].items()} for name in MECHANISMS}
    return [e for e in EPSILONS if means["gradient"][e] <= means["output"][e] <= means["input"][e]]


def main(arguments):
    seeds = int(arguments[0]) if arguments else 20
    kept = {}
    for kind in SETTINGS:
        errors, norms = measure(kind, seeds)
        print(f"\n### {kind}: clean held-out RMSE, {seeds} seeds, m = {CLIP}, L = {LIPSCHITZ}\n\n{table(errors)}\n")
        print("The papers' order (gradient, output, input) holds at epsilon", *(f"{e:g}" for e in ordered(errors)))
        print(
            f"Gradients of the noisy factor after the plain descent: median norm {np.median(norms):.2f}, largest "
            f"{norms.max():.2f}; {np.mean(norms > LIPSCHITZ):.0%} exceed L."
        )
        kept[kind] = [
            {"method": name, "epsilon": epsilon, "errors": [e if np.isfinite(e) else None for e in found]}
            for name, by_epsilon in errors.items()
            for epsilon, found in by_epsilon.items()
        ]
        sys.stdout.flush()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "published.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
