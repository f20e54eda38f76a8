"""Results as a table in Markdown, as JSON, and as a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOLVERS = ("sgd", "als")


def write(results: dict[str, Any], folder: Path) -> None:
    """Write speed.json, speed.md and, if matplotlib is installed, speed.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "speed.md").write_text(markdown(results))
    if "scaling" in results:
        plot(results["scaling"], folder / "speed.svg")


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
    return "\n".join(lines) + "\n"


def _each(ratios: list[float]) -> str:
    return ", ".join(f"{r:.2f}" for r in ratios)


def markdown(results: dict[str, Any]) -> str:
    """All parts that were measured, as Markdown."""
    parts = [
        "# Speed, measured",
        "",
        f"{results['threads']} threads, rank 16 unless said otherwise. Peer and ours took turns in the same run; the",
        "best of all repeats counts. Seconds are of a shared machine; trust the ratios.",
        "",
    ]
    sections = {"splatt": _splatt, "cmfrec": _cmfrec, "tucker": _tucker, "machine": _machine, "scaling": _scaling}
    for name, section in sections.items():
        if name in results:
            parts.append(section(results[name]))
    parts += [f"Not measured: {reason}\n" for reason in results.get("skipped", [])]
    return "\n".join(parts)


def _splatt(records: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["problem"], r["dtype"], r["solver"], f"{r['ours']:.3f}", f"{r['peer_epoch']:.3f}",
            f"{r['peer_pass']:.3f}" if r["peer_pass"] else "",
            f"**{r['ratio_epoch']:.2f}** ({_each(r['ratio_epoch_each_round'])})", f"{r['ratio_with_loss']:.2f}",
            f"{r['ratio_pass']:.2f}" if r["ratio_pass"] else "", f"{r['memory_mb']:.0f} / {r['peer_memory_mb']:.0f}",
            f"**{r['ratio_memory']:.2f}**",
            f"{r['build']:.1f}",
        ]
        for r in records
    ]  # fmt: skip
    header = [
        "problem", "dtype", "solver", "ours (s)", "SPLATT epoch (s)", "SPLATT pass (s)", "pass / epoch (each round)",
        "pass + loss / epoch", "pass / pass", "peak memory (MB)", "ratio", "layout (s)",
    ]  # fmt: skip
    note = (
        "An epoch of SPLATT ends with an evaluation of the loss, which our pass returns on the way (SGD, before each "
        "update; ALS, from the normal equations). *SPLATT pass* is its epoch without the loss (known for ALS only), "
        "*pass + loss* is ours with a separate evaluation.\n"
    )
    return "## CP against SPLATT\n\n" + _table(header, rows) + "\n" + note


def _cmfrec(records: list[dict[str, Any]]) -> str:
    rows = [
        [r["dtype"], f"{r['ours']:.4f}", f"{r['peer']:.4f}", f"**{r['ratio']:.2f}** ({_each(r['ratio_each_round'])})"]
        for r in records
    ]
    title = "## Matrix 10,000 x 5,000, 5 M ratings: ALS against cmfrec, seconds per iteration\n\n"
    return title + _table(["dtype", "ours", "cmfrec", "ratio (each round)"], rows)


def _tucker(records: list[dict[str, Any]]) -> str:
    rows = [
        [r["dtype"], f"{r['cp']:.4f}", f"{r['tucker']:.4f}", f"**{r['ratio']:.1f}** ({_each(r['ratio_each_round'])})"]
        for r in records
    ]
    title = "## Tucker SGD against CP SGD, rank 8, T2, seconds per pass\n\n"
    return title + _table(["dtype", "CP", "Tucker", "ratio (each round)"], rows)


def _machine(record: dict[str, Any]) -> str:
    limits = [
        ["streaming (triad)", f"{record['limits']['stream_bytes'] / 1e9:.1f} GB/s"],
        ["random rows of 64 bytes gathered", f"{record['limits']['row_gathers'] / 1e6:.0f} M/s"],
        ["float32 multiply-adds", f"{record['limits']['multiply_adds_float32'] / 1e9:.0f} G/s"],
    ]
    rows = [[k.replace("_", " "), f"{x:.2f}"] for k, x in record["fractions"].items()]
    text = "## The machine's own limits, same run\n\n" + _table(["limit", "measured"], limits)
    return text + "\nReached by our float32 passes on T2:\n\n" + _table(["", "fraction"], rows)


def _scaling(record: dict[str, Any]) -> str:
    text = "## Growth\n\n"
    for size in ("entries", "rank"):
        points = record[size]
        rows = [[f"{p[size]:,}", *(f"{p[s]:.4f}" for s in SOLVERS)] for p in points]
        text += _table([size, *(f"{s} (s)" for s in SOLVERS)], rows)
        text += (
            f"\nExponent over {size}: " + ", ".join(f"{s} {record['slopes'][size][s]:.2f}" for s in SOLVERS) + "\n\n"
        )
    return text + "(1 is linear; ALS has a part that grows with the square of the rank.)\n"


def plot(record: dict[str, Any], path: Path) -> None:
    """Seconds per pass over entries and over rank."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, size in zip(axes, ("entries", "rank"), strict=True):
        x = [p[size] for p in record[size]]
        for solver in SOLVERS:
            axis.plot(x, [p[solver] for p in record[size]], "o-", label=solver)
        axis.set(xlabel=size, ylabel="seconds per pass", xlim=(0, None), ylim=(0, None))
        axis.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
