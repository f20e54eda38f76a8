"""What benchmarks.matrix found, as tables in Markdown, as JSON and as figures."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

# Seconds at 2000 x 2000 in table 1 of Guo (2025).
PRINTED_SECONDS = {"sor": 395.8, "dlnm_qr": 17.4, "altmin": 21727.0}
TITLES = {"sor": "SOR", "dlnm_qr": "DLNM_QR", "altmin": "AM"}


def write(results: dict[str, Any], folder: Path) -> None:
    """Write matrix.json and matrix.md."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "matrix.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "matrix.md").write_text(markdown(results))


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw the figures, if matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    if "laplace" in results:
        _plot_laplace(results["laplace"], folder / "matrix-laplace.svg")
    if "scale" in results:
        fixed = [r | {"solver": "sor, one shape"} for r in results.get("entries", [])]
        _plot_scale(results["scale"] + fixed, folder / "matrix-scale.svg")


def markdown(results: dict[str, Any]) -> str:
    """All parts that were measured."""
    sections = {"laplace": _laplace, "speed": _speed, "scale": _scale, "entries": _entries}
    text = "# Matrix completion, measured\n\n"
    return text + "\n".join(section(results[name]) for name, section in sections.items() if name in results)


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
    return "\n".join(lines) + "\n"


def _mean(records: list[dict[str, Any]], solver: str, what: str) -> tuple[float, float]:
    """Mean and standard error over seeds."""
    found = [record[solver][what] for record in records]
    spread = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return statistics.fmean(found), spread


def _laplace(record: dict[str, Any]) -> str:
    names = list(next(iter(record.values()))[0])
    names = [name for name in names if name != "peak_mb"]
    rows = []
    for name in names:
        cells = []
        for records in record.values():
            mean, error = _mean(records, name, "rse")
            cells.append(f"{mean:.4f} ± {error:.4f}")
        rows.append([name, *cells])
    ranks = [
        f"{epsilon}: {sorted(r['bayes, rank auto']['rank'] for r in records)}" for epsilon, records in record.items()
    ]
    seeds = len(next(iter(record.values())))
    head = (
        f"## True Laplace noise of scale 1/epsilon, 1000 x 1000, 15 % observed, RSE of the estimate, {seeds} seeds\n\n"
    )
    return head + table(["", *record], rows) + f'\nRanks found by `rank="auto"`: {"; ".join(ranks)}.\n'


def best(records: list[dict[str, Any]], solver: str, form: str, threads: int, what: str) -> float:
    """Least of all rounds."""
    return min(r[what] for r in records if (r["solver"], r["form"], r["threads"]) == (solver, form, threads))


def _speed(records: list[dict[str, Any]]) -> str:
    rows = []
    for threads in sorted({r["threads"] for r in records}):
        fastest = best(records, "dlnm_qr", "ours", threads, "cpu")
        for solver in ("dlnm_qr", "sor", "altmin"):
            ours = {what: best(records, solver, "ours", threads, what) for what in ("seconds", "cpu")}
            cells = ["", "", ""]
            if solver != "altmin":
                plain = {what: best(records, solver, "dense", threads, what) for what in ("seconds", "cpu")}
                ratios = [f"**{ours[what] / plain[what]:.2f}**" for what in ("seconds", "cpu")]
                cells = [f"{plain['seconds']:.2f}", *ratios]
            printed = PRINTED_SECONDS[solver] / PRINTED_SECONDS["dlnm_qr"]
            times = [f"{ours['cpu'] / fastest:.1f}", f"{printed:.0f}"]
            rows.append([str(threads), TITLES[solver], f"{ours['seconds']:.2f}", *cells, *times])
    rounds = sum(1 for r in records if (r["solver"], r["form"], r["threads"]) == ("sor", "ours", 1))
    head = f"## Speed: 2000 x 2000, 400 sweeps, float64, best of {rounds} rounds in turns\n\n"
    header = [
        "threads", "method", "ours (s)", "dense NumPy (s)", "ratio", "ratio of CPU time", "CPU time over DLNM_QR's",
        "printed",
    ]  # fmt: skip
    return head + table(header, rows)


def _scale(records: list[dict[str, Any]]) -> str:
    return "## Scale: 50 entries per row, rank 10, 2 threads\n\n" + _growth(records)


def _entries(records: list[dict[str, Any]]) -> str:
    return "## More entries in one matrix, rank 10, 2 threads\n\n" + _growth(records)


def _growth(records: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["solver"], f"{r['rows']:,} x {r['columns']:,}", f"{r['entries'] / 1e6:g} M", f"{r['sweep']:.2f}",
            f"{r['cpu']:.2f}", f"{1e9 * r['cpu'] / r['entries']:.0f}", str(r["sweeps"]), f"{r['seconds']:.0f}",
            f"{r['peak_mb'] / 1024:.2f}", f"{r['rse']:.4f}",
        ]
        for r in records
    ]  # fmt: skip
    header = [
        "solver", "matrix", "entries", "s per sweep", "CPU s per sweep", "CPU ns per entry", "sweeps", "whole fit (s)",
        "peak GB", "RSE",
    ]  # fmt: skip
    return (
        table(header, rows)
        + "\nExponent of the growth of CPU time: "
        + ", ".join(f"{solver} {slope:.2f}" for solver, slope in slopes(records).items())
        + " (1 is linear).\n"
    )


def slopes(records: list[dict[str, Any]]) -> dict[str, float]:
    """Exponent of a sweep's CPU time between the smallest and the largest matrix, by solver."""
    out = {}
    for solver in dict.fromkeys(r["solver"] for r in records):
        points = [r for r in records if r["solver"] == solver]
        first, last = points[0], points[-1]
        out[solver] = math.log(last["cpu"] / first["cpu"]) / math.log(last["entries"] / first["entries"])
    return out


def _plot_laplace(record: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    epsilons = [float(epsilon) for epsilon in record]
    shown = {
        "bayes": "o-", "bayes, Laplace law known": "D-", "bayes, rank auto": "x", "dlnm_qr": "s--", "sor": "^--",
        "altmin": "v--", "constant": "k:", "information limit": "k-.",
    }  # fmt: skip
    for name, style in shown.items():
        found = [_mean(records, name, "rse") for records in record.values()]
        axis.errorbar(epsilons, [m for m, _ in found], yerr=[e for _, e in found], fmt=style, label=name, ms=4, lw=1)
    axis.set(xscale="log", yscale="log", xlabel="epsilon (Laplace noise of scale 1/epsilon)", ylabel="RSE")
    axis.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _plot_scale(records: list[dict[str, Any]], path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for solver in dict.fromkeys(r["solver"] for r in records):
        points = [r for r in records if r["solver"] == solver]
        entries = [r["entries"] / 1e6 for r in points]
        axes[0].plot(entries, [r["cpu"] for r in points], "o-", label=solver)
        axes[1].plot(entries, [r["peak_mb"] / 1024 for r in points], "o-", label=solver)
    axes[0].set(xlabel="entries (millions)", ylabel="CPU seconds per sweep", xscale="log", yscale="log")
    axes[1].set(xlabel="entries (millions)", ylabel="peak memory (GB)", xlim=(0, None), ylim=(0, None))
    axes[0].legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
