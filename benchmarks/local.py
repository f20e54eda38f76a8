"""Local mechanisms: errors against closed forms, the choice in every cell, speed against numpy, a million reports.

    python -m benchmarks.local errors speed million weights

Writes benchmarks/results/local.json and local.md; parts not asked for keep their earlier numbers.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from tensorveil.local import (
    DTLDP,
    ExactGaussian,
    Hybrid,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    RandomizedResponse,
    Staircase,
    choose,
    mean_of,
)
from tensorveil_evidence.published import TLDP

RESULTS = Path(__file__).parent / "results"
PARTS = ("errors", "speed", "million", "weights")
DIMENSIONS, EPSILONS = (1, 64, 784, 3072), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TARGET = 0.004  # relative standard error of a measured error
MOST_SECONDS = 150.0
EACH = 1 - 0.001 / 64  # confidence of each of 63 events that are tried together


def measured(mechanism: Any) -> dict[str, float]:
    """Measure the mean squared error at the worst tensor until it is known to TARGET."""
    d = mechanism.size
    x = mechanism.worst_tensor()
    batch = np.broadcast_to(x, (max(64, (1 << 17) // d * 4), d))
    count, total, squares, start = 0, 0.0, 0.0, time.perf_counter()
    while True:
        errors = ((mechanism.perturb(batch) - x) ** 2).sum(axis=1)
        count, total, squares = count + len(errors), total + errors.sum(), squares + (errors**2).sum()
        mean = total / count
        error = math.sqrt(max(squares / count - mean**2, 0) / count) / mean
        enough = error < TARGET and total > 0 and count >= 256
        if enough or time.perf_counter() - start > MOST_SECONDS:
            break
    predicted = mechanism.mse(x)
    return {"predicted": predicted, "measured": mean, "ratio": mean / predicted, "relative_se": error, "reports": count}


def cell(d: int, epsilon: float) -> list[dict[str, Any]]:
    """Measure all candidates of a cell for [-1, 1]^d, unit tensor, and Gaussian noise with delta 1e-5."""
    choice = choose((d,), epsilon, "tensor", bounds=(-1, 1), delta=1e-5)
    common: dict[str, Any] = {"shape": (d,), "epsilon": epsilon, "unit": "tensor", "bounds": (-1, 1)}
    # The candidates pick coordinates; as they come by default, all entries are reported by some.
    plain = [DTLDP(**common), Staircase(**common), RandomizedResponse(**common)]
    records = []
    for mechanism, role in [*((c.mechanism, "candidate") for c in choice.candidates), *((m, "default") for m in plain)]:
        record = {"d": d, "epsilon": epsilon, "mechanism": type(mechanism).__name__, "role": role,
                  "coordinates": getattr(mechanism, "coordinates", None),
                  "points": getattr(mechanism, "points", None)} | measured(mechanism)  # fmt: skip
        records.append(record)
        print(f"d {d} eps {epsilon} {record['mechanism']} {role}: ratio {record['ratio']:.4f} "
              f"+- {record['relative_se']:.4f} ({record['reports']} reports)", flush=True)  # fmt: skip
    return records


def errors() -> dict[str, Any]:
    """Measure all cells; say where the choice was not the best by more than the measurement's error."""
    records = [record for d in DIMENSIONS for epsilon in EPSILONS for record in cell(d, epsilon)]
    cells, wrong = [], []
    for d in DIMENSIONS:
        for epsilon in EPSILONS:
            found = [r for r in records if (r["d"], r["epsilon"], r["role"]) == (d, epsilon, "candidate")]
            chosen, best = found[0], min(found, key=lambda r: r["measured"])
            doubt = 4 * (chosen["relative_se"] + best["relative_se"]) * chosen["measured"]
            cells.append({"d": d, "epsilon": epsilon, "chosen": chosen["mechanism"], "best": best["mechanism"],
                          "error": chosen["measured"], "next": sorted(r["measured"] for r in found)[1]})  # fmt: skip
            if chosen["measured"] > best["measured"] + doubt:
                wrong.append((d, epsilon))
    return {"records": records, "cells": cells, "wrong_choices": wrong,
            "largest_deviation": max(abs(r["ratio"] - 1) for r in records)}  # fmt: skip


