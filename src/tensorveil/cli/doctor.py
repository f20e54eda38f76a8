"""`tensorveil doctor`: what this installation can do here, and what it lacks."""

from __future__ import annotations

import os
import platform
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import click

from tensorveil import __version__
from tensorveil.cli.common import common_options, console, print_json

CORE = ("numpy", "scipy", "numba", "llvmlite", "pyarrow", "click", "rich")
EXTRAS = {
    "pandas": "frames", "polars": "frames", "h5py": "matlab", "pillow": "images", "matplotlib": "plots",
    "tensorly": "tensorly", "flwr": "federated", "torch": "learning",
}  # fmt: skip


@click.command()
@common_options
def doctor(as_json: bool) -> None:
    """Check the installation: versions, threads, compiled kernels, data folder, extras.

    Leaves with exit code 1 if something that tensorveil needs does not work.

    \b
    Examples:
      tensorveil doctor
      tensorveil doctor --json
    """
    facts = examine()
    if as_json:
        print_json(facts)
    else:
        _show(facts)
    if facts["problems"]:
        click.get_current_context().exit(1)


def examine() -> dict[str, Any]:
    """Gather the facts as plain data."""
    versions = {name: _version(name) for name in CORE}
    problems = [f"{name} is not installed: pip install tensorveil" for name, v in versions.items() if v is None]
    kernels = _kernels()
    if kernels["error"]:
        problems.append(f"the compiled kernels do not work: {kernels['error']}")
    return {
        "tensorveil": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "threads": {"usable": _usable_cpus(), "machine": os.cpu_count()},
        "simd": _simd(),
        "kernels": kernels,
        "data": _data_folder(),
        "extras": {name: _extra(name, extra) for name, extra in EXTRAS.items()},
        "problems": problems,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _usable_cpus() -> int:
    """Count the processors that this process may use, which a container may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _simd() -> list[str]:
    """List the wide instruction sets that the compiler will use on this processor."""
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
    except Exception:  # an unusual processor is no reason to fail here
        return []
    known = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512vl", "neon", "sve")
    return [name for name in known if features.get(name)]


def _kernels() -> dict[str, Any]:
    """Run one kernel against numpy, which also shows whether the cache can be written."""
    facts: dict[str, Any] = {"error": None, "seconds": None, "cache": None, "cache_writable": None}
    try:
        import numpy as np

        from tensorveil.kernels.predict import cp_predict

        factors = [np.arange(1.0, 1.0 + 2 * size).reshape(size, 2) for size in (2, 3, 4)]
        columns = np.zeros((3, 1), dtype=np.int32)
        start = time.perf_counter()
        got = cp_predict(columns, factors, 1)
        facts["seconds"] = round(time.perf_counter() - start, 3)
        if not np.allclose(got, [1.0 + 8.0]):
            facts["error"] = "a prediction is wrong; please report this"
        folder = os.environ.get("NUMBA_CACHE_DIR") or Path(str(import_module("tensorveil.kernels").__path__[0]))
        folder = Path(folder) / "__pycache__" if "NUMBA_CACHE_DIR" not in os.environ else Path(folder)
        facts["cache"] = str(folder)
        facts["cache_writable"] = _writable(folder)
    except Exception as error:
        facts["error"] = f"{type(error).__name__}: {error}"
    return facts


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def _data_folder() -> dict[str, Any]:
    folder = os.environ.get("TENSORVEIL_DATA")
    return {"TENSORVEIL_DATA": folder, "exists": folder is not None and Path(folder).is_dir()}


def _extra(package: str, extra: str) -> dict[str, str | None]:
    version = _version(package)
    remedy = None if version else f"pip install 'tensorveil[{extra}]'"
    return {"version": version, "install": remedy}


def _show(facts: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False)
    table.add_row("tensorveil", f"{facts['tensorveil']}, Python {facts['python']}, {facts['system']}")
    table.add_row("needs", ", ".join(f"{name} {v or '[red]missing[/red]'}" for name, v in facts["versions"].items()))
    table.add_row("threads", f"{facts['threads']['usable']} usable of {facts['threads']['machine']}")
    table.add_row("SIMD", ", ".join(facts["simd"]) or "unknown")
    kernels = facts["kernels"]
    state = escape(kernels["error"] or f"work (first call {kernels['seconds']:.2f} s)")
    table.add_row("compiled kernels", f"[red]{state}[/red]" if kernels["error"] else state)
    if kernels["cache"]:
        advice = "" if kernels["cache_writable"] else " (not writable: set NUMBA_CACHE_DIR to a folder that is)"
        table.add_row("kernel cache", escape(kernels["cache"] + advice))
    folder = facts["data"]["TENSORVEIL_DATA"]
    missing = "" if facts["data"]["exists"] else " (not found)"
    table.add_row("data folder", escape(folder + missing) if folder else "not set: set TENSORVEIL_DATA to use one")
    for name, extra in facts["extras"].items():
        table.add_row(f"extra: {name}", extra["version"] or escape(f"missing: {extra['install']}"))
    out = console()
    out.print(table)
    for problem in facts["problems"]:
        out.print(f"[red]problem:[/red] {escape(problem)}")
    if not facts["problems"]:
        out.print("[green]Everything that tensorveil needs works.[/green]")
