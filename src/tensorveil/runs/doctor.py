"""What this installation can do here, and what it lacks, by the requirements in the package's own metadata."""

from __future__ import annotations

import os
import platform
import re
import time
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tensorveil import __version__

__all__ = ["Examination", "Extra", "Kernels", "Requirement", "examine", "read_requirements"]

PACKAGE = "tensorveil"
_NAME = re.compile(r"^\s*([A-Za-z0-9._-]+)")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_RULE = re.compile(r"(==|>=|<=|!=|<|>)\s*([0-9][0-9.]*)")
_WIDE = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512vl", "neon", "sve")


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """A package that is asked for: in which versions, and which one is there (None: none)."""

    name: str
    wanted: str
    version: str | None

    @property
    def met(self) -> bool:
        """Whether the package is there, in a version that is asked for."""
        return self.version is not None and _satisfies(self.version, self.wanted)

    @property
    def state(self) -> str:
        """The version that is there, in words."""
        if self.version is None:
            return f"{self.name} missing"
        return f"{self.name} {self.version}" + ("" if self.met else f" (needs {self.wanted})")


@dataclass(frozen=True, kw_only=True)
class Extra:
    """An optional group of packages; ``install`` is the remedy if some of them are not there."""

    name: str
    packages: tuple[Requirement, ...]
    install: str | None


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """Whether compiled kernels work (``error`` is None), how long the first call took, and where they are cached."""

    error: str | None = None
    seconds: float | None = None
    cache: str | None = None
    cache_writable: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The facts; ``problems`` name what tensorveil needs and does not have, with the remedy."""

    tensorveil: str
    python: str
    system: str
    needs: tuple[Requirement, ...]
    extras: tuple[Extra, ...]
    threads_usable: int
    threads_of_machine: int | None
    simd: tuple[str, ...]
    kernels: Kernels
    data_folder: str | None
    data_folder_exists: bool
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {
            "tensorveil": self.tensorveil,
            "python": self.python,
            "system": self.system,
            "versions": {each.name: each.version for each in self.needs},
            "threads": {"usable": self.threads_usable, "machine": self.threads_of_machine},
            "simd": list(self.simd),
            "kernels": asdict(self.kernels),
            "data": {"TENSORVEIL_DATA": self.data_folder, "exists": self.data_folder_exists},
            "extras": {
                each.name: {"packages": {p.name: p.version for p in each.packages}, "install": each.install}
                for each in self.extras
            },
            "problems": list(self.problems),
        }


def examine() -> Examination:
    """Gather the facts."""
    needs, extras, problems = _check_requirements()
    kernels = _try_kernels()
    if kernels.error:
        problems.append(f"the compiled kernels do not work: {kernels.error}")
    folder = os.environ.get("TENSORVEIL_DATA")
    return Examination(
        tensorveil=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        needs=needs,
        extras=extras,
        threads_usable=_count_usable_processors(),
        threads_of_machine=os.cpu_count(),
        simd=_list_simd(),
        kernels=kernels,
        data_folder=folder,
        data_folder_exists=folder is not None and Path(folder).is_dir(),
        problems=tuple(problems),
    )


def read_requirements(lines: list[str]) -> dict[str, dict[str, str]]:
    """Read requirements as metadata spell them: by extra ("" for the core), the versions wanted of each package.

    >>> read_requirements(["numpy>=2.0", "flwr<1.42,>=1.41; extra == 'federated'"])
    {'': {'numpy': '>=2.0'}, 'federated': {'flwr': '<1.42,>=1.41'}}
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        asked, _, marker = line.partition(";")
        name, extra = _NAME.match(asked), _EXTRA.search(marker)
        if name is not None:
            wanted = ",".join("".join(rule) for rule in _RULE.findall(asked))
            found.setdefault(extra[1] if extra else "", {})[name[1]] = wanted
    return found


def _check_requirements() -> tuple[tuple[Requirement, ...], tuple[Extra, ...], list[str]]:
    """Compare what the metadata ask for with what is there; say what the core lacks."""
    try:
        by_extra = read_requirements(metadata.requires(PACKAGE) or [])
    except metadata.PackageNotFoundError:
        return (), (), [f"{PACKAGE} is not installed, so what it needs is not known: pip install {PACKAGE}"]
    needs = tuple(_look_up(by_extra.pop("", {})))
    problems = [
        f"{each.name} is not installed: pip install {PACKAGE}"
        if each.version is None
        else f"{each.name} {each.version} does not do, {each.wanted} is needed: pip install --upgrade {PACKAGE}"
        for each in needs
        if not each.met
    ]
    extras = []
    for name, wanted in by_extra.items():
        packages = tuple(_look_up(wanted))
        remedy = None if all(each.met for each in packages) else f"pip install '{PACKAGE}[{name}]'"
        extras.append(Extra(name=name, packages=packages, install=remedy))
    return needs, tuple(extras), problems


def _look_up(wanted: dict[str, str]) -> list[Requirement]:
    return [Requirement(name=name, wanted=rules, version=find_version(name)) for name, rules in wanted.items()]


def find_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _satisfies(version: str, wanted: str) -> bool:
    """Tell whether a version keeps simple rules such as ">=1.41,<1.42"; what stands behind the numbers is ignored."""
    have = _numbers(version)
    for sign, text in _RULE.findall(wanted):
        want = _numbers(text)
        size = max(len(have), len(want))
        left, right = (numbers + (0,) * (size - len(numbers)) for numbers in (have, want))
        kept = {
            "==": left == right, "!=": left != right, ">=": left >= right, "<=": left <= right, ">": left > right,
            "<": left < right,
        }  # fmt: skip
        if not kept[sign]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def _count_usable_processors() -> int:
    """Count the processors that this process may use, which a container may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _list_simd() -> tuple[str, ...]:
    """List the wide instruction sets that the compiler will use on this processor."""
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
    except Exception:  # an unusual processor is no reason to fail here
        return ()
    return tuple(name for name in _WIDE if features.get(name))


def _try_kernels() -> Kernels:
    """Run one kernel against numpy, which also shows whether the cache can be written."""
    try:
        import numpy as np

        from tensorveil.kernels.predict import cp_predict

        factors = [np.arange(1.0, 1.0 + 2 * size).reshape(size, 2) for size in (2, 3, 4)]
        columns = np.zeros((3, 1), dtype=np.int32)
        start = time.perf_counter()
        got = cp_predict(columns, factors, 1)
        seconds = round(time.perf_counter() - start, 3)
        right = bool(np.allclose(got, [1.0 + 8.0]))
        chosen = os.environ.get("NUMBA_CACHE_DIR")
        folder = Path(chosen) if chosen else Path(str(import_module("tensorveil.kernels").__path__[0])) / "__pycache__"
    except Exception as error:
        return Kernels(error=f"{type(error).__name__}: {error}")
    return Kernels(
        error=None if right else "a prediction is wrong; please report this",
        seconds=seconds,
        cache=str(folder),
        cache_writable=is_writable(folder),
    )


def is_writable(folder: Path) -> bool:
    """Tell whether a folder can be written, or made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)
