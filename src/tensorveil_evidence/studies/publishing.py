"""A study's figure and page, from its results: nothing is computed here, so both can be made again at any time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from tensorveil.report import facts
from tensorveil.tensor.files.atomic import replacing
from tensorveil_evidence.studies import drawing, wording
from tensorveil_evidence.studies.study import Results, Study
from tensorveil_evidence.studies.study_page import write_study_report
from tensorveil_evidence.studies.study_rows import study_of_rows

INDEX = "README.md"
WIDE = 20.0


def publish(study: Study, results: Results, folder: Path) -> list[Path]:
    """Write NAME.svg, NAME.png, NAME.md and NAME.html."""
    pictures = drawing.save(study.draw(results), folder, study.name)
    page = folder / f"{study.name}.md"
    with replacing(page) as temporary:
        temporary.write_text(page_of(study, results), encoding="utf-8")
    report = folder / f"{study.name}.html"
    write_study_report(report, report_of(study, results))
    return [*pictures, page, report]


def report_of(study: Study, results: Results) -> facts.Study:
    """Give the numbers as a report: curves or tables, panel by panel, each with the study's caption."""
    stated = study.caption(results)
    return study_of_rows(
        results.rows,
        title=study.title,
        finding=stated.shown.split(";")[0].rstrip(".") + ".",  # what follows speaks of the drawn figure
        unit=stated.unit,
        epsilon=stated.epsilon,
        delta=stated.delta,
        x=study.axis,
        log_x=_wide([row.x for row in results.rows]),
        log_y=_wide([row.value for row in results.rows]),
        source=study.source,
        notes=(stated.guarantees, f"Written by: tensorveil study {study.name}. {_seeds(results)}"),
        small_print=stated.small_print,
    )


def _wide(values: Iterable[float | None]) -> bool:
    """Tell whether numbers span so many orders of magnitude that an axis should be logarithmic."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) >= WIDE * min(known)


def page_of(study: Study, results: Results) -> str:
    """Give the page: figure, caption, the study's own text, and how to make it again."""
    quick = "\n**A quick run, with few runs per point: for a look, not for numbers.**\n" if results.quick else ""
    return wording.filled(
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
