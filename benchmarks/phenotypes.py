"""Phenotypes under user-level privacy, on planted patients: `python -m benchmarks.phenotypes [name ...]`.

An open model is fitted to real synthetic health records (patient x diagnosis x item): its components are the planted
phenotypes. Patients are drawn from it (`synthesise`): each has the loadings of a patient of the data, drawn at random,
and independent Poisson counts. Measured is how alike released and planted phenotypes are: the congruence of two
components is the product of the cosines of their columns, each planted one has the partner that is best for all, and
one without a partner counts 0. Given is the mean over phenotypes, and the lowest of them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import tensorveil as tv
from tensorveil.noise import SeededSource
from tensorveil.rounds import RecordsRecipe, run_recipe

RESULTS = Path(__file__).parent / "results" / "phenotypes.json"
DATA = Path(os.environ.get("TENSORVEIL_DATA", "data"))
SETS = {
    "synthea-1462": "ehr-synthea-1462/tensor_patient_diagnosis_item_same_encounter.npz",
    "synthea-ibm-1000": "ehr-synthea-ibm-1000/tensor_patient_diagnosis_medication_same_encounter.npz",
    "synpuf-1000": "ehr-synpuf-1000/tensor_patient_condition_drug_same_month_top200.npz",
}
MODES = ("patient", "diagnosis", "item")
EPSILONS, PATIENTS, SEEDS, RANK, HIGH = (0.1, 0.3, 1.0, 3.0, 10.0), (1_000, 10_000, 100_000), range(3), 8, 20.0
DELTA = 1e-6


def records(name: str) -> tv.ObservedTensor:
    """Read a tensor of records; patients are numbered by those who have any."""
    with np.load(DATA / SETS[name]) as file:
        coords, counts = file["coords"], file["counts"].astype(float)
    patients = np.unique(coords[0], return_inverse=True)[1]
    shape = (int(patients.max()) + 1, *(int(size) + 1 for size in coords[1:].max(axis=1)))
    return tv.ObservedTensor(np.stack([patients, *coords[1:]], axis=1), counts, shape, modes=MODES, unlisted="zero")


def plant(tensor: tv.ObservedTensor, rank: int = RANK) -> Any:
    """Fit the generator: an open model of Poisson counts whose factors are not negative."""
    options: dict[str, Any] = {"loss": "poisson", "nonnegative": True, "baseline": "none", "restarts": 3}
    return tv.CP(rank, **options, random_state=0, threads=1).fit(tensor).model_


def congruences(found: Any, planted: Any) -> Any:
    """Return the congruence of every planted component with its partner."""

    def unit(factor: Any) -> Any:
        return factor / np.maximum(np.linalg.norm(factor, axis=0), 1e-300)

    alike = np.ones((planted.rank, found.rank))
    for own, other in zip(planted.factors[1:], found.factors[1:], strict=True):
        alike *= unit(own).T @ unit(other)
    return alike[linear_sum_assignment(-alike)]


def make_recipe(tensor: tv.ObservedTensor, epsilon: float, seed: int, refinements: int | None) -> RecordsRecipe:
    """Return what `UserLevelCounts` runs, or the same with so many refinements."""
    facts: dict[str, Any] = {"shape": tensor.shape, "modes": MODES, "protect": "patient", "bounds": (0.0, HIGH)}
    return RecordsRecipe(**facts, epsilon=epsilon, delta=DELTA, rank=RANK, seed=seed, refinements=refinements)


def release(tensor: tv.ObservedTensor, epsilon: float, seed: int, refinements: int | None) -> Any:
    """Release phenotypes of a tensor."""
    recipe = make_recipe(tensor, epsilon, seed, refinements)
    return recipe.finish(run_recipe(recipe, [tensor], SeededSource(seed), threads=1))


def without_noise(tensor: tv.ObservedTensor) -> Any:
    """Compute the same from the sums of one round without noise."""
    recipe = make_recipe(tensor, 1e6, 0, 0)
    return recipe.finish(run_recipe(recipe, [tensor], None, threads=1))


def measure(name: str) -> list[dict[str, Any]]:
    """Measure one set by number of patients and epsilon; the last rows are of the data themselves."""
    data, rows = records(name), []
    truth = plant(data)
    drawn = {n: tv.synthesise(truth, rows={"patient": n}, seed=1) for n in PATIENTS}
    for patients, tensor, kind in [*((n, each, "planted") for n, each in drawn.items()), (data.shape[0], data, "data")]:
        started = time.process_time()
        plain = congruences(without_noise(tensor), truth)
        facts = {"data": name, "patients": patients, "kind": kind}
        rows.append({**facts, "method": "without noise", "mean": float(plain.mean()), "lowest": float(plain.min())})
        if patients <= 10_000:
            found = congruences(plant(tensor), truth)
            rows.append({**facts, "method": "open CP", "mean": float(found.mean()), "lowest": float(found.min())})
        refined = [e for e in EPSILONS if len(make_recipe(tensor, e, 0, None).rounds) > 1]
        for epsilon, refinements in [*((e, 0) for e in EPSILONS), *((e, None) for e in refined)]:
            models = [release(tensor, epsilon, seed, refinements) for seed in SEEDS]
            each = [congruences(model, truth) for model in models]
            rows.append(
                {
                    **facts, "method": "one round" if refinements == 0 else "refined", "epsilon": epsilon,
                    "mean": [float(found.mean()) for found in each],
                    "lowest": [float(found.min()) for found in each],
                    "components": [int(np.count_nonzero(model.factors[0])) for model in models],
                }
            )  # fmt: skip
        rows[-1]["cpu"] = round(time.process_time() - started, 1)
        for row in rows[-len(EPSILONS) - len(refined) - 2 :]:
            print(row, flush=True)
    return rows


def main() -> None:
    """Measure what was asked for, and keep what was measured before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SETS))
    warnings.simplefilter("ignore")
    for name in parser.parse_args().names:
        rows = measure(name)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(kept | {name: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