def speed(rounds: int = 7) -> dict[str, Any]:
    """Time mechanisms against numpy adding Laplace noise to the same array, in turns; best of the rounds."""
    rng = np.random.default_rng(0)
    users, d = 2000, 784
    x = rng.uniform(-1, 1, (users, d))
    entry: dict[str, Any] = {"shape": (d,), "epsilon": 4.0, "unit": "local entry", "bounds": (-1, 1)}
    tensor = entry | {"unit": "tensor"}
    weights = np.linspace(0, 0.9, d)
    cases: dict[str, Any] = {
        "DTLDP, local entry": DTLDP(**entry, points=256),
        "DTLDP, tensor": DTLDP(**tensor, points=256),
        "DTLDP, tensor, weighted": DTLDP(**tensor, points=256, weights=weights),
        "k-RR, local entry": RandomizedResponse(**entry, points=16),
        "k-RR, tensor": RandomizedResponse(**tensor),
        "staircase, local entry": Staircase(**entry),
        "staircase, tensor": Staircase(**tensor),
        "piecewise, local entry": Piecewise(**entry),
        "hybrid, local entry": Hybrid(**entry),
        "hybrid, tensor (coordinates picked)": Hybrid(**tensor),
        "exact Gaussian, tensor": ExactGaussian(**tensor, delta=1e-5),
        "PrivUnitG, tensor": PrivUnitG(**tensor),
        "PrivUnit, tensor": PrivUnit(**tensor),
    }
    for mechanism in cases.values():
        mechanism.perturb(x[:50])
    times: dict[str, list[float]] = {name: [] for name in ["numpy", *cases]}
    for _ in range(rounds):
        times["numpy"].append(seconds(lambda: x + rng.laplace(0, 0.5, x.shape)))
        for name, mechanism in cases.items():
            times[name].append(seconds(lambda m=mechanism: m.perturb(x)))
    best = {name: min(values) for name, values in times.items()}
    ratios = {name: best[name] / best["numpy"] for name in cases}
    print(json.dumps(ratios, indent=1), flush=True)
    return {"users": users, "d": d, "nanoseconds_per_entry": {n: s / x.size * 1e9 for n, s in best.items()},
            "over_numpy": ratios, "privunit_100000": privunit_100000()}  # fmt: skip


