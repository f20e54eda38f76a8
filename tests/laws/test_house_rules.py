"""Rules about the code itself: what imports what, what is public, how long importing takes."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorveil

SOURCE = Path(tensorveil.__file__).parent
# A folder imports only what stands before it in the flow of a run.
ORDER = [
    "errors",
    "memory",
    "markup",
    "kernels",
    "tensor",
    "privacy",
    "noise",
    "models",
    "solvers",
    "mechanisms",
    "rounds",
    "engines",
    "completion",
    "local",
    "learning",
    "federated",
    "audit",
    "report",
    "release",
    "runs",
    "desk",
    "cli",
]

EVIDENCE = SOURCE.parent / "tensorveil_evidence"
# The same for the evidence, which may import all of tensorveil.
EVIDENCE_ORDER = ["quotations", "fidelity", "kernels", "published", "subjects", "studies", "cli"]


def imports(path: Path) -> Iterator[Any]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> Any:
    parts = name.split(".")
    return parts[1] if parts[0] == "tensorveil" and len(parts) > 1 else None


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_run_downward(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(path):
        other = room(name)
        if other in ORDER and own in ORDER:
            assert ORDER.index(other) <= ORDER.index(own), f"{own} must not import {name}"
            if own == "kernels":
                assert other == "kernels", "kernels import nothing else of ours"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_library_never_imports_the_evidence(path: Path) -> None:
    """It finds it by entry points. Examples in docstrings count: they run where only the library is."""
    assert not [name for name in imports(path) if name.split(".")[0] == "tensorveil_evidence"]
    assert not re.search(r"(import|from) tensorveil_evidence", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted(EVIDENCE.rglob("*.py")), ids=lambda p: str(p.relative_to(EVIDENCE)))
def test_imports_of_the_evidence_run_downward(path: Path) -> None:
    own = path.relative_to(EVIDENCE).parts[0].removesuffix(".py")
    rooms = [name.split(".")[1] for name in imports(path) if name.startswith("tensorveil_evidence.")]
    if own in EVIDENCE_ORDER:
        late = [other for other in rooms if EVIDENCE_ORDER.index(other) > EVIDENCE_ORDER.index(own)]
        assert not late, f"{own} must not import {late}"


def test_matplotlib_belongs_to_the_evidence() -> None:
    for path in SOURCE.rglob("*.py"):
        assert "matplotlib" not in {name.split(".")[0] for name in imports(path)}, path


def test_every_room_is_in_the_order() -> None:
    rooms = {p.name for p in SOURCE.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    assert rooms <= set(ORDER)
    modules = {p.stem for p in EVIDENCE.glob("*.py")} - {"__init__"}
    assert {p.name for p in EVIDENCE.iterdir() if any(p.glob("*.py"))} | modules == set(EVIDENCE_ORDER)


def top_level_imports(path: Path, modules: Any) -> Any:
    """The modules of ours that a module imports when it is imported itself: not in functions, not for types only."""
    todo, found = list(ast.parse(path.read_text()).body), set()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If):
            test = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
            todo += node.orelse if test == "TYPE_CHECKING" else [*node.body, *node.orelse]
        elif isinstance(node, ast.Try):
            todo += [*node.body, *node.orelse, *node.finalbody, *(n for h in node.handlers for n in h.body)]
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in names}
    return found & modules.keys()


def module_name(path: Path) -> Any:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {module_name(path): path for path in SOURCE.rglob("*.py")}
    graph = {name: top_level_imports(path, modules) for name, path in modules.items()}
    assert sum(map(len, graph.values())) > 500  # the graph is not empty by mistake
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("path", sorted((SOURCE / "runs").glob("*.py")), ids=lambda p: p.name)
def test_runs_know_no_command_line(path: Path) -> None:
    """A run is called from Python, a notebook or a scheduler: it neither parses options nor prints tables."""
    assert not [name for name in imports(path) if name.split(".")[0] == "click" or name.startswith("rich.table")]
    assert not re.search(r"\bprint\(", path.read_text())


def test_the_command_line_is_small_and_typed() -> None:
    files = sorted((SOURCE / "cli").glob("*.py"))
    assert len(files) <= 23
    untyped = [path.name for path in files if re.search(r"\boptions\[", path.read_text())]
    assert untyped == []


def test_public_names() -> None:
    assert sorted(tensorveil.__all__) == list(tensorveil.__all__)
    for name in tensorveil.__all__:
        assert getattr(tensorveil, name) is not None
    assert set(tensorveil.__all__) <= set(dir(tensorveil))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tensorveil.nothing


def test_importing_is_light() -> None:
    """Heavy packages are imported when they are needed, not with tensorveil or with its command."""
    heavy = (
        "numba",
        "scipy",
        "pyarrow",
        "pandas",
        "polars",
        "sklearn",
        "matplotlib",
        "rich",
        "tensorly",
        "h5py",
        "torch",
        "flwr",
        "dask",
        "distributed",
        "pyspark",
        "starlette",
        "uvicorn",
    )
    code = f"import sys, tensorveil, tensorveil.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_pickle() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not {"pickle", "cloudpickle", "joblib", "dill"} & {name.split(".")[0] for name in imports(path)}, path
