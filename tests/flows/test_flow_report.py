"""From a command to its report: where it stands, what is in it, and what never is."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.cli.main import run
from tensorveil.privacy import Ledger
from tensorveil.release.names import OWNER_REPORT, REPORT
from tensorveil.release.release import load_release, write_release
from tests.flows.private_cases import RELEASE, SECRET, assert_nothing_private, complete, names, new_ledger, write_table

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "report.md"


def text_of(path: Path) -> Any:
    page = path.read_text(encoding="utf-8")
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)))


def test_a_release_comes_with_its_report_and_the_owner_has_another(tmp_path: Path) -> None:
    path, output, aside = write_table(tmp_path / "ratings.csv"), tmp_path / "release", tmp_path / "aside"
    ledger = new_ledger(tmp_path / "ratings.ledger")
    assert complete(path, output, "--ledger", ledger, "--diagnostics", aside, "--purpose", "first <look>") == 0
    _, guarantee = load_release(output)
    public, private = text_of(output / REPORT), text_of(aside / OWNER_REPORT)
    assert guarantee.sentence() in public
    assert "May be published" in public
    assert "Budget explorer" in public
    assert "Do not publish" not in public
    assert_nothing_private(output)
    assert "Do not publish" in private
    assert "Residuals by user" in private
    assert "before: as observed" in private
    assert "first <look>" in private
    assert "epsilon = 2 is spent and 1 is left" in private
    for word in ("Residual", "before:", "Measured", "first &lt;look"):
        assert word not in public


def test_the_report_can_be_left_out(tmp_path: Path) -> None:
    path, aside = write_table(tmp_path / "ratings.csv"), tmp_path / "aside"
    assert complete(path, tmp_path / "release", "--no-report", "--diagnostics", aside) == 0
    assert names(tmp_path / "release") == [name for name in RELEASE if name != REPORT]
    assert names(aside) == ["DO_NOT_PUBLISH.txt", "diagnostics.json"]
    assert run(["complete", str(path), "-o", str(tmp_path / "open"), "--no-report", "--no-fill", "--rank", "1"]) == 0
    assert names(tmp_path / "open") == ["model.npz", "summary.json"]


def test_in_unit_entry_there_is_no_explorer(tmp_path: Path) -> None:
    """The planner asks for the number of entries, which is private in this unit."""
    path, output = write_table(tmp_path / "ratings.csv", indices=True), tmp_path / "release"
    assert complete(path, output, "--delta", "1e-6", unit="entry") == 0
    page = text_of(output / REPORT)
    assert "add or remove one entry" in page
    assert "There is none for this release" in page
    assert 'id="budget"' not in page


def test_labels_of_the_data_run_no_script(tmp_path: Path) -> None:
    nasty = '</title></script><script>alert(1)</script>" onload="x'
    rows = [
        f'"{nasty.replace(chr(34), chr(34) * 2)} {i}",film {j},{1 + (i * j) % 5}' for i in range(8) for j in range(6)
    ]
    (tmp_path / "ratings.csv").write_text("user,film,rating\n" + "\n".join(rows) + "\n")
    arguments = ["complete", str(tmp_path / "ratings.csv"), "--rank", "2", "--bounds", "1", "5", "--no-fill"]
    assert run([*arguments, "-o", str(tmp_path / "open")]) == 0
    private = [
        "--value",
        "rating",
        "--epsilon",
        "50",
        "--unit",
        "value",
        "--method",
        "input",
        "--diagnostics",
        str(tmp_path / "aside"),
    ]
    assert run([*arguments, *private, "-o", str(tmp_path / "release")]) == 0
    for path in (tmp_path / "open" / REPORT, tmp_path / "release" / REPORT, tmp_path / "aside" / OWNER_REPORT):
        page = path.read_text()
        assert "<script>alert" not in page
        assert '" onload=' not in page
        assert page.count("</title>") == 1
        assert "&lt;script&gt;alert(1)" in page


def test_a_completion_without_privacy_says_so(tmp_path: Path) -> None:
    path, output = write_table(tmp_path / "ratings.csv"), tmp_path / "open"
    arguments = ["complete", str(path), "-o", str(output), "--bounds", "1", "5", "--rank", "2", "--validation", "0.2"]
    assert run(arguments) == 0
    page = text_of(output / REPORT)
    for words in ("Not private", "No privacy was asked for", "What privacy would cost", "error held out", "before:"):
        assert words in page
    assert "May be published" not in page
    assert run([*arguments, "--force"]) == 0  # a report is one of the files that --force replaces


def test_a_report_that_fails_leaves_no_release_and_no_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(page: Any) -> None:
        raise RuntimeError(f"cannot draw {SECRET}")

    monkeypatch.setattr("tensorveil.report.page.render", broken)
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ratings.ledger")
    assert complete(path, tmp_path / "release", "--ledger", ledger) == 1
    assert sorted(found.name for found in tmp_path.iterdir()) == ["ratings.csv", "ratings.ledger"]
    assert [charge.status for charge in Ledger.open(ledger).entries()] == ["spent, release unknown"]
    assert SECRET not in capsys.readouterr().err


def test_python_writes_the_same(tmp_path: Path) -> None:
    from tensorveil.completion import PrivateCP
    from tensorveil.tensor import read

    tensor = read(write_table(tmp_path / "ratings.csv"), value="rating")
    private = PrivateCP(2, epsilon=2.0, delta=0.0, unit="value", bounds=(1, 5), sweeps=2).fit(tensor)
    folder = write_release(private, tmp_path / "release")
    assert private.guarantee_.sentence() in text_of(folder / REPORT)
    assert "Move epsilon and see" in text_of(folder / REPORT)
    assert REPORT in (folder / "MODEL_CARD.md").read_text()
    seeded = PrivateCP(2, epsilon=2.0, delta=0.0, unit="value", bounds=(1, 5), sweeps=2, noise_seed=1).fit(tensor)
    folder = write_release(seeded, tmp_path / "seeded", allow_not_private=True)
    page = text_of(folder / f"NOT-PRIVATE-{REPORT}")
    assert "Do not publish" in page
    assert "May be published" not in page


def test_audits_write_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "audit.html"
    names_of = ["noise/laplace, fine grid", "published/matrix noise of Guo"]
    assert run(["audit", *names_of, "--samples", "2000", "--report", str(place), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    page = text_of(place)
    assert "1 of 2 claims are violated" in page
    for result in found:
        sentence = result["sentence"][0].upper() + result["sentence"][1:]
        assert sentence.replace("&", "&amp;") in page
    assert re.search(r'laplace, fine grid <span class="status proven">', page)
    assert re.search(r'noise of Guo <span class="status refuted">', page)
    assert "Trade-off curve of noise/laplace, fine grid" in page


def test_a_mechanism_of_ones_own_is_only_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def half(data, rng, n):\n    return data.sum() + rng.laplace(scale=1.0, size=n)\n"
    )
    np.save("a.npy", np.array([0.0, 1.0]))
    np.save("b.npy", np.array([0.0, 0.0]))
    own = ["--neighbours", "a.npy", "b.npy", "--epsilon", "3", "--batched", "--kind", "law", "--samples", "2000"]
    assert run(["audit", "mine.py:half", *own, "--report", "own.html"]) == 0
    assert re.search(r'mine.py:half <span class="status claimed">', text_of(tmp_path / "own.html"))


def test_attacks_on_a_release_are_for_its_owner(tmp_path: Path) -> None:
    path, output = write_table(tmp_path / "ratings.csv"), tmp_path / "release"
    assert complete(path, output) == 0
    place = tmp_path / "attack.html"
    code = run(["audit", str(output), "--data", str(path), "--report", str(place)])
    assert code in (0, 3)
    page = text_of(place)
    assert "Do not publish" in page
    assert 'class="status proven"' in page


@pytest.mark.parametrize(("name", "words"), [("audit.pdf", ".html"), ("none/audit.html", "does not exist")])
def test_a_report_that_could_not_be_written_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: Any
) -> None:
    assert run(["audit", "noise/laplace, fine grid", "--report", str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err


def test_the_page_on_reports_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    names_there: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "report.md", "exec"), names_there)
    assert "Budget explorer" in text_of(tmp_path / "reported-release" / REPORT)
    assert "What privacy costs" in text_of(tmp_path / "study.html")
    for target in re.findall(r"\]\(([\w/.-]+?)(?:#[\w-]+)?\)", page):
        assert (PAGE.parent / target).exists(), target
