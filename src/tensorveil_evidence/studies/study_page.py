"""The report of a study: its finding, its figure as matplotlib drew it, its numbers in tables, its notes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tensorveil.errors import InputError
from tensorveil.markup import tag
from tensorveil.report.facts import Caption, TableOf
from tensorveil.report.page import Page, Section, image_figure, save_page, table_figure

__all__ = ["StudyFigure", "StudyPage", "make_study_page", "write_study_page"]


@dataclass(frozen=True, kw_only=True)
class StudyFigure:
    """The figure of a study.

    Parameters
    ----------
    image
        An SVG file.
    alt
        What is in it, in words, for readers who cannot see it.
    caption
        What stands beneath it.
    """

    image: bytes
    alt: str
    caption: Caption


@dataclass(frozen=True, kw_only=True)
class StudyPage:
    """What the report of a study shows.

    Parameters
    ----------
    title
        What was studied.
    finding
        What came out, in one or two sentences: the first thing a reader sees.
    figure
        The study's figure, if it has one.
    tables
        Its numbers, in the order in which they are shown.
    source
        The paper's figure or table that was repeated, if one was.
    text
        The study's own sections: settings, its tables with the printed values, what agrees and what does not.
    notes
        Guarantees, seeds, and other things to know; one paragraph each.
    """

    title: str
    finding: str
    figure: StudyFigure | None = None
    tables: tuple[TableOf, ...] = ()
    source: str = ""
    text: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tables", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.figure is None and not self.tables:
            raise InputError("a study must have a figure or at least one table.")


def write_study_page(path: str | os.PathLike[str], study: StudyPage) -> None:
    """Write the report of a study into one HTML file, whole or not at all.

    Parameters
    ----------
    path
        The file to write; an earlier one is replaced.
    study
        Figure, tables and captions as plain facts.

    >>> import tempfile, pathlib
    >>> from tensorveil.report.facts import Caption, Standing, TableOf, epsilons
    >>> caption = Caption(
    ...     text="Error against budget.", unit="value", epsilon=epsilons((0.1, 1.0)), delta=0.0, runs=50,
    ...     methods=(Standing(name="input", status="proven"), Standing(name="constant", status="not private")),
    ...     small_print="Noise was seeded, so that the study can be repeated: none of these runs is private.",
    ... )
    >>> rows = (("input", 1.0, 0.7), ("constant", 0.8, 0.8))
    >>> table = TableOf(title="Figure 2", columns=("method", "0.1", "1"), rows=rows, caption=caption)
    >>> study = StudyPage(title="What privacy costs", finding="Ten times the budget, half the error.", tables=(table,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder) / "study.html"
    ...     write_study_page(place, study)
    ...     place.read_text().startswith("<!doctype html>")
    True
    """
    save_page(path, make_study_page(study))


def make_study_page(study: StudyPage) -> Page:
    """Make the page of a study."""
    sections = []
    if study.figure is not None:
        drawn = image_figure(
            "figure-1", study.title, study.figure.image, alt=study.figure.alt, caption=study.figure.caption
        )
        sections.append(Section(name="figure", title="Figure", lead="", blocks=(drawn,)))
    sections += study.text
    if study.tables:
        tables = tuple(table_figure(f"table-{k + 1}", table) for k, table in enumerate(study.tables))
        sections.append(Section(name="tables", title="All numbers", lead="", blocks=tables))
    if study.notes:
        notes = tuple(tag("p", note) for note in study.notes)
        sections.append(Section(name="notes", title="Notes", lead="", blocks=notes))
    return Page(
        kind="Study" if not study.source else f"Study: {study.source}",
        title=study.title,
        sentence=study.finding,
        mark="Experiment, not a release",
        sections=tuple(sections),
        images=study.figure is not None,
    )
