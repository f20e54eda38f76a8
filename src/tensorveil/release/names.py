"""What the files of releases, diagnostics and results are called. Light to import, for verbs that only name them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

# A release: everything in it may be published.
MODEL: Final = "model.npz"
GUARANTEE: Final = "guarantee.json"
CARD: Final = "MODEL_CARD.md"
REPORT: Final = "report.html"
FILLED: Final = "filled"  # plus the ending of its format
FILLED_FORMATS: Final = ("parquet", "csv", "png")
NOT_PRIVATE: Final = "NOT-PRIVATE-"  # begins every file name of a release that protects nothing

# Diagnostics: for the owner of the data alone.
DO_NOT_PUBLISH: Final = "DO_NOT_PUBLISH.txt"
OWNER_REPORT: Final = "DO_NOT_PUBLISH-report.html"
DIAGNOSTICS: Final = "diagnostics.json"

# The result of an open run: a model, filled cells and a report, named as above, and a summary.
SUMMARY: Final = "summary.json"
# An open run may replace a folder that holds nothing but files of these names.
RESULT_FILES: Final = (MODEL, "*-model.npz", f"{FILLED}.parquet", f"{FILLED}.csv", REPORT, SUMMARY, "*.png")


def model_file(place: Path) -> Path:
    """Return the file of the model in the folder of a result or a release; a file is taken for one."""
    return place / MODEL if place.is_dir() else place


def filled_name(format: str) -> str:  # noqa: A002 - what users call it
    """Return the name of the file of filled cells."""
    return f"{FILLED}.{format}"
