"""Compiled functions work where nothing can be cached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tensorveil.kernels.compiled import kernel


def add_one(x: Any) -> Any:
    return x + 1


def test_a_place_that_cannot_be_written_means_no_cache_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert kernel()(add_one)(2) == 3


def test_functions_are_cached_where_possible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = pytest.importorskip("numba.core.config")
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert kernel()(add_one)(2) == 3
    assert list(tmp_path.rglob("*.nbi"))
