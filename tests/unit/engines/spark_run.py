"""A user-level fit on Spark, in a process of its own: a process has one JVM. Prints the digest of what it released."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tests.unit.engines.store_cases import by_entry, digest, estimator, open_fit, planted


def main(master: str, folder: str, method: str) -> None:
    place = Path(folder)
    engine: Any = f"spark:{master}"
    if master.startswith("connect:"):
        from pyspark.sql import SparkSession

        engine = SparkSession.builder.remote(master.removeprefix("connect:")).getOrCreate()
    stored = tv.StoredTensor.open(place / ("open" if method == "als" else "store"))
    if method == "als":
        fitted = open_fit(dtype="float64").fit(stored, engine=engine)
        np.save(place / "als.npy", fitted.predict(planted().coords))
        print("digest none")
        return
    if method in ("crosstabs", "gram"):
        fitted = by_entry(method=method).fit(stored, engine=engine)
    else:
        fitted = estimator(method=method).fit(stored, engine=engine, checkpoint=place / "c")
    print("digest", digest(fitted, place))


if __name__ == "__main__":
    main(*sys.argv[1:])
