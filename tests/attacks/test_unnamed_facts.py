"""A true sentence that is read as another one: it names neither what is protected, nor what is public, nor from whom.

The reader of a release takes "private" for everything in the table. Labels are published in unit value, and values are
those of one column: every text that goes with the release must say so.
"""

from __future__ import annotations

import dataclasses
import html
import json
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.cli.main import run

TOLD = {
    "about": "values of column 'rating'",
    "public": ("positions and labels of user, film", "the number of entries"),
    "against": "the server and any one client",
}


def texts_of(folder: Path) -> dict[str, str]:
    found = {name: (folder / name).read_text() for name in ("MODEL_CARD.md", "report.html", "guarantee.json")}
    return {name: " ".join(html.unescape(text).split()) for name, text in found.items()}


def fit(**changes: Any) -> Any:
    data = tv.synthetic_cp((12, 9), 1, random_state=0).train
    return tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=(0, 1), sweeps=2, **changes).fit(data)


def test_every_text_says_that_positions_and_labels_are_public(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "\n".join(f"u{k % 6},f{k // 6},{1 + k % 5}" for k in range(30))
    (tmp_path / "d.csv").write_text(f"user,film,value\n{rows}\n")
    asked = ["complete", str(tmp_path / "d.csv"), "--epsilon", "1", "--unit", "value", "--bounds", "1", "5",
             "--rank", "1", "-o", str(tmp_path / "release")]  # fmt: skip
    assert run(asked) == 0
    texts = texts_of(tmp_path / "release") | {"printed": " ".join(capsys.readouterr().out.split())}
    for name, text in texts.items():
        # What the planner knows, such as the names of modes, may be named more closely.
        assert "Public: positions (user, film) and labels" in text, name


def test_every_text_names_column_public_facts_and_adversary(tmp_path: Path) -> None:
    private = fit()
    private.guarantee_ = dataclasses.replace(private.guarantee_, **TOLD)
    folder = tv.write_release(private, tmp_path / "release")
    for name, text in texts_of(folder).items():
        assert "values of column 'rating'" in text, name
        assert "positions and labels of user, film; the number of entries" in text, name
        assert "the server and any one client" in text, name
    facts = json.loads((folder / "guarantee.json").read_text())
    assert {key: facts[key] for key in TOLD} == {key: list(x) if key == "public" else x for key, x in TOLD.items()}
    assert tv.load_release(folder)[1] == private.guarantee_
