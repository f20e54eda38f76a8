from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run
from tensorveil.release import fill
from tests.flows.flow_cases import complete, written

GOOD = "user,film,rating\nann,Alien,5\nann,Brazil,4\nbob,Alien,1\nbob,Cube,2\n"


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (GOOD + "ann,Alien,3\n", [], "duplicates"),
        (GOOD + "eve,Cube,\n", [], "missing"),
        (GOOD + "eve,Cube,inf\n", [], "infinit"),
        (GOOD + "eve,Cube,lots\n", [], "number"),
        (GOOD, ["--bounds", "2", "4"], "bounds"),
        (GOOD, ["--bounds", "4", "2"], "bounds"),
        (GOOD, ["--modes", "user,director"], "director"),
        (GOOD, ["--value", "stars"], "stars"),
        (GOOD, ["--indices"], "integers"),
        (GOOD, ["--max-cells", "3"], "--at"),
        (GOOD, ["--rank", "2,2"], "rank"),
        (GOOD, ["--format", "xlsx"], "format"),
        ("rating\n5\n", [], "modes"),
        ("", [], ""),
    ],
)
def test_bad_input_leaves_with_2_one_message_and_no_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: Any, options: Any, words: Any
) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    assert complete(path, tmp_path / "result", *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert words in captured.err
    for secret in ("Traceback", "ann", "Alien", "Cube", "lots"):
        assert secret not in captured.err
    assert list(tmp_path.iterdir()) == [path]


def test_policies_settle_what_the_strict_reader_refuses(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(GOOD + "ann,Alien,3\neve,Cube,\n")
    policies = ["--duplicates", "mean", "--missing", "drop", "--bounds", 2, 4, "--out-of-bounds", "clip"]
    assert complete(path, tmp_path / "result", *policies) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"not a model", "not a readable tensorveil model"), (b"", "not a readable tensorveil model")],
)
def test_a_file_that_is_no_model_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, words: Any
) -> None:
    model, asked = tmp_path / "model.npz", tmp_path / "asked.csv"
    model.write_bytes(content)
    asked.write_text("a,b\n1,2\n")
    assert run(["predict", str(model), "--at", str(asked), "-o", str(tmp_path / "out.csv")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 1), (KeyboardInterrupt(), 130)])
def test_a_failing_write_leaves_nothing_and_keeps_the_old_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Any, code: Any
) -> None:
    path, output = written(tmp_path, ".csv"), tmp_path / "result"

    def fail(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(fill, "write_table", fail)
        assert complete(path, output) == code
    assert list(tmp_path.iterdir()) == [path]
    assert complete(path, output) == 0
    before = {found.name: found.read_bytes() for found in output.iterdir()}
    monkeypatch.setattr(fill, "write_table", fail)
    assert complete(path, output, "--force", "--seed", "1") == code
    assert {found.name: found.read_bytes() for found in output.iterdir()} == before
    assert sorted(found.name for found in tmp_path.iterdir()) == ["result", path.name]
    assert "Traceback" not in capsys.readouterr().err


STUCK = """
import sys, time
from tensorveil.cli import main
from tensorveil.models import CPModel
def stuck(model, path):
    path.write_bytes(b"half")
    print("half-way", flush=True)
    time.sleep(60)
CPModel.save = stuck
sys.argv = ["tensorveil", "complete", sys.argv[1], "-o", sys.argv[2], "--solver", "als", "--rank", "1", "--no-fill"]
main.main()
"""


@pytest.mark.parametrize(
    ("sent", "code", "left"),
    [(signal.SIGTERM, 143, 0), (signal.SIGINT, 130, 0), (signal.SIGKILL, -signal.SIGKILL, 1)],
)
def test_a_killed_run_never_shows_half_a_result(tmp_path: Path, sent: Any, code: Any, left: Any) -> None:
    path, output = written(tmp_path, ".csv"), tmp_path / "result"
    command = [sys.executable, "-c", STUCK, str(path), str(output)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half-way\n"
        process.send_signal(sent)
        _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in err
    assert not output.exists()
    # Nothing can clean up after SIGKILL; what stays is hidden and says that it is a part.
    parts = [found.name for found in tmp_path.iterdir() if found != path]
    assert len(parts) == left
    assert all(name.startswith(".result.") and name.endswith(".part") for name in parts)
