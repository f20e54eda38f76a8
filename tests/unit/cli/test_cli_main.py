from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import click
import pytest

from tensorveil.cli import main as entry
from tensorveil.cli import plugins
from tensorveil.errors import InputError, MemoryLimitError, MissingDependencyError

VERBS = ["info", "complete", "predict", "demo", "doctor"]
HEAVY = ["numpy", "numba", "scipy", "pyarrow", "rich", "pandas", "matplotlib", "tensorly", "sklearn"]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], *([verb, "--help"] for verb in VERBS)])
def test_help_explains_and_gives_examples(arguments: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(arguments) == 0
    text = capsys.readouterr().out
    assert "tensorveil " in text
    assert "Example" in text or "Try it" in text


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from tensorveil.cli.main import run; run(['--help']); "
        f"heavy = [name for name in {HEAVY} if name in sys.modules]; sys.exit(str(heavy) if heavy else 0)"
    )
    start = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert time.perf_counter() - start < 5.0  # generous: other tests may run beside this one


def test_every_verb_is_a_command_in_a_module_of_its_name_and_imported_late() -> None:
    context = click.Context(entry.cli)
    for name in entry.VERBS:
        command = entry.cli.get_command(context, name)
        assert isinstance(command, click.Command)
        assert command.name == name
    code = (
        "import sys; from tensorveil.cli.main import VERBS, run; run(['--help']); "
        "late = [name for name in VERBS if f'tensorveil.cli.{name}' in sys.modules]; sys.exit(str(late) if late else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_misspelled_verb_is_told_which_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["inof"]) == 2
    assert "Did you mean 'info'?" in capsys.readouterr().err


class Broken:
    """An entry point of a package that cannot be imported, or that offers no command."""

    name, value = "study", "nowhere:study"

    def load(self) -> None:
        raise ImportError("no module named nowhere")


class NoCommand(Broken):
    def load(self) -> Any:
        return "not a command"


def test_verbs_of_other_packages_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--help"]) == 0
    assert "study" in capsys.readouterr().out
    assert entry.run(["study", "--help"]) == 0
    assert "tensorveil study --list" in capsys.readouterr().out


@pytest.mark.parametrize("point", [Broken(), NoCommand()])
def test_a_broken_package_spoils_its_own_verb_alone(
    point: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == plugins.GROUP else [])
    assert entry.run(["--help"]) == 0
    assert "(cannot be loaded)" in capsys.readouterr().out
    assert entry.run(["study", "wei-figure-2", "--quick"]) == 2
    assert "study cannot be loaded from nowhere:study. Install its package anew." in capsys.readouterr().err
    assert entry.run(["doctor", "--help"]) == 0


def test_without_other_packages_there_are_the_verbs_of_the_library(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    assert entry.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert "complete" in text
    assert "study" not in text
    assert entry.run(["study"]) == 2
    assert "No such command" in capsys.readouterr().err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tensorveil ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["complete"], "Missing argument"),
        (["nonsense"], "No such command"),
        (["info", "absent.csv"], "does not exist"),
        (["complete", __file__, "-o", "x", "--rank", "0"], "rank must be at least 1; got 0"),
        (["complete", __file__, "-o", "x", "--rank", "a"], "rank must be a whole number"),
        (["complete", __file__, "-o", "x", "--modes", "a,,b"], "separated by commas"),
        (["complete", __file__, "-o", "x", "--validation", "1.5"], "validation"),
        (["complete", __file__, "-o", "x", "--at", __file__, "--no-fill"], "exclude each other"),
    ],
)
def test_wrong_usage_leaves_with_2_and_one_message(
    arguments: Any, words: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("rank must be at least 1; got 0. Try rank=8."), 2, "Try --rank 8"),
        (MissingDependencyError("pip install it"), 2, "pip install it"),
        (MemoryLimitError("too large"), 2, "too large"),
        (PermissionError(13, "Permission denied", "/x"), 2, "Permission denied: /x"),
        (OSError(28, "No space left on device"), 1, "No space left"),
        (RuntimeError("secret 42"), 1, "unexpected RuntimeError"),
        (KeyboardInterrupt(), 130, "Interrupted"),
        (click.Abort(), 130, "Interrupted"),
    ],
)
def test_errors_become_one_message_and_an_exit_code(
    error: Any, code: Any, words: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("tensorveil.runs.doctor.examine", fail)
    assert entry.run(["doctor"]) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert "secret" not in captured.err  # a foreign message may quote the data
    if isinstance(error, Exception) and not isinstance(error, click.Abort):
        assert entry.run(["doctor", "--debug"]) == code
        assert "Traceback" in capsys.readouterr().err


def test_main_leaves_with_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tensorveil", "nonsense"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 2
