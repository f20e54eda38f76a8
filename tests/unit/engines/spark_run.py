"""A user-level fit on Spark, in a process of its own: a process has one JVM. Prints the digest of what it released."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tests.unit.engines.store_cases import by_entry, by_value, digest, estimator, open_fit, planted

OPEN: dict[str, Any] = {
    "bayes": tv.CP(3, sweeps=10, random_state=0, threads=1),
    "tucker": tv.Tucker((3, 2, 2), solver="als", sweeps=4, dtype="float64", random_state=0, threads=1),
}


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
        for name, fit in OPEN.items():
            np.save(place / f"{name}.npy", fit.fit(stored, engine=engine).predict(planted().coords))
        print("digest none")
        return
    if method in ("margins", "staged"):
        fitted = by_value(method=method).fit(stored, engine=engine)
    elif method in ("crosstabs", "gram"):
        fitted = by_entry(method=method).fit(stored, engine=engine)
    else:
        fitted = estimator(method=method).fit(stored, engine=engine, checkpoint=place / "c")
    print("digest", digest(fitted, place))


if __name__ == "__main__":
    main(*sys.argv[1:])
