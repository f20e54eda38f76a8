"""Pages of releases in unit slice, and of releases whose drawings fail."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.release.release import write_release
from tensorveil.report import release_page as pages
from tensorveil.report.release_page import release_page

SHAPE = (60, 12, 5)
OPTIONS: dict[str, Any] = {
    "epsilon": 20.0, "delta": 1e-5, "unit": "slice:user", "bounds": (-1, 2), "shape": SHAPE,
}  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Any:
    data = tv.synthetic_cp(SHAPE, 2, random_state=0).train.with_modes(("user", "film", "day"))
    return tv.UserLevelCP(2, **OPTIONS).fit(data)


def test_a_page_of_what_users_share_shows_released_modes_and_no_user(shared: Any, tmp_path: Path) -> None:
    write_release(shared, tmp_path / "out")
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "could not be drawn" not in text
    assert "Mode film" in text
    assert "Mode day" in text
    assert "Mode user is protected" in text
    assert "A slice of the predictions" not in text


def test_an_example_of_a_user_follows_from_the_release_alone(shared: Any) -> None:
    example = shared.model_.example()
    assert example.shape == (1, *SHAPE[1:])
    for factor, released in zip(example.factors[1:], shared.model_.factors, strict=True):
        assert np.array_equal(factor, released)


def test_a_tucker_release_of_what_users_share_has_a_page() -> None:
    data = tv.synthetic_cp(SHAPE, 2, random_state=1).train.with_modes(("user", "film", "day"))
    fit = tv.UserLevelTucker((2, 2, 2), **OPTIONS).fit(data)
    page = release_page(fit)
    assert any(section.name == "factors" for section in page.sections)


def test_a_drawing_that_fails_does_not_take_the_release_along(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("drawing")

    monkeypatch.setattr(pages, "factor_section", broken)
    folder = write_release(shared, tmp_path / "out")
    assert "could not be drawn" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "model.npz").exists()
