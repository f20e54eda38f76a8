"""python -m benchmarks [splatt cmfrec tucker machine scaling]: measure, and write benchmarks/results/."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import cmfrec, report, scaling, splatt
from benchmarks.process import work

PARTS = ("splatt", "cmfrec", "tucker", "machine", "scaling")
DTYPES = ("float32", "float64")
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure the parts asked for; results of other parts from earlier runs are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="how often peer and ours take turns")
    parser.add_argument("--data", type=Path, help="folder for the generated tensors (default: temporary)")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown parts {sorted(unknown)}; choose from {', '.join(PARTS)}")
    earlier = RESULTS / "speed.json"
    results: dict[str, Any] = json.loads(earlier.read_text()) if earlier.exists() else {}
    results |= {"threads": options.threads, "skipped": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for part in PARTS:
            if part in options.parts:
                print(f"measuring {part} ...", flush=True)
                measure(part, folder, options.threads, options.rounds, results)
                report.write(results, RESULTS)
    print(report.markdown(results))


def tensor(folder: Path, name: str) -> str:
    """Path of a generated tensor, made if it is not there yet."""
    path = folder / f"{name}.bin"
    if not path.exists():
        work("make", name=name, path=str(path))
    return str(path)


def measure(part: str, folder: Path, threads: int, rounds: int, results: dict[str, Any]) -> None:
    """Add one part to the results, or say why it was skipped."""
    if part == "splatt":
        usable = [d for d in DTYPES if splatt.binary(d)]
        results["skipped"] += [f"SPLATT {d}: set {splatt.VARIABLES[d]}" for d in DTYPES if d not in usable]
        pairs = [(name, dtype) for name in ("T2", "T3") for dtype in usable]
        if pairs:
            found = [splatt.compare(tensor(folder, n), n, d, 16, threads, rounds) for n, d in pairs]
            results["splatt"] = [record for records in found for record in records]
    elif part == "cmfrec":
        if cmfrec.available():
            path = tensor(folder, "matrix")
            results["cmfrec"] = [cmfrec.compare(path, d, 16, threads, rounds) for d in DTYPES]
        else:
            results["skipped"].append("cmfrec: pip install cmfrec")
    elif part == "tucker":
        results["tucker"] = [scaling.tucker(tensor(folder, "T2"), d, threads, rounds) for d in DTYPES]
    elif part == "machine":
        results["machine"] = _machine(tensor(folder, "T2"), threads)
    else:
        entries = scaling.by_entries(folder, "T2", (2_500_000, 5_000_000, 10_000_000, 20_000_000), threads)
        rank = scaling.by_rank(tensor(folder, "T2"), threads)
        found = {"entries": entries, "rank": rank}
        slopes = {n: {s: scaling.slope(points, n, s) for s in report.SOLVERS} for n, points in found.items()}
        results["scaling"] = found | {"slopes": slopes}


def _machine(path: str, threads: int) -> dict[str, Any]:
    """Limits before and after our own passes, the better of each; rows as many as T2 has."""
    settings = {"path": path, "dtype": "float32", "rank": 16, "threads": threads}
    first = work("machine", threads=threads, rows=15_500)
    seconds = {solver: min(work(solver, **settings, repeats=6)["passes"]) for solver in report.SOLVERS}
    second = work("machine", threads=threads, rows=15_500)
    limits = {k: max(first[k], second[k]) for k in ("stream_bytes", "row_gathers", "multiply_adds_float32")}
    reached = work("fractions", limits=limits, order=3, entries=10_000_000, rank=16, **seconds)
    reached.pop("peak_mb")
    return {"limits": limits, "fractions": reached}


if __name__ == "__main__":
    main()
