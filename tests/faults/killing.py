"""Runs that are killed: a process that has loaded everything forks, and the fork dies at a chosen moment of its run.

    python -m tests.faults.killing FOLDER VERB [MOST [ERROR]]

With strace the moment is a system call that writes; without it, an event that Python announces before one. With an
ERROR, such as ENOSPC or EIO, the call fails instead, and the run is to cope with it.

A verb that writes joins by a line in `commands` and in the list of test_killing.py; by one in `UNITS` if it charges a
ledger, and in `RELEASES` if it writes a release; and by what `check` is to find of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import CHARGED

CALLS = (
    "write", "pwrite64", "writev", "fsync", "fdatasync", "rename", "renameat2", "unlink", "mkdir", "rmdir",
    "ftruncate", "link", "chmod", "fchmod", "unlinkat",
)  # fmt: skip
EVENTS = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link", "os.chmod", "sqlite3.connect")
EPSILON = ["--epsilon", "1", "--unit", "value", "--bounds", "1", "5", "--value", "rating", "--method", "mean"]


FEDERATED = [
    "--indices", "--value", "rating", "--private-shape", "6,5", "--bounds", "1", "5", "--epsilon", "1",
    "--delta", "1e-5", "--sweeps", "0", "--clients", "2", "--trust", "aggregator",
]  # fmt: skip
STORED = ["--indices", "--order", "user", "--unit", "slice:user", "--bounds", "1", "5", "--private-shape", "6,5"]
ROUNDS = [*STORED[3:], "--epsilon", "1", "--delta", "1e-5"]
UNITS = {
    "complete": "value", "diagnostics": "value", "perturb": "tensor", "federate": "slice:user", "rounds": "slice:user",
}  # fmt: skip
RELEASES = ("complete", "diagnostics", "federate", "rounds")


def prepare(folder: Path) -> None:
    """Write what the runs read, and let everything be compiled and loaded once."""
    rng = np.random.default_rng(2)
    rows = [f"{i},{j},{rng.integers(1, 6)}" for i in range(6) for j in range(5) if (i + j) % 3]
    (folder / "ratings.csv").write_text("user,film,rating\n" + "\n".join(rows) + "\n")
    np.save(folder / "people.npy", rng.random((8, 3)))
    assert perturb(folder, folder / "reports.npy") == 0
    assert store(folder, folder / "store") == 0


def store(folder: Path, target: Path, *more: str) -> int:
    files = [str(folder / "ratings.csv"), "--value", "rating", "-o", str(target)]
    return run(["store", *files, *STORED, *more])


def perturb(folder: Path, target: Path, *more: str) -> int:
    promise = ["--owners", "--epsilon", "1", "--unit", "tensor", "--bounds", "0", "1", *more]
    return run(["perturb", str(folder / "people.npy"), str(target), *promise])


def commands(folder: Path, place: Path) -> dict[str, Callable[[], int]]:
    """Return the runs by name; each works in a place of its own."""
    fit = ["complete", str(folder / "ratings.csv"), "--rank", "1", "--threads", "1", "--no-report"]
    places = ["--ledger", str(place / "ledger"), "-o", str(place / "out")]
    budget = ["--epsilon", "9", "--delta", "0", "--name", "data"]
    return {
        "complete": lambda: run([*fit, *EPSILON, *places]),
        "force": lambda: run([*fit, "--solver", "als", "--sweeps", "1", "--force", "-o", str(place / "out")]),
        "perturb": lambda: perturb(folder, place / "out.npy", "--ledger", str(place / "ledger")),
        "aggregate": lambda: run(["aggregate", str(folder / "reports.npy"), "-o", str(place / "out.npz")]),
        "diagnostics": lambda: run([*fit[:-1], *EPSILON, *places, "--diagnostics", str(place / "mine")]),
        "federate": lambda: run(["federate", "simulate", *fit[1:2], *FEDERATED, *places]),
        "store": lambda: store(folder, place / "store"),
        "restore": lambda: store(folder, place / "store", "--force"),
        "rounds": lambda: run(["complete", str(folder / "store"), *fit[2:], *ROUNDS, *places]),
        "budget": lambda: run(["budget", "create", str(place / "ledger"), "--unit", "value", *budget]),
    }


def set_up(verb: str, folder: Path, place: Path) -> None:
    """Make what a run finds."""
    place.mkdir()
    if verb in UNITS:
        budget = tv.Budget(epsilon=9.0, delta=1e-3 if verb in ("federate", "rounds") else 0.0)
        tv.Ledger.create(place / "ledger", budget=budget, unit=UNITS[verb], name="data")
    if verb in ("force", "restore"):
        assert commands(folder, place)[verb]() == 0


def check(verb: str, folder: Path, place: Path) -> str | None:
    """Say what is wrong after a kill, if anything is; then let the next run succeed."""
    ledger = place / "ledger"
    charges = [] if not ledger.exists() else list(tv.Ledger.open(ledger).entries())
    if verb in RELEASES and (place / "out").exists():
        tv.load_release(place / "out")
        if len(charges) != 1:
            return "a release without a charge"
        return None
    if verb == "force":
        tv.load_model(place / "out" / "model.npz")
        json.loads((place / "out" / "summary.json").read_text())
    if verb == "perturb" and (place / "out.npy").exists():
        np.load(place / "out.npy")
        json.loads((place / "out.npy.guarantee.json").read_text())
        return None if len(charges) == 1 else "a report without a charge"
    if verb == "perturb":
        (place / "out.npy.guarantee.json").unlink(missing_ok=True)  # a promise without a report; it says so itself
    if verb == "restore" or (verb == "store" and (place / "store").exists()):
        tv.StoredTensor.open(place / "store").load()
    if verb == "store" and (place / "store").exists():
        return None
    if verb == "aggregate" and (place / "out.npz").exists():
        np.load(place / "out.npz")
        return None
    if verb == "budget" and ledger.exists():
        return None
    code = commands(folder, place)[verb]()
    if code != 0:
        return f"the next run ended with {code}"
    if verb in UNITS:
        entries = tv.Ledger.open(ledger).entries()
        if len(entries) != len(charges) + 1 or entries[-1].status != "released":
            return "a charge was lost"
    return None


def fork(work: Callable[[], int], *, quiet: bool = True) -> int:
    """Run in a fork; return its process id."""
    child = os.fork()
    if child:
        return child
    try:
        if quiet:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
        code = work()
    except BaseException:
        code = 99
    os._exit(code)


def kill_at_event(work: Callable[[], int], place: Path, number: int) -> bool:
    """Kill a run before its n-th announced event in a folder; return whether there was one."""

    def doomed() -> int:
        seen = 0

        def hook(event: str, given: Any) -> None:
            nonlocal seen
            if event in EVENTS and given and str(place) in str(given[0]):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        return work()

    _, status = os.waitpid(fork(doomed), 0)
    return os.WIFSIGNALED(status)


def trace(work: Callable[[], int], *options: str) -> tuple[int, str]:
    """Run in a fork that strace follows from its beginning."""

    def waiting() -> int:
        os.kill(os.getpid(), signal.SIGSTOP)
        return work()

    child = fork(waiting)
    os.waitpid(child, os.WUNTRACED)
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", *options, "-p", str(child)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    while "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
        time.sleep(0.002)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    _, text = tracer.communicate()
    return status, text.decode(errors="replace")


def moments(verb: str, folder: Path, place: Path) -> Iterator[tuple[str, int]]:
    """Yield every system call of a run that writes: its name, and which one it is."""
    set_up(verb, folder, place)
    os.waitpid(fork(commands(folder, place)[verb]), 0)  # the first run may write what later ones find, as caches
    shutil.rmtree(place)
    set_up(verb, folder, place)
    _, text = trace(commands(folder, place)[verb], "-e", f"trace={','.join(CALLS)}")
    shutil.rmtree(place)
    for call in CALLS:
        for number in range(len(re.findall(rf"\b{call}\(", text))):
            yield call, number + 1


def kill_everywhere(verb: str, folder: Path, most: int) -> dict[str, Any]:
    """Kill a run at every system call that writes, or at so many of them that are spread evenly."""
    found = list(moments(verb, folder, folder / "count"))
    step = max(1, -(-len(found) // most))
    kills, faults = 0, []
    for call, number in found[::step]:
        place = folder / "place"
        set_up(verb, folder, place)
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        status, _ = trace(commands(folder, place)[verb], "-e", f"trace={call}", "-e", inject)
        kills += os.WIFSIGNALED(status)
        try:
            wrong = check(verb, folder, place)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            faults.append(f"{verb}, {call} {number}: {wrong}")
        shutil.rmtree(place)
    return {"verb": verb, "moments": len(found), "kills": kills, "faults": faults}


def listen(work: Callable[[], int]) -> tuple[Callable[[], int], socket.socket]:
    """Return a run that says by a socket what it would have said on stderr, so that no call of that kind can fail."""
    here, there = socket.socketpair()

    def speaking() -> int:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = work()
        there.send(said.getvalue().encode()[-4000:] or b"-")
        return code

    return speaking, here


def fail_everywhere(verb: str, folder: Path, most: int, error: str) -> dict[str, Any]:
    """Let every system call of a run that writes fail once, or so many of them that are spread evenly."""
    found = list(moments(verb, folder, folder / "count"))
    step = max(1, -(-len(found) // most))
    failures, faults = 0, []
    for call, number in found[::step]:
        place = folder / "place"
        set_up(verb, folder, place)
        speaking, ear = listen(commands(folder, place)[verb])
        inject = f"inject={call}:error={error}:when={number}"
        status, text = trace(speaking, "-e", f"trace={call}", "-e", inject)
        failures += "(INJECTED)" in text
        ear.setblocking(False)
        said = ear.recv(5000).decode() if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 99 else "99"
        try:
            wrong = judge_failure(verb, folder, place, status, said, cleaning="unlink" in call or call == "rmdir")
        except Exception as problem:
            wrong = f"{type(problem).__name__}: {problem}"
        if wrong is not None:
            faults.append(f"{verb}, {call} {number}: {wrong}")
        shutil.rmtree(place)
    return {"verb": verb, "error": error, "moments": len(found), "failures": failures, "faults": faults}


def judge_failure(verb: str, folder: Path, place: Path, status: int, said: str, *, cleaning: bool) -> str | None:
    """Say what is wrong after a call has failed, if anything is; then let the next run succeed."""
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1, 2):
        return f"ended with {code}"
    ledger = place / "ledger"
    charged = verb in UNITS and bool(tv.Ledger.open(ledger).entries())
    if code and charged and CHARGED not in said:
        return f"charged, and did not say so: {said[-200:]}"
    if code and not charged and CHARGED in said:
        return "not charged, and said so"
    left = [path.name for path in place.iterdir() if path.name.startswith(".")]
    if left and not cleaning:
        return f"left {left}"
    return check(verb, folder, place)


if __name__ == "__main__":
    here = Path(sys.argv[1])
    sys.stdout, kept = open(os.devnull, "w"), sys.stdout  # noqa: PTH123, SIM115
    prepare(here)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10**9
    kind = sys.argv[4:]
    result = fail_everywhere(sys.argv[2], here, count, kind[0]) if kind else kill_everywhere(sys.argv[2], here, count)
    print(json.dumps(result), file=kept)
