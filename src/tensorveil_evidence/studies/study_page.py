"""The report of a study: its finding, its charts and tables with their captions, its notes."""

from __future__ import annotations

import os

from tensorveil.report.facts import Study
from tensorveil.report.lines import chart_figure
from tensorveil.report.markup import tag
from tensorveil.report.page import Page, Section, save_page, table_figure

__all__ = ["study_page", "write_study_report"]


def write_study_report(path: str | os.PathLike[str], study: Study) -> None:
    """Write the report of a study into one HTML file, whole or not at all.

    Parameters
    ----------
    path
        The file to write; an earlier one is replaced.
    study
        Charts, tables and captions as plain facts (`tensorveil.report.facts`).

    >>> import tempfile, pathlib
    >>> from tensorveil.report.facts import Caption, Chart, Level, Method, Series, Study, epsilons
    >>> budgets = (0.1, 1.0, 10.0)
    >>> caption = Caption(
    ...     text="Error against budget.", unit="value", epsilon=epsilons(budgets), delta=0.0, runs=50,
    ...     methods=(Method(name="input", status="proven"), Method(name="constant", status="not private")),
    ...     small_print="Noise was seeded, so that the study can be repeated: none of these runs is private.",
    ... )
    >>> curve = Series(name="input", x=budgets, y=(1.0, 0.7, 0.3), low=(0.9, 0.6, 0.2), high=(1.1, 0.8, 0.4))
    >>> chart = Chart(
    ...     title="Figure 2", x="epsilon", y="RMSE", series=(curve,), levels=(Level(name="constant", y=0.8),),
    ...     caption=caption, log_x=True,
    ... )
    >>> study = Study(title="What privacy costs", finding="Ten times the budget, half the error.", charts=(chart,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder) / "study.html"
    ...     write_study_report(place, study)
    ...     place.read_text().startswith("<!doctype html>")
    True
    """
    save_page(path, study_page(study))


def study_page(study: Study) -> Page:
    """Make the page of a study."""
    sections = []
    if study.charts:
        charts = tuple(chart_figure(f"chart-{k + 1}", chart) for k, chart in enumerate(study.charts))
        sections.append(Section(name="figures", title="Figures", lead="", blocks=charts))
    if study.tables:
        tables = tuple(table_figure(f"table-{k + 1}", table) for k, table in enumerate(study.tables))
        sections.append(Section(name="tables", title="Tables", lead="", blocks=tables))
    if study.notes:
        notes = tuple(tag("p", note) for note in study.notes)
        sections.append(Section(name="notes", title="Settings and notes", lead="", blocks=notes))
    return Page(
        kind="Study" if not study.source else f"Study of {study.source}",
        title=study.title,
        sentence=study.finding,
        mark="Experiment, not a release",
        sections=tuple(sections),
    )
