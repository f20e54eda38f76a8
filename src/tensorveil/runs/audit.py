"""Audits: of subjects that installed packages offer, of a mechanism of one's own, and of a model with its data."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.audit import Claim, Verdict
from tensorveil.audit import audit as audit_outputs
from tensorveil.audit.blackbox import KINDS
from tensorveil.audit.model_leak import ModelLeak, model_leak
from tensorveil.audit.sampling import Progress
from tensorveil.audit.subject import Subject, find_subjects, holds, load_subjects
from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel, load_model
from tensorveil.privacy import Guarantee
from tensorveil.release.release import load_release
from tensorveil.report.audit_page import Audited, audit_page, leak_page
from tensorveil.report.curves import curve_picture
from tensorveil.report.page import save_page
from tensorveil.report.pictures import check_picture_path, save_picture
from tensorveil.rounds import SharedModel
from tensorveil.runs.progress import count_progress
from tensorveil.runs.reading import Reading, read_tensor
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.files.formats import read_array

__all__ = [
    "AuditRun",
    "Finding",
    "LeakFinding",
    "LeakRun",
    "OwnMechanism",
    "SubjectListing",
    "attack_model",
    "describe_subjects",
    "is_own",
    "run_audits",
]

_OWN = re.compile(r"^(?P<file>.+\.py):(?P<function>\w+)$")
_OWN_SAMPLES = 10_000
_PAGES = (".html", ".htm")
_GIVEN_UNIT = "as in the neighbours given"

Audit = Callable[[Progress | None], Verdict]


@dataclass(frozen=True, kw_only=True)
class SubjectListing:
    """What a subject is, in words."""

    name: str
    unit: str
    claimed: str
    proven: str
    drawn: str


@dataclass(frozen=True, kw_only=True)
class OwnMechanism:
    """What is needed to audit functions of one's own, beside their names.

    Parameters
    ----------
    neighbours
        Pairs of NPY files, data sets that differ in one unit.
    epsilon, delta, mu
        The claim: (epsilon, delta), or mu of Gaussian differential privacy.
    batched
        Whether the function gives many outputs at once: ``function(data, rng, n)`` rather than ``function(data, rng)``.
    kinds
        What to look for; empty for everything.
    """

    neighbours: Sequence[tuple[str, str]] = ()
    epsilon: float | None = None
    delta: float = 0.0
    mu: float | None = None
    batched: bool = False
    kinds: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.neighbours:
            raise InputError("neighbours: a mechanism of your own needs pairs of NPY files that differ in one unit.")
        if (self.epsilon is None) == (self.mu is None):
            raise InputError("the claim is needed for a mechanism of your own. Try epsilon=1, or mu=1.")


@dataclass(frozen=True, kw_only=True)
class AuditRun:
    """What to audit, and how.

    Parameters
    ----------
    names
        Subjects by name, beginning of a name or pattern, and ``FILE.py:FUNCTION`` for functions of one's own.
    everything
        Audit all subjects; then there are no names.
    own
        The claim and the data for functions of one's own; None if there are none.
    samples
        Runs on every neighbour, or canaries in one run; None for each subject's own number.
    confidence
        The probability with which a true claim is not refuted.
    seed
        Of the audit's own draws.
    plot
        An SVG file for the trade-off curve of a single audit.
    report
        An HTML file for verdicts and curves.
    """

    names: tuple[str, ...] = ()
    everything: bool = False
    own: OwnMechanism | None = None
    samples: int | None = None
    confidence: float = 0.999
    seed: int = 0
    plot: str | None = None
    report: str | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The verdict on one name."""

    name: str
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return {"name": self.name, "sentence": self.verdict.sentence(), **self.verdict.to_json()}


@dataclass(frozen=True, kw_only=True)
class LeakRun:
    """A release folder or model file, the data that it was fitted to, and an HTML file for the answer, if wanted."""

    place: str
    reading: Reading
    report: str | None = None


@dataclass(frozen=True, kw_only=True)
class LeakFinding:
    """What the factors of a model give away. For the owner of the data alone."""

    name: str
    leak: ModelLeak

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return {"name": self.name, "sentence": self.leak.sentence(), **self.leak.to_json()}


def is_own(name: str) -> bool:
    """Tell whether a name is ``FILE.py:FUNCTION``, a function of one's own."""
    return _OWN.match(name) is not None


def describe_subjects() -> list[SubjectListing]:
    """Describe every subject of the installed packages."""
    return [
        SubjectListing(
            name=name,
            unit=subject.unit,
            claimed=str(subject.claim),
            proven="nothing finite" if subject.proven is None else str(subject.proven),
            drawn=subject.about,
        )
        for name, subject in load_subjects().items()
    ]