def privunit_100000() -> dict[str, float]:
    """Time PrivUnit on 100,000 reports of 784 entries against numpy's Laplace noise on the same array."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (100_000, 784))
    out = np.empty_like(x)
    mechanism = PrivUnit(shape=(784,), epsilon=4.0, unit="tensor", bounds=(-1, 1))
    mechanism.perturb(x[:50])
    ours, numpys = [], []
    for _ in range(2):
        numpys.append(seconds(lambda: x + rng.laplace(0, 0.5, x.shape)))
        ours.append(seconds(lambda: mechanism.perturb(x, out=out)))
    found = {"seconds": min(ours), "numpy_seconds": min(numpys), "over_numpy": min(ours) / min(numpys)}
    print(found, flush=True)
    return found


def million() -> dict[str, Any]:
    """Perturb a million reports of 784 bytes from disk and average them in one call, watching memory."""
    with tempfile.TemporaryDirectory() as folder:
        people = np.lib.format.open_memmap(
            Path(folder) / "people.npy", mode="w+", dtype=np.uint8, shape=(1_000_000, 784)
        )
        for start in range(0, len(people), 50_000):
            people[start : start + 50_000] = np.random.default_rng(start).integers(
                0, 256, (50_000, 784), dtype=np.uint8
            )
        results = {}
        for mechanism in (
            Hybrid(shape=(784,), epsilon=4.0, unit="tensor", bounds=(0, 255)),
            DTLDP(shape=(784,), epsilon=1.0, unit="local entry", bounds=(0, 255), points=256),
        ):
            mechanism.perturb(people[:10])
            tracemalloc.start()
            start = time.perf_counter()
            estimate = mean_of(mechanism.stream(people), (784,))
            spent = time.perf_counter() - start
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            truth = np.zeros(784)
            for start_row in range(0, len(people), 50_000):
                truth += people[start_row : start_row + 50_000].sum(axis=0, dtype=np.float64)
            z = (estimate.mean - truth / len(people)) / estimate.standard_error
            results[type(mechanism).__name__] = {
                "seconds": spent,
                "peak_mb": peak / 2**20,
                "largest_z": float(np.abs(z).max()),
            }
            print(type(mechanism).__name__, results[type(mechanism).__name__], flush=True)
        return results


def lower_bound(first: int, second: int, n: int, confidence: float = 0.999) -> float:
    """Bound epsilon from below by Clopper-Pearson: an event seen ``first`` and ``second`` times in n draws each."""
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, first, n - first + 1) if first else 0.0
    high = stats.beta.ppf(1 - tail, second + 1, n - second) if second < n else 1.0
    return math.log(low / high) if low > high else 0.0


def weights() -> dict[str, Any]:
    """Weighted mechanisms on MNIST with public weights, and with weights read off the image: is epsilon kept?"""
    path = Path(os.environ["TENSORVEIL_DATA"]) / "mnist" / "train-images-idx3-ubyte.gz"
    with gzip.open(path) as file:
        images = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    public = np.zeros((28, 28))
    public[4:24, 4:24] = 0.8  # digits are drawn in the middle: known of the data set, not of the image
    # Two images that differ in one pixel: background in one, ink in the other.
    one = images[0].copy()
    place = tuple(int(k) for k in np.argwhere(one > 250)[0])
    two = one.copy()
    two[place] = 0
    n, rng = 200_000, np.random.default_rng(0)
    found: dict[str, Any] = {"n": n, "confidence": 0.999, "pixel": place}
    for label, kinds in {"public": public, "data": "data"}.items():
        for reading in ("algorithm", "proof"):
            mechanism = TLDP(noise="laplace", reading=reading, epsilon=1.0, shape=(28, 28), bounds=(0, 255), span=256,
                             weights=kinds)  # fmt: skip
            kept = [pixel_kept(mechanism, image, place, n, rng) for image in (two, one)]
            found[f"TLDP-L-w {reading}, {label} weights"] = lower_bound(kept[0], kept[1], n)
    for label, first, second in (("public", public, public), ("data", two / 255, one / 255)):
        found[f"DTLDP, {label} weights"] = dtldp_bound((two, first), (one, second), place, n)
    print(json.dumps(found, indent=1), flush=True)
    return found


def pixel_kept(mechanism: TLDP, image: Any, place: tuple[int, int], n: int, rng: np.random.Generator) -> int:
    """Count draws in which the pixel comes out as exactly 0, its value in the second image."""
    keep = mechanism._keeps(image.astype(float))
    chance = float(keep[place]) if isinstance(keep, np.ndarray) else float(keep)
    noisy = np.where(rng.random(n) > chance, rng.laplace(0, mechanism.scale, n), 0.0) + float(image[place])
    return int(np.count_nonzero(noisy == 0.0))


def dtldp_bound(first: Any, second: Any, place: tuple[int, int], n: int) -> float:
    """Bound the epsilon of a weighted DTLDP (unit tensor, epsilon 1) by one pixel: answers below t, or other than t.

    Many events are tried, so each is held to a higher confidence.
    """
    answers = []
    for image, given in (first, second):
        mechanism = DTLDP(shape=(28, 28), epsilon=1.0, unit="tensor", bounds=(0, 255), points=256,
                          weights=np.minimum(given, 1.0))  # fmt: skip
        pixel = np.concatenate([
            mechanism.perturb(np.broadcast_to(image, (2000, 28, 28)))[(slice(None), *place)] for _ in range(n // 2000)
        ])  # fmt: skip
        answers.append(pixel)
    bounds = []
    for threshold in np.quantile(answers[1], np.linspace(0, 1, 21)):
        a, b = (int(np.count_nonzero(found != threshold)) for found in answers)
        c, d = (int(np.count_nonzero(found <= threshold)) for found in answers)
        bounds += [lower_bound(a, b, n, EACH), lower_bound(c, d, n, EACH), lower_bound(n - c, n - d, n, EACH)]
    return max(bounds)


def markdown(results: dict[str, Any]) -> str:
    """Write the tables that docs/how-to/local.md and docs/published.md show."""
    lines = ["# Local mechanisms", ""]
    if "errors" in results:
        cells = results["errors"]["cells"]
        lines += ["| d | " + " | ".join(f"epsilon {e:g}" for e in EPSILONS) + " |", "|---" * (len(EPSILONS) + 1) + "|"]
        for d in DIMENSIONS:
            row = [next(c for c in cells if (c["d"], c["epsilon"]) == (d, e)) for e in EPSILONS]
            lines.append(f"| {d} | " + " | ".join(f"{c['chosen']} {c['error']:.3g}" for c in row) + " |")
        lines += ["", f"Largest deviation from a closed form: {results['errors']['largest_deviation']:.2%}; "
                  f"choices that were not the best: {results['errors']['wrong_choices']}.", ""]  # fmt: skip
    if "speed" in results:
        found = results["speed"]["over_numpy"] | {
            "PrivUnit, 100,000 reports": results["speed"]["privunit_100000"]["over_numpy"]
        }
        lines += ["| mechanism, d = 784 | time over numpy's Laplace noise |", "|---|---|"]
        lines += [f"| {name} | {ratio:.2f} |" for name, ratio in found.items()] + [""]
    for name, record in results.get("million", {}).items():
        lines.append(
            f"A million reports of 784 entries, {name}: {record['seconds']:.0f} s, peak {record['peak_mb']:.0f} MB."
        )
    return "\n".join(lines) + "\n"


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    options = parser.parse_args()
    path = RESULTS / "local.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    work = {"errors": errors, "speed": speed, "million": million, "weights": weights}
    for part in options.parts:
        results[part] = work[part]()
        RESULTS.mkdir(exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "local.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
