"""Spark's own ALS (pyspark.ml) and ours on the same ratings, and the private fit for whole users beside them.

    python -m benchmarks.spark_als --folder /tmp/spark-als [--ratings 10000000] [--spark 'local[2]']

Ratings are planted: biases, components of rank 8, noise; rounded and cut to 1 to 5; films by popularity. Every fit runs
in a process of its own, in turns. Time per sweep is that of a long fit less that of a short one, over the sweeps
between, so that neither starting Spark nor sorting entries counts. Regularization is chosen on a validation part; the
error is that on a third part, where predictions of all are cut to 1 to 5. Spark gets ratings less their mean, as ours
sees them: it has no constant of its own. Its penalty on a row grows with the row's ratings, and so does ours here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

USERS, FILMS, RANK = 70_000, 10_000, 16
SHORT, LONG = 2, 8
SPARK_GRID, OUR_GRID = (0.015, 0.03, 0.06), (0.03, 0.045, 0.06)
RESULTS = Path(__file__).parent / "results" / "spark-als.json"


def generate(folder: Path, ratings: int) -> None:
    """Write training, validation and test ratings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    user = (USERS * rng.random(ratings) ** 1.5).astype(np.int32)
    film = rng.permutation(FILMS)[(FILMS * rng.random(ratings) ** 2.5).astype(np.int64)].astype(np.int32)
    cells = np.unique(user.astype(np.int64) * FILMS + film)
    user, film = (cells // FILMS).astype(np.int32), (cells % FILMS).astype(np.int32)
    value = 3.5 + rng.normal(0, 0.4, USERS)[user] + rng.normal(0, 0.4, FILMS)[film]
    for _ in range(8):
        value += 0.2 * rng.normal(size=USERS)[user] * rng.normal(size=FILMS)[film]
    value = np.clip(np.round(value + rng.normal(0, 0.75, len(value))), 1, 5)
    part = rng.random(len(value))
    for name, low, high in (("train", 0.0, 0.9), ("validation", 0.9, 0.95), ("test", 0.95, 1.0)):
        here = rng.permutation(np.flatnonzero((part >= low) & (part < high)))
        pq.write_table(
            pa.table({"user": user[here], "film": film[here], "rating": value[here].astype(np.float32)}),
            folder / f"{name}.parquet",
        )


def read(folder: Path, name: str):
    """Return users, films and ratings."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / f"{name}.parquet")
    return [table.column(k).to_numpy() for k in range(3)]


def error(folder: Path, name: str, predicted: np.ndarray) -> float:
    """Return the root mean squared error on a part."""
    return float(np.sqrt(np.mean((np.clip(predicted, 1, 5) - read(folder, name)[2]) ** 2)))


def spark_fit(folder: Path, master: str, sweeps: int, strength: float) -> dict:
    """Fit by pyspark.ml; wall and CPU seconds of the fit alone, the JVM's included."""
    import psutil
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(master)
        .config("spark.driver.memory", "4g").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "8").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )  # fmt: skip
    session.sparkContext.setLogLevel("ERROR")
    mean = float(np.mean(read(folder, "train")[2]))
    train = session.read.parquet(str(folder / "train.parquet")).selectExpr(
        "user", "film", f"cast(rating - {mean} as float) rating"
    )
    train.cache().count()

    def cpu() -> float:
        here = psutil.Process()
        return sum(sum(each.cpu_times()[:2]) for each in (here, *here.children(recursive=True)))

    als = ALS(
        rank=RANK, maxIter=sweeps, regParam=strength, userCol="user", itemCol="film", ratingCol="rating", seed=0,
        checkpointInterval=-1,
    )  # fmt: skip
    start, used = time.perf_counter(), cpu()
    model = als.fit(train)
    model.userFactors.count()
    found = {"fit_s": time.perf_counter() - start, "fit_cpu_s": cpu() - used}
    factors = []
    for frame, size in ((model.userFactors, USERS), (model.itemFactors, FILMS)):
        table = frame.toArrow()
        factor = np.zeros((size, RANK), np.float32)
        factor[table.column("id").to_numpy()] = np.stack(table.column("features").to_numpy(zero_copy_only=False))
        factors.append(factor)
    session.stop()
    for name in ("validation", "test"):
        user, film, _ = read(folder, name)
        found[name] = error(folder, name, mean + np.einsum("nr,nr->n", factors[0][user], factors[1][film]))
    return found


