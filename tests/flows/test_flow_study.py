"""`tensorveil study` from command to figure and page; killed in the middle it goes on, and the result is the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tensorveil.cli.main import run
from tensorveil_evidence.studies import jobs, progress, runner
from tensorveil_evidence.studies.catalogue import list_studies
from tensorveil_evidence.studies.learning import glove, mobilenet

SMALL = "yuan-table-5"


def start(folder: Path, *options: Any, name: Any = SMALL) -> Any:
    command = [sys.executable, "-c", "from tensorveil.cli.main import main; main()", "study", name]
    return subprocess.Popen(
        [*command, "--output", str(folder), "--jobs", "2", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Any) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def cells(folder: Path, name: Any = SMALL) -> Any:
    return {path.stem: json.loads(path.read_text()) for path in (folder / "cells" / name).glob("*.json")}


def workers_of(pid: Any) -> Any:
    """Processes whose parent was this one; children of a killed process are adopted, so look before the kill."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return [int(child) for child in file.read().split()]


def gone(pid: Any) -> Any:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def kill_in_the_middle(process: Any, ready: Any) -> None:
    """Kill without a warning once ``ready`` says so; the workers leave by themselves."""
    while not ready():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    children = workers_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    until = time.monotonic() + 60
    while not all(map(gone, children)):
        assert time.monotonic() < until, "workers outlive the process that started them"
        time.sleep(0.05)


def same_results(first: Any, second: Any, name: Any = SMALL) -> None:
    assert pq.read_table(first / f"{name}.parquet").equals(pq.read_table(second / f"{name}.parquet"))
    for ending in ("svg", "md"):
        texts = [(folder / f"{name}.{ending}").read_text() for folder in (first, second)]
        if ending == "md":  # the page tells how long it took
            texts = [text.split("## Again")[0] for text in texts]
        assert texts[0] == texts[1]
    facts = [json.loads((folder / f"{name}.json").read_text()) for folder in (first, second)]
    for fact in facts:
        for cell in fact["cells"]:
            cell.pop("seconds")
    assert facts[0] == facts[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    finish(start(folder, "--runs", "3"))
    return folder


def test_a_killed_study_goes_on_and_gives_the_same_result(tmp_path: Path, whole: Any) -> None:
    kill_in_the_middle(start(tmp_path, "--runs", "3"), lambda: len(cells(tmp_path)) >= 3)
    before = cells(tmp_path)
    assert 3 <= len(before) < len(list_studies()[SMALL].cells(3, False))
    assert not (tmp_path / f"{SMALL}.parquet").exists()
    finish(start(tmp_path, "--runs", "3", "--jobs", "1"))  # nor does the number of processes matter
    same_results(tmp_path, whole)
    # What was finished before was not computed again: not even its time has changed.
    after = {cell["key"]: cell for cell in json.loads((tmp_path / f"{SMALL}.json").read_text())["cells"]}
    for key, cell in before.items():
        assert after[key]["seconds"] == round(cell["seconds"], 2)


@pytest.mark.slow
def test_many_kills_at_random_change_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    name, rng = "claims", random.Random(1)
    finish(start(first, "--quick", name=name))
    for number in range(1, 5):
        # Some cells, and then a moment that nobody has chosen.
        moment = rng.uniform(0, 3)

        def ready(number: Any = number, moment: Any = moment) -> Any:
            if len(cells(second, name)) < 15 * number:
                return False
            time.sleep(moment)
            return True

        kill_in_the_middle(start(second, "--quick", name=name), ready)
    assert not (second / f"{name}.parquet").exists()
    finish(start(second, "--quick", name=name))
    same_results(first, second, name)


def test_everything_is_written(whole: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(path.name for path in whole.iterdir()) == [
        f"{SMALL}.{ending}" for ending in ("html", "json", "md", "parquet", "png", "svg")
    ]
    page = (whole / f"{SMALL}.md").read_text()
    assert f"![{list_studies()[SMALL].title}]({SMALL}.svg)" in page
    svg = (whole / f"{SMALL}.svg").read_text()
    for word in ("Unit: tensor", "Delta: 1e-05", "Guarantees: proven"):
        assert word in page
        assert word.split(":")[0] in svg
    facts = json.loads((whole / f"{SMALL}.json").read_text())
    assert facts["quick"] is False
    assert len(facts["cells"]) == 12


def test_redrawing_computes_nothing(
    whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for ending in ("parquet", "json"):
        (tmp_path / f"{SMALL}.{ending}").write_bytes((whole / f"{SMALL}.{ending}").read_bytes())
    monkeypatch.setattr(jobs, "run_study", None)
    assert run(["study", SMALL, "--redraw", "-o", str(tmp_path), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["name"] == SMALL
    same_results(tmp_path, whole)
    assert (tmp_path / f"{SMALL}.md").read_text() == (whole / f"{SMALL}.md").read_text()
    assert run(["study", "all", "--redraw", "-o", str(tmp_path), "--json"]) == 0
    others = [each for each in json.loads(capsys.readouterr().out) if each["name"] != SMALL]
    assert others
    assert all("has no results to draw" in each["skipped"] for each in others)
    assert run(["study", "claims", "--redraw", "-o", str(tmp_path)]) == 2
    assert "holds no finished results of claims" in capsys.readouterr().err


def test_a_smaller_run_does_not_replace_a_larger_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "cells_in_results", lambda *_: 13)
    assert run(["study", SMALL, "-o", str(tmp_path)]) == 2
    assert "a larger run of yuan-table-5" in capsys.readouterr().err


def test_data_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    assert run(["study", "wei-figure-4", "--quick", "-o", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    for word in ("ml-100k", "grouplens.org", "TENSORVEIL_DATA"):
        assert word in told
    monkeypatch.setattr(jobs, "list_studies", lambda: {"wei-figure-4": list_studies()["wei-figure-4"]})
    assert run(["study", "all", "--quick", "-o", str(tmp_path)]) == 0
    assert "skipped" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_data_of_every_study_can_be_had_somewhere() -> None:
    for study in list_studies().values():
        if study.dataset is not None:
            home = jobs._find_data(study.dataset)[1]
            assert home is not None
            assert home.startswith("http")


def test_the_list_tells_the_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "--list", "--json"]) == 0
    facts = {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert set(facts) == set(list_studies())
    assert facts["wei-figure-4"]["dataset"] == "ml-100k"
    assert facts["yuan-figure-3-svhn"]["also"] == [mobilenet.PLACE[0]]
    assert facts["yuan-figure-3-imdb"]["also"] == [glove.PLACE[0]]
    assert facts["yuan-figure-1-svhn"]["also"] == []
    assert all(fact["quick_minutes"] <= fact["full_minutes"] for fact in facts.values())
    assert run(["study", "--list"]) == 0
    assert "minutes of one core" in capsys.readouterr().out
    assert run(["study"]) == 2
    assert run(["study", "nothing"]) == 2


def test_progress_tells_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    lines = progress.ProgressLines("one")
    lines(0, 4, float("nan"))
    lines(1, 4, 30.0)  # too soon after the last line
    lines(4, 4, 0.0)
    assert capsys.readouterr().err.splitlines() == [
        "one: 0 of 4 cells, time left not known yet",
        "one: 4 of 4 cells, done",
    ]
    assert progress.write_time_left(45) == "about 45 s left"
    assert progress.write_time_left(600) == "about 10 min left"
    assert progress.write_time_left(7200) == "about 2.0 h left"
