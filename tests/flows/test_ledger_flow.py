"""The ledger under fire: processes killed at any moment, and processes that race for the last of the budget."""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run
from tensorveil.privacy import Budget, Gaussian, Ledger, Pure

# Charges, writes the release, confirms, again and again; tells when it starts.
WORKER = """
import sys, uuid
from pathlib import Path
from tensorveil.privacy import BudgetExceededError, Ledger, Pure
ledger, folder = Ledger.open(sys.argv[1]), Path(sys.argv[2])
epsilon, rounds = float(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    name = uuid.uuid4().hex
    try:
        ledger.charge(Pure(epsilon), "flow", name)
    except BudgetExceededError:
        break
    (folder / name).write_text("released")
    ledger.confirm(name)
"""

# Kills itself before its n-th statement of SQL.
SUICIDE = """
import os, signal, sqlite3, sys
real, left = sqlite3.connect, [int(sys.argv[5])]
def count(_):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
def connect(*args, **kwargs):
    connection = real(*args, **kwargs)
    connection.set_trace_callback(count)
    return connection
sqlite3.connect = connect
"""


def start(ledger: Any, folder: Path, epsilon: float, rounds: Any, *, before: str = "", more: Any = ()) -> Any:
    arguments = [str(argument) for argument in (ledger.path, folder, epsilon, rounds, *more)]
    return subprocess.Popen(
        [sys.executable, "-c", before + WORKER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def go(process: Any) -> None:
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


def check(ledger: Any, folder: Path) -> Any:
    """No release without its charge, nothing confirmed that was not written, and a ledger that works."""
    entries = {charge.release_id: charge for charge in Ledger.open(ledger.path).entries()}
    released = {found.name for found in folder.iterdir()}
    assert released <= set(entries)
    assert {name for name, charge in entries.items() if charge.confirmed} <= released
    # at most one release is in doubt for every process that was killed
    return len(entries), len(entries) - len(released)


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    return Ledger.create(tmp_path / "data.ledger", budget=Budget(epsilon=1e6, delta=0.0), unit="value", name="flow")


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    folder = tmp_path / "releases"
    folder.mkdir()
    return folder


def wait_for_release(folder: Path, before: int) -> None:
    """However busy the machine is, the process has worked once there is one more release."""
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) <= before:
        assert time.monotonic() < end, "the process must release something"
        time.sleep(0.001)


def kill_at_random_times(ledger: Any, folder: Path, kills: Any) -> None:
    """Every second process is killed some time after its first release, the others maybe before."""
    rng = random.Random(7)
    for turn in range(kills):
        before = len(list(folder.iterdir()))
        process = start(ledger, folder, 0.001, 10**6)
        go(process)
        if turn % 2:
            wait_for_release(folder, before)
        time.sleep(rng.uniform(0, 0.06))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        check(ledger, folder)
    charges, doubtful = check(ledger, folder)
    assert charges >= kills // 2
    assert doubtful <= kills
    ledger.charge(Pure(0.5), "still works", "last")


def test_killed_processes_never_release_without_a_charge(ledger: Any, folder: Path) -> None:
    kill_at_random_times(ledger, folder, 25)


@pytest.mark.slow
def test_killed_processes_never_release_without_a_charge_100_times(ledger: Any, folder: Path) -> None:
    kill_at_random_times(ledger, folder, 100)


def test_killed_before_every_single_statement(ledger: Any, folder: Path) -> None:
    for statements in range(60):
        process = start(ledger, folder, 0.001, 1, before=SUICIDE, more=(statements,))
        process.communicate("go\n")
        check(ledger, folder)
        if process.returncode == 0:
            break
    # Some died before the charge was made, some between the release and its confirmation, the last one lived.
    unconfirmed = [charge for charge in ledger.entries() if not charge.confirmed]
    assert process.returncode == 0
    assert 0 < len(unconfirmed) < len(ledger.entries()) < statements


def test_two_processes_cannot_overspend(tmp_path: Path, folder: Path) -> None:
    ledger = Ledger.create(tmp_path / "race", budget=Budget(epsilon=1.5, delta=0.0), unit="value", name="race")
    processes = [start(ledger, folder, 0.01, 100) for _ in range(2)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    # 200 charges were tried, 150 fit
    assert check(ledger, folder) == (150, 0)
    assert ledger.spent().epsilon == 1.5


def test_a_forked_child_charges_on_its_own(ledger: Any) -> None:
    ledger.charge(Pure(0.1), "parent", "parent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn if a test runner's thread is there
        child = os.fork()
    if child == 0:
        try:
            ledger.charge(Pure(0.1), "child", "child")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    ledger.charge(Pure(0.1), "parent", "parent again")
    assert [charge.release_id for charge in ledger.entries()] == ["parent", "child", "parent again"]


def test_the_command_creates_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "ratings.ledger")
    create = ["budget", "create", path, "--epsilon", "1", "--delta", "1e-6", "--unit", "value", "--name", "ratings"]
    assert run(create) == 0
    assert "nothing spent yet" in capsys.readouterr().out
    assert run(["budget", path]) == 0
    assert "first charge" in capsys.readouterr().out

    ledger = Ledger.open(path)
    ledger.charge(Gaussian(0.1), "mean [rating]", "mean-1")
    ledger.confirm("mean-1")
    ledger.charge(Gaussian(0.1), "factors", "factors-1")
    assert run(["budget", path]) == 0
    text = capsys.readouterr().out
    for words in ("ratings", "replace one value", "mean [rating]", "mu = 0.1", "released", "spent, release unknown"):
        assert words in text

    assert run(["budget", path, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["budget"] == {"epsilon": 1.0, "delta": 1e-6}
    assert facts["composition"] == "gaussian"
    assert [charge["status"] for charge in facts["charges"]] == ["released", "spent, release unknown"]
    assert facts["spent"]["epsilon"] < 1
    assert facts["charges"][0]["event"] == {"kind": "gaussian", "mu": 0.1}


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "x.ledger")
    create = ["budget", "create", path, "--epsilon", "1", "--delta", "0", "--unit", "entry", "--name", "x", "--json"]
    assert run(create) == 0
    assert json.loads(capsys.readouterr().out)["unit"] == "entry"
    for arguments, message in (
        (create, "already"),
        (["budget", str(tmp_path / "missing")], "no ledger at"),
        (["budget", str(tmp_path)], "directory"),
        ([*create[:2], str(tmp_path / "y"), *create[3:6], "2", *create[7:]], "delta must be"),
        ([*create[:2], str(tmp_path / "y"), *create[3:8], "person", *create[9:]], "unit must be"),
        (["budget", "create", path, "--epsilon", "1"], "Missing option"),
    ):
        assert run(arguments) == 2, arguments
        assert message in capsys.readouterr().err
    assert [found.name for found in tmp_path.iterdir()] == ["x.ledger"]


def test_the_page_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "budget.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "budget.md", "exec"), {})
    assert "would exceed the budget" in capsys.readouterr().out
    commands = re.findall(r"^\$ tensorveil (.*)$", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert run(shlex.split(command)) == 0