def our_fit(folder: Path, sweeps: int, strength: float, threads: int, solver: str = "als") -> dict:
    """Fit by tensorveil; the variational solver, the default one, needs no strength."""
    import tensorveil as tv

    user, film, rating = read(folder, "train")
    tensor = tv.ObservedTensor.from_columns(np.stack([user, film]), rating, (USERS, FILMS))
    own = {"regularization_per_entry": strength, "dtype": "float32"} if solver == "als" else {}
    als = tv.LowRankMatrix(RANK, solver=solver, sweeps=sweeps, tol=0.0, random_state=0, threads=threads, **own)
    warm = tv.synthetic_cp((300, 200), 2, dtype=np.float32, random_state=0).train
    tv.LowRankMatrix(RANK, solver=solver, sweeps=2, random_state=0, threads=threads, **own).fit(warm)
    start, used = time.perf_counter(), time.process_time()
    als.fit(tensor)
    found = {"fit_s": time.perf_counter() - start, "fit_cpu_s": time.process_time() - used}
    for name in ("validation", "test"):
        user, film, _ = read(folder, name)
        found[name] = error(folder, name, als.predict(np.stack([user, film], axis=1)))
    return found


def private_fit(folder: Path, epsilon: float, threads: int) -> dict:
    """Fit privately for whole users, and serve each from their own ratings."""
    import warnings

    import tensorveil as tv

    warnings.simplefilter("ignore")
    rules = {"bounds": (1, 5), "shape": (USERS, FILMS)}
    user, film, rating = read(folder, "train")
    options = {"modes": ("user", "film"), "duplicates": "keep"}
    tensor = tv.ObservedTensor.from_columns(np.stack([user, film]), rating.astype(float), (USERS, FILMS), **options)
    fitted = tv.UserLevelMatrix(
        RANK, epsilon=epsilon, delta=1e-6, unit="slice:user", noise_seed=0, random_state=0, threads=threads, **rules
    )
    start, used = time.perf_counter(), time.process_time()
    fitted.fit(tensor)
    found = {"fit_s": time.perf_counter() - start, "fit_cpu_s": time.process_time() - used}
    user, film, _ = read(folder, "test")
    found["test"] = error(folder, "test", fitted.predict_for(tensor, np.stack([user, film], axis=1)))
    return found


def main() -> None:
    """Choose settings, then time both in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ratings", type=int, default=12_000_000, help="drawn; about an eighth falls on others")
    parser.add_argument("--spark", default="local[2]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    if options.here:
        kind, sweeps, strength = json.loads(options.here)
        if kind == "generate":
            found = generate(options.folder, options.ratings) or {}
        elif kind == "spark":
            found = spark_fit(options.folder, options.spark, sweeps, strength)
        elif kind == "private":
            found = private_fit(options.folder, strength, options.threads)
        elif kind == "bayes":
            found = our_fit(options.folder, sweeps, strength, options.threads, "bayes")
        else:
            found = our_fit(options.folder, sweeps, strength, options.threads)
        print(json.dumps({"kind": kind, "sweeps": sweeps, "strength": strength, **found}))
        return

    def run(kind: str, sweeps: int = 0, strength: float = 0.0) -> dict:
        words = [sys.executable, "-m", "benchmarks.spark_als", *sys.argv[1:], "--here"]
        done = subprocess.run(
            [*words, json.dumps([kind, sweeps, strength])], stdout=subprocess.PIPE, text=True, check=True
        )
        line = done.stdout.strip().splitlines()[-1]
        print(line, flush=True)
        return json.loads(line)

    run("generate")
    chosen, tuning = {}, []
    for kind, grid in (("spark", SPARK_GRID), ("ours", OUR_GRID)):
        tried = [run(kind, LONG, strength) for strength in grid]
        tuning += tried
        chosen[kind] = min(tried, key=lambda each: each["validation"])["strength"]
    times: dict[str, list[dict]] = {"spark": [], "ours": []}
    for _ in range(options.rounds):
        for kind, strength in chosen.items():
            short, long = (run(kind, sweeps, strength) for sweeps in (SHORT, LONG))
            each = {name: (long[name] - short[name]) / (LONG - SHORT) for name in ("fit_s", "fit_cpu_s")}
            times[kind].append({"per_sweep_s": each["fit_s"], "per_sweep_cpu_s": each["fit_cpu_s"], **long})
    bayes = [run("bayes", sweeps) for sweeps in (SHORT, LONG)]
    private = [run("private", 0, epsilon) for epsilon in (1.0, 5.0)]
    ratios = {
        name: min(each[name] for each in times["ours"]) / min(each[name] for each in times["spark"])
        for name in ("per_sweep_s", "per_sweep_cpu_s")
    }
    facts = {
        "ratings": len(read(options.folder, "train")[2]), "rank": RANK, "chosen": chosen, "tuning": tuning,
        "times": times, "bayes": bayes, "private": private, "ratio": ratios,
    }  # fmt: skip
    RESULTS.write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
