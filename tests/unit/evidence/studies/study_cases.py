"""Rows made up for the parts of studies that compute nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorveil_evidence.studies.study import Cell, Results, Row, Study


def row(
    method: str = "one",
    value: float | None = 1.0,
    *,
    status: str = "proven",
    run: int = 100,
    x: float | None = 1.0,
    panel: str = "",
    metric: str = "RMSE",
) -> Any:
    return Row(panel=panel, method=method, status=status, run=run, x=x, metric=metric, value=value)


def doubled(settings: Any) -> Iterator[Any]:
    """Twice the number in the settings, on two places."""
    yield row(value=2.0 * settings["number"], run=settings["number"])
    yield row(value=0.1 + settings["number"] / 3, run=settings["number"], x=2.0)


def study(compute: Any = doubled, **changes: Any) -> Any:
    options = {
        "name": "made-up",
        "title": "Made up",
        "source": "nobody",
        "runs": (2, 5),
        "cells": lambda runs, quick: [Cell(settings={"number": number}) for number in range(runs)],
        "compute": compute,
        "draw": None,
        "page": lambda results: "text",
        "caption": lambda results: "caption",
        "settings": {"depth": 3},
        "minutes": (1, 2),
    }
    return Study(**options | changes)


def results(rows: Any, quick: bool = False) -> Any:
    return Results(rows=rows, quick=quick, seconds={"number=0": 3.0})