def run_audits(run: AuditRun) -> list[Finding]:
    """Audit what was named, or everything; draw the curve and write the report if asked."""
    subjects = {} if not run.everything and all(map(is_own, run.names)) else load_subjects()
    audits = _list_audits(run, subjects)
    if run.plot is not None:
        if len(audits) > 1:
            raise InputError("plot: only a single audit has a curve to draw. Name a single subject.")
        check_picture_path(run.plot, "plot")
    _check_report(run.report)
    found = []
    for name, audit in audits:
        with count_progress(name) as progress:
            found.append(Finding(name=name, verdict=audit(progress)))
    if run.plot is not None:
        save_picture(run.plot, curve_picture(found[0].name, found[0].verdict))
    if run.report is not None:
        save_page(run.report, audit_page([_judge(each, subjects.get(each.name)) for each in found]))
    return found


def attack_model(run: LeakRun) -> LeakFinding:
    """Attack a release or a model with the data that it was fitted to."""
    _check_report(run.report)
    model, guarantee = _load_model(run.place)
    leak = model_leak(model, _align(read_tensor(run.reading), model))
    if run.report is not None:
        save_page(run.report, leak_page(run.place, leak, guarantee))
    return LeakFinding(name=run.place, leak=leak)


def _list_audits(run: AuditRun, subjects: Mapping[str, Subject]) -> list[tuple[str, Audit]]:
    """Turn names into audits, each of which takes a callback for its progress."""
    if run.everything:
        return [(name, _audit_subject(subject, run)) for name, subject in subjects.items()]
    audits: list[tuple[str, Audit]] = []
    for name in run.names:
        if is_own(name):
            audits.append((name, _audit_own(name, run)))
        else:
            audits += [(subject.name, _audit_subject(subject, run)) for subject in find_subjects(name, subjects)]
    return audits


def _audit_subject(subject: Subject, run: AuditRun) -> Audit:
    return lambda progress: subject.audit(
        samples=run.samples, confidence=run.confidence, seed=run.seed, progress=progress
    )


def _audit_own(name: str, run: AuditRun) -> Audit:
    own = run.own
    if own is None:
        own = OwnMechanism()  # says what is missing
    claim = Claim(epsilon=own.epsilon, delta=own.delta, mu=own.mu)
    pairs = [(_load_array(first), _load_array(second)) for first, second in own.neighbours]
    function, kinds = _load_function(name), tuple(own.kinds) or KINDS
    return lambda progress: audit_outputs(
        function, pairs, claim, samples=run.samples or _OWN_SAMPLES, confidence=run.confidence, seed=run.seed,
        batched=own.batched, kinds=kinds, progress=progress,
    )  # fmt: skip


def _load_array(path: str) -> Any:
    return np.array(read_array(Path(path)).values)


def _load_function(name: str) -> Callable[..., Any]:
    """Load a function from a file of the user's."""
    found = _OWN.match(name)
    assert found is not None
    path = Path(found["file"])
    if not path.is_file():
        raise InputError(f"there is no file {path}. Give FILE.py:FUNCTION.")
    spec = importlib.util.spec_from_file_location("audited", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, found["function"], None)
    if not callable(function):
        raise InputError(f"{path} has no function {found['function']}. Give FILE.py:FUNCTION.")
    return function  # type: ignore[no-any-return]


def _check_report(path: str | None) -> None:
    """Refuse before the audit what could not be written after it."""
    if path is None:
        return
    if Path(path).suffix not in _PAGES:
        raise InputError(f"report: the name must end with {' or '.join(_PAGES)}, such as audit.html.")
    if not Path(path).parent.is_dir():
        raise InputError(f"report: the folder {Path(path).parent} does not exist. Make it first.")


def _judge(finding: Finding, subject: Subject | None) -> Audited:
    return Audited(
        name=finding.name,
        unit=_GIVEN_UNIT if subject is None else subject.unit,
        verdict=finding.verdict,
        proven=subject is not None and holds(subject),
    )


def _load_model(place: str) -> tuple[CPModel | TuckerModel, Guarantee | None]:
    model, guarantee = load_release(place) if Path(place).is_dir() else (load_model(place), None)
    if isinstance(model, SharedModel):
        raise InputError(f"{place} holds no row of any user, so it predicts none of the data by itself.")
    return model, guarantee


def _align(tensor: ObservedTensor, model: CPModel | TuckerModel) -> ObservedTensor:
    """Number the indices of the data as the model does."""
    columns = []
    for own, given, column in zip(model.modes, tensor.modes, tensor.columns, strict=False):
        if own.labels is not None and given.labels is not None:
            column = own.encode(given.labels)[column]
        columns.append(column)
    if len(columns) != len(model.shape):
        raise InputError("data: the data have another number of modes than the model. Try modes=['user', 'film'].")
    return ObservedTensor(np.stack(columns, axis=1), tensor.values, shape=model.shape)
