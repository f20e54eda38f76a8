"""Whole jobs of studies: which there are, and making some of them, from cells to figures and pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tensorveil.errors import DataNotFoundError, InputError
from tensorveil.learning.loaders import samples_home, samples_present
from tensorveil.tensor import list_datasets
from tensorveil_evidence.studies import drawing
from tensorveil_evidence.studies.catalogue import find_study, list_studies
from tensorveil_evidence.studies.joint_pages import write_joint_pages
from tensorveil_evidence.studies.progress import show_progress
from tensorveil_evidence.studies.publication import publish
from tensorveil_evidence.studies.runner import run_study
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.study import Study

EVERYTHING = "all"


@dataclass(frozen=True, kw_only=True)
class StudyListing:
    """What a study is and costs, which data it needs, and whether all of them are there."""

    name: str
    title: str
    source: str
    quick_minutes: float
    full_minutes: float
    dataset: str | None
    also: tuple[str, ...]
    present: bool


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """Which studies to make, and how.

    Parameters
    ----------
    names
        Names of studies; "all" takes every study whose data are there.
    output
        The folder for results, figures and pages; what is finished there is not computed again.
    quick
        Few runs per point, for a look.
    redraw
        Compute nothing: make figures and pages from the results in the folder.
    jobs
        Processes.
    runs
        Runs per point; None takes the study's own number.
    """

    names: tuple[str, ...]
    output: Path
    quick: bool = False
    redraw: bool = False
    jobs: int = 1
    runs: int | None = None


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What became of one study: its caption and files, or why it was skipped."""

    name: str
    skipped: str | None = None
    quick: bool = False
    caption: str = ""
    core_minutes: float = 0.0
    files: tuple[str, ...] = ()


def describe_studies() -> list[StudyListing]:
    """Describe every study."""
    return [
        StudyListing(
            name=study.name,
            title=study.title,
            source=study.source,
            quick_minutes=study.minutes[0],
            full_minutes=study.minutes[1],
            dataset=study.dataset,
            also=study.also,
            present=_explain_missing(study) is None,
        )
        for study in list_studies().values()
    ]


def make_studies(request: StudyRequest) -> list[StudyResult]:
    """Run or redraw the studies that are named; "all" leaves out those whose data are not there."""
    chosen = [find_study(name) for name in request.names if name != EVERYTHING]
    optional: list[Study] = []
    if EVERYTHING in request.names:
        optional = [study for study in list_studies().values() if study not in chosen]
    for study in chosen:
        if not request.redraw and (missing := _explain_missing(study)) is not None:
            raise DataNotFoundError(missing)
    if request.redraw and not any(_explain_nothing_to_redraw(each, request) is None for each in [*chosen, *optional]):
        raise InputError(
            f"{request.output} holds no finished results of any study. Leave out --redraw, or name their folder by "
            "--output."
        )
    drawing.figure_class()  # if figures cannot be drawn, say so before hours of work
    results = []
    for study in [*chosen, *optional]:
        missing = _explain_nothing_to_redraw(study, request) if request.redraw else _explain_missing(study)
        results.append(
            _make_study(study, request) if missing is None else StudyResult(name=study.name, skipped=missing)
        )
    write_joint_pages([each.name for each in results if each.skipped is None], request.output)
    return results


def _explain_nothing_to_redraw(study: Study, request: StudyRequest) -> str | None:
    """Say of a study that was not asked for by name that it has no results yet; None if it has."""
    if study.name in request.names or (request.output / f"{study.name}.parquet").is_file():
        return None
    return f"study {study.name} has no results to draw. Run it first: tensorveil study {study.name}"


def _make_study(study: Study, request: StudyRequest) -> StudyResult:
    if request.redraw:
        results = read_results(study, request.output)
    else:
        request.output.mkdir(parents=True, exist_ok=True)
        with show_progress(study.name) as progress:
            results = run_study(
                study, request.output, quick=request.quick, jobs=request.jobs, runs=request.runs, progress=progress
            )
    files = publish(study, results, request.output)
    return StudyResult(
        name=study.name,
        quick=results.quick,
        caption=str(study.caption(results)),
        core_minutes=round(results.core_minutes, 2),
        files=tuple(str(path) for path in files),
    )


def _explain_missing(study: Study) -> str | None:
    """Say which data are not there and how to get them; None if nothing is missing."""
    if study.dataset is None:
        return study.lacks()
    present, home = _find_data(study.dataset)
    if present:
        return study.lacks()
    get = f"Get it from {home}, unpack it, and set" if home else "Set"
    return (
        f"study {study.name} needs the dataset {study.dataset}, which is not in the data folder. "
        f"{get} TENSORVEIL_DATA to the folder that holds {study.dataset}/."
    )


def _find_data(dataset: str) -> tuple[bool, str | None]:
    """Tell whether a dataset, of tensors or of labelled records, is there, and where its owner offers it."""
    for info in list_datasets():
        if info.name == dataset:
            return info.present, info.home
    return samples_present(dataset), samples_home(dataset)
