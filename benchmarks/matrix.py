"""Matrix completion measured: true Laplace noise, speed against dense forms, and scale.

    python -m benchmarks.matrix                   everything; about 40 minutes on two cores
    python -m benchmarks.matrix laplace speed     some parts: laplace speed scale entries

The published tables are `tensorveil study guo-table-1 guo-table-2`.

Results go to benchmarks/results/: matrix.json (numbers), matrix.md (tables), matrix-laplace.svg, matrix-scale.svg.
Parts not measured in a run keep their earlier numbers. This process imports no numerical library before all is
measured: a child's peak memory counts its parent's size at the moment it was started.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import matrix_report
from benchmarks.process import run

RESULTS = Path(__file__).parent / "results"
PARTS = ("laplace", "speed", "scale", "entries")
EPSILONS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SEEDS, SWEEPS = 5, 400
ROWS = (125_000, 250_000, 500_000, 1_000_000)


def work(task: str, blas: int, /, **arguments: Any) -> dict[str, Any]:
    """Run one task in a process of its own, with so many threads in numpy's own routines."""
    environment = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(blas))
    done = run([sys.executable, "-m", "benchmarks.matrix_worker", task, json.dumps(arguments)], environment)
    found: dict[str, Any] = json.loads(done.output.strip().splitlines()[-1])
    return found | {"peak_mb": done.peak_mb}


def laplace(seeds: int) -> dict[str, Any]:
    """True Laplace noise at every epsilon of table 2."""
    return {
        f"{epsilon:g}": [work("laplace", 1, size=1000, seed=100 + seed, epsilon=epsilon) for seed in range(seeds)]
        for epsilon in noted(EPSILONS)
    }


def speed(rounds: int) -> list[dict[str, Any]]:
    """Ours and the dense form in turns, 2000 x 2000, 400 sweeps."""
    found = []
    settings = {"size": 2000, "seed": 0, "sweeps": SWEEPS}
    for threads in noted((1, 2)):
        for _ in range(rounds):
            for solver, form in (
                ("dlnm_qr", "ours"), ("dlnm_qr", "dense"), ("sor", "ours"), ("sor", "dense"), ("altmin", "ours"),
            ):  # fmt: skip
                one = {"solver": solver, "form": form, "threads": threads}
                found.append(one | work("speed", threads, **settings, **one))
    return found


def scale() -> list[dict[str, Any]]:
    """Matrices of growing size with 50 entries in every row, up to a million rows; float32, 20 sweeps."""
    return [
        {"solver": solver, "rows": rows, "columns": rows // 10}
        | work("scale", 2, rows=rows, columns=rows // 10, per_row=50, solver=solver, sweeps=20, threads=2)
        for solver in ("dlnm_qr", "sor", "altmin")
        for rows in noted(ROWS)
    ]


def entries() -> list[dict[str, Any]]:
    """A million rows by a hundred thousand columns with more and more entries; DLNM_QR has the same passes as SOR."""
    return [
        {"solver": "sor", "rows": ROWS[-1], "columns": ROWS[-1] // 10}
        | work("scale", 2, rows=ROWS[-1], columns=ROWS[-1] // 10, per_row=per_row, solver="sor", sweeps=6, threads=2)
        for per_row in noted((6, 12, 25, 50))
    ]


def noted(cases: Iterable[Any]) -> Iterable[Any]:
    """Say where we are."""
    for case in cases:
        print(f"  {case}", file=sys.stderr, flush=True)
        yield case


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--rounds", type=int, default=3, help="how often ours and the dense form take turns")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown parts {sorted(unknown)}; choose from {', '.join(PARTS)}")
    path = RESULTS / "matrix.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    measures = {
        "laplace": lambda: laplace(options.seeds),
        "speed": lambda: speed(options.rounds),
        "scale": scale,
        "entries": entries,
    }
    for part in PARTS:
        if part in options.parts:
            print(f"measuring {part} ...", file=sys.stderr, flush=True)
            results[part] = measures[part]()
            matrix_report.write(results, RESULTS)
    matrix_report.draw(results, RESULTS)
    print(matrix_report.markdown(results))


if __name__ == "__main__":
    main()
