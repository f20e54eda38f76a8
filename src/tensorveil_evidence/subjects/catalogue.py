"""All subjects by name: what `tensorveil audit NAME` takes, and what the table in docs/audit.md is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from tensorveil.errors import InputError
from tensorveil_evidence.subjects.federated import federated_subjects
from tensorveil_evidence.subjects.learning import learning_subjects
from tensorveil_evidence.subjects.local import local_subjects
from tensorveil_evidence.subjects.methods import method_subjects
from tensorveil_evidence.subjects.noise import noise_subjects
from tensorveil_evidence.subjects.people import people_subjects
from tensorveil_evidence.subjects.published_completion import published_completion_subjects
from tensorveil_evidence.subjects.published_local import published_local_subjects
from tensorveil_evidence.subjects.statistics import statistic_subjects
from tensorveil_evidence.subjects.subject import Subject
from tensorveil_evidence.subjects.training import training_subjects
from tensorveil_evidence.subjects.users import user_subjects

FAMILIES: tuple[Callable[[], Iterable[Subject]], ...] = (
    noise_subjects,
    statistic_subjects,
    method_subjects,
    training_subjects,
    user_subjects,
    people_subjects,
    local_subjects,
    learning_subjects,
    federated_subjects,
    published_completion_subjects,
    published_local_subjects,
)


def subjects() -> Mapping[str, Subject]:
    """Return every subject by its name, in the order of the table."""
    found: dict[str, Subject] = {}
    for family in FAMILIES:
        for subject in family():
            assert subject.name not in found, subject.name
            found[subject.name] = subject
    return found


def find_subjects(pattern: str) -> list[Subject]:
    """Return the subjects whose name is, begins with, or matches a pattern such as "noise/*".

    >>> [subject.name for subject in find_subjects("noise/bounded")]
    ['noise/bounded values, laplace', 'noise/bounded values, gaussian']
    """
    everything = subjects()
    if pattern in everything:
        return [everything[pattern]]
    found = [s for name, s in everything.items() if name.startswith(pattern) or fnmatchcase(name, pattern)]
    if not found:
        raise InputError(f"no subject is called {pattern!r}. Try 'tensorveil audit --list', or FILE.py:FUNCTION.")
    return found
