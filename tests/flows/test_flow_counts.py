"""From a table of links to a release that protects whether a cell is listed, and to synthetic links."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run

SHAPE = (30, 20)
PROMISE = ["--epsilon", "5", "--unit", "entry", "--bounds", "0", "1", "--value", "known"]


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """Two blocks of links, with 0-based indices."""
    rng = np.random.default_rng(0)
    rate = np.where((np.arange(30) < 15)[:, None] == (np.arange(20) < 10), 0.6, 0.05)
    cells = np.argwhere(rng.random(SHAPE) < rate)
    path = tmp_path / "links.csv"
    path.write_text("head,tail,known\n" + "".join(f"{i},{j},1\n" for i, j in cells))
    return path


def release(links: Path, *more: str) -> int:
    place = ["--indices", "--private-shape", "30,20", "--rank", "3", "-o", str(links.parent / "release")]
    return run(["complete", str(links), *PROMISE, *place, "--no-fill", *more])


def test_links_become_a_release_and_synthetic_links(links: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release(links, "--unlisted", "zero") == 0
    folder = links.parent / "release"
    fitted, guarantee = tv.load_release(folder)
    assert fitted.loss == "bernoulli"  # type: ignore[union-attr]
    assert "that cells without an entry are zero" in guarantee.public
    blocks = fitted.dense()  # type: ignore[union-attr]
    assert blocks[:15, :10].mean() > 2 * blocks[:15, 10:].mean()
    capsys.readouterr()
    output = links.parent / "synthetic.csv"
    assert run(["synthesise", str(folder), "-o", str(output), "--seed", "1", "--json"]) == 0
    said: Any = json.loads(capsys.readouterr().out)
    assert said["guarantee"]["epsilon"] == 5.0
    assert "its guarantee holds for this file too" in said["says"]
    drawn = tv.read(output, value="known" if "known" in output.read_text() else None, labels=False, shape=SHAPE)
    assert drawn.n_entries == said["entries"]
    assert abs(drawn.n_entries - float(blocks.sum())) < 6 * np.sqrt(blocks.sum())
    assert run(["synthesise", str(folder), "-o", str(output)]) == 2  # nothing is overwritten unasked
    assert "--force" in capsys.readouterr().err
    first = output.read_bytes()
    assert run(["synthesise", str(folder), "-o", str(output), "--seed", "1", "--force"]) == 0
    assert output.read_bytes() == first
    capsys.readouterr()
    assert run(["synthesise", str(folder / "model.npz"), "-o", str(links.parent / "other.npz")]) == 0
    assert "No guarantee" in capsys.readouterr().out


def test_an_edited_release_is_not_drawn_from(links: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release(links, "--unlisted", "zero") == 0
    card = links.parent / "release" / "MODEL_CARD.md"
    card.write_text(card.read_text() + "more\n")
    assert run(["synthesise", str(card.parent), "-o", str(links.parent / "synthetic.csv")]) == 2
    assert not (links.parent / "synthetic.csv").exists()
    assert "MODEL_CARD.md" in capsys.readouterr().err


def test_diagnostics_and_reports_work_for_counts(links: Path) -> None:
    aside = links.parent / "aside"
    assert release(links, "--unlisted", "zero", "--diagnostics", str(aside)) == 0
    assert any(aside.iterdir())
    assert (links.parent / "release" / "report.html").stat().st_size > 1000


def test_what_is_refused(links: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for changed, message in (
        (["--unit", "value"], "--unlisted zero needs --unit entry"),
        (["--bounds", "1", "5"], "bounds must begin at 0"),
        (["--method", "gram"], "takes cells without an entry for unknown"),
        (["--loss", "poisson"], "--loss cannot be used with --epsilon"),
    ):
        assert release(links, "--unlisted", "zero", *changed) == 2
        assert message in capsys.readouterr().err.replace("\n", " ")
    place = ["--indices", "--private-shape", "30,20", "-o", str(links.parent / "release"), "--interval", "0.9"]
    assert run(["complete", str(links), *PROMISE, *place, "--unlisted", "zero"]) == 2  # before anything is charged
    assert "do not know their errors" in capsys.readouterr().err.replace("\n", " ")
    assert not (links.parent / "release").exists()
