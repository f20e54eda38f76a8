"""A study's figure and pages, from its results: nothing is computed here, so they can be made again at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorveil.tensor.files.atomic import replace_file
from tensorveil_evidence.studies import drawing, wording
from tensorveil_evidence.studies.page_text import read_sections
from tensorveil_evidence.studies.row_tables import Conditions, make_caption, tabulate
from tensorveil_evidence.studies.study import Results, Study
from tensorveil_evidence.studies.study_page import StudyFigure, StudyPage, write_study_page


def publish(study: Study, results: Results, folder: Path) -> list[Path]:
    """Write NAME.svg, NAME.png, NAME.md and NAME.html."""
    figure = study.draw(results)
    pictures = drawing.save(figure, folder, study.name)
    page = folder / f"{study.name}.md"
    with replace_file(page) as temporary:
        temporary.write_text(write_page(study, results), encoding="utf-8")
    report = folder / f"{study.name}.html"
    write_study_page(report, describe(study, results, figure))
    return [*pictures, page, report]


def describe(study: Study, results: Results, figure: Any) -> StudyPage:
    """Return what the study's HTML page shows: the figure as it was drawn, and all numbers in tables."""
    stated = study.caption(results)
    conditions = Conditions(
        unit=stated.unit, epsilon=stated.epsilon, delta=stated.delta, small_print=stated.small_print
    )  # fmt: skip
    tables = tabulate(results.rows, conditions, axis=study.axis)
    named = ", ".join(dict.fromkeys(row.method for row in results.rows))
    finding = stated.shown.split(";")[0].rstrip(".") + "."  # what follows describes details of the figure
    return StudyPage(
        title=study.title,
        finding=finding,
        figure=StudyFigure(
            image=drawing.draw_for_page(figure, study.name),
            alt=f"{finding} Methods: {named}. All numbers are in the tables of this page.",
            caption=make_caption(results.rows, conditions, stated.shown),
        ),
        tables=tables,
        source=study.source,
        text=read_sections(study.page(results)),
        notes=(stated.guarantees, f"Written by: tensorveil study {study.name}. {_seeds(results)}"),
    )


def write_page(study: Study, results: Results) -> str:
    """Return the text of the page: figure, caption, the study's own text, and how to make it again."""
    quick = "\n**A quick run, with few runs per point: for a look, not for numbers.**\n" if results.quick else ""
    return wording.fill(
        f"""# {study.title}

{study.source}. Written by `tensorveil study {study.name}` from its results; do not edit.
{quick}
![{study.title}]({study.name}.svg)

*{study.caption(results)}*

{study.page(results).strip()}

## Again

    tensorveil study {study.name}{" --quick" if results.quick else ""}
    tensorveil study {study.name} --redraw   # figure and page from the results that are there

{_history(study, results)}
"""
    )


def _history(study: Study, results: Results) -> str:
    full = len(study.cells(study.runs[1], False))
    part = f" of {full}" if len(results.seconds) < full else ""
    more = " The others are computed by the same command." if part and not results.quick else ""
    return (
        f"All numbers: [{study.name}.parquet]({study.name}.parquet), settings and means: "
        f"[{study.name}.json]({study.name}.json). {len(results.seconds)}{part} cells took "
        f"{results.core_minutes:.1f} minutes of one core. {_seeds(results)}{more}"
    )


def _seeds(results: Results) -> str:
    seeds = sorted({row.run for row in results.rows})
    told = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"Seeds of the runs: {told}."
