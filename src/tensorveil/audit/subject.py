"""What an audit is made on: a mechanism, what is claimed of it and what is proven; found by entry points.

An installed package offers subjects by an entry point of the group ``tensorveil.subjects``: a function without
arguments that returns them. This project's own are in `tensorveil_evidence.subjects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from tensorveil.audit.claim import Claim
from tensorveil.audit.sampling import Progress
from tensorveil.audit.verdict import Verdict
from tensorveil.errors import InputError, MissingDependencyError

__all__ = ["GROUP", "Subject", "find_subjects", "holds", "index_subjects", "load_subjects"]

GROUP = "tensorveil.subjects"


class Subject(Protocol):
    """A mechanism under audit: what is claimed of it, what is proven, and how it is run."""

    @property
    def name(self) -> str:
        """The name that `tensorveil audit` takes."""

    @property
    def unit(self) -> str:
        """What neighbours differ in."""

    @property
    def claim(self) -> Claim:
        """What is claimed."""

    @property
    def proven(self) -> Claim | None:
        """What is proven; None if no finite level is known."""

    @property
    def about(self) -> str:
        """What is drawn, in a few words."""

    @property
    def samples(self) -> int:
        """Runs on every neighbour, or canaries in one run, in a quick audit."""

    @property
    def many(self) -> int:
        """Runs on every neighbour, or canaries in one run, in a thorough audit."""

    def audit(
        self, *, samples: int | None = None, confidence: float = 0.999, seed: int = 0, progress: Progress | None = None
    ) -> Verdict:
        """Try to refute the claim."""


def holds(subject: Subject) -> bool:
    """Tell whether what is claimed is proven."""
    proven, claim = subject.proven, subject.claim
    return (
        proven is not None
        and proven.parameter == claim.parameter
        and proven.level <= claim.level
        and proven.delta <= claim.delta
    )


def index_subjects(subjects: Iterable[Subject]) -> Mapping[str, Subject]:
    """Return subjects by their names, in their order."""
    found: dict[str, Subject] = {}
    for subject in subjects:
        if subject.name in found:
            raise InputError(f"two subjects are called {subject.name!r}. Rename one, or uninstall its package.")
        found[subject.name] = subject
    return found


def load_subjects() -> Mapping[str, Subject]:
    """Return the subjects of all installed packages, by their names."""
    return index_subjects(subject for point in entry_points(group=GROUP) for subject in _load(point))


def find_subjects(pattern: str, subjects: Mapping[str, Subject]) -> list[Subject]:
    """Return the subjects whose name is, begins with, or matches a pattern such as "noise/*"."""
    if pattern in subjects:
        return [subjects[pattern]]
    found = [each for name, each in subjects.items() if name.startswith(pattern) or fnmatchcase(name, pattern)]
    if not found:
        raise InputError(f"no subject is called {pattern!r}. Try 'tensorveil audit --list', or FILE.py:FUNCTION.")
    return found


def _load(point: EntryPoint) -> Iterable[Subject]:
    try:
        subjects: Iterable[Subject] = point.load()()
    except (ImportError, AttributeError) as error:
        raise MissingDependencyError(
            f"the subjects {point.name!r} ({point.value}) cannot be loaded. Install their package anew."
        ) from error
    return subjects
