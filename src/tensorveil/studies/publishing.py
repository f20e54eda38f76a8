"""A study's figure and page, from its results: nothing is computed here, so both can be made again at any time."""

from __future__ import annotations

from pathlib import Path

from tensorveil.studies import drawing, wording
from tensorveil.studies.study import Results, Study
from tensorveil.tensor.files.atomic import replacing

INDEX = "README.md"


def publish(study: Study, results: Results, folder: Path) -> list[Path]:
    """Write NAME.svg, NAME.png and NAME.md."""
    pictures = drawing.save(study.draw(results), folder, study.name)
    page = folder / f"{study.name}.md"
    with replacing(page) as temporary:
        temporary.write_text(page_of(study, results), encoding="utf-8")
    return [*pictures, page]


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
    seeds = sorted({row.run for row in results.rows})
    full = len(study.cells(study.runs[1], False))
    part = f" of {full}" if len(results.seconds) < full else ""
    told = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    more = " The others are computed by the same command." if part and not results.quick else ""
    return (
        f"All numbers: [{study.name}.parquet]({study.name}.parquet), settings and means: "
        f"[{study.name}.json]({study.name}.json). {len(results.seconds)}{part} cells took "
        f"{results.core_minutes:.1f} minutes of one core. Seeds of the runs: {told}.{more}"
    )
