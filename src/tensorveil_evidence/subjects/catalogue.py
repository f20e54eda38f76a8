"""All subjects by name: what `tensorveil audit NAME` takes, and what the table in docs/audit.md is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tensorveil.audit.subject import Subject, index_subjects
from tensorveil_evidence.subjects.federated import federated_subjects
from tensorveil_evidence.subjects.learning import learning_subjects
from tensorveil_evidence.subjects.local import local_subjects
from tensorveil_evidence.subjects.methods import count_subjects, method_subjects
from tensorveil_evidence.subjects.noise import noise_subjects
from tensorveil_evidence.subjects.people import people_subjects
from tensorveil_evidence.subjects.published_completion import published_completion_subjects
from tensorveil_evidence.subjects.published_local import published_local_subjects
from tensorveil_evidence.subjects.selection import selection_subjects
from tensorveil_evidence.subjects.statistics import statistic_subjects
from tensorveil_evidence.subjects.training import training_subjects
from tensorveil_evidence.subjects.users import user_subjects

FAMILIES: tuple[Callable[[], Iterable[Subject]], ...] = (
    noise_subjects,
    statistic_subjects,
    method_subjects,
    count_subjects,
    selection_subjects,
    training_subjects,
    user_subjects,
    people_subjects,
    local_subjects,
    learning_subjects,
    federated_subjects,
    published_completion_subjects,
    published_local_subjects,
)


def make_subjects() -> Iterator[Subject]:
    """Yield every subject, in the order of the table; the entry point that `tensorveil audit` finds."""
    for family in FAMILIES:
        yield from family()


def list_subjects() -> Mapping[str, Subject]:
    """Return every subject by its name, in the order of the table.

    >>> from tensorveil.audit.subject import find_subjects
    >>> [subject.name for subject in find_subjects("noise/bounded", list_subjects())]
    ['noise/bounded values, laplace', 'noise/bounded values, gaussian']
    """
    return index_subjects(make_subjects())
