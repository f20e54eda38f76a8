"""One run at a time, in a process of its own: started, watched, and interrupted when asked."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tensorveil.desk.errors import FieldError
from tensorveil.errors import TensorveilError
from tensorveil.privacy import Ledger

__all__ = ["Runner"]

# Without -P Python would import modules from the folder that it is started in, which may be one of data.
WORKER: Final = (sys.executable, "-P", "-m", "tensorveil.desk.worker")
UNEXPLAINED: Final = "The run ended without a word, as a process does that was killed or ran out of memory."


class Runner:
    """The desk's runs: at most one is under way.

    Parameters
    ----------
    command
        The process that makes a run; tests give one that fails where they want it to.
    """

    def __init__(self, command: Sequence[str] = WORKER) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._watcher: threading.Thread | None = None
        self._ready = False
        self._state: dict[str, Any] = {"state": "idle", "number": 0}
        self._started = 0.0
        self.released: dict[int, tuple[Path, frozenset[str]]] = {}

    def start(self, request: Mapping[str, Any], ledger: Path) -> int:
        """Start a run and return its number; refuse while another one is under way."""
        with self._lock:
            if self._state["state"] == "running":
                raise FieldError("run", "a run is under way. Wait for it, or cancel it.")
            before = {charge.release_id for charge in Ledger.open(ledger).entries()}
            # In a session of its own: Ctrl-C in the desk's terminal ends the desk, which then interrupts the run.
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                encoding="utf-8", start_new_session=True,
            )  # fmt: skip
            self._process, self._started, self._ready = process, time.monotonic(), False
            number = self._state["number"] + 1
            self._state = {"state": "running", "number": number, "step": "starting"}
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as pipe:  # one that died at once is found by its watcher
            pipe.write(json.dumps(request) + "\n")
        self._watcher = threading.Thread(target=self._watch, args=(process, ledger, before), daemon=True)
        self._watcher.start()
        return int(number)

    def look(self) -> dict[str, Any]:
        """Return how far the run is, or what became of it."""
        with self._lock:
            state = dict(self._state)
            if state["state"] == "running":
                state["seconds"] = round(time.monotonic() - self._started)
            return state

    def cancel(self) -> None:
        """Interrupt the run as Ctrl-C does, once; it says itself what was charged."""
        with self._lock:
            process = self._process
            if process is None or self._state["state"] != "running":
                raise FieldError("run", "no run is under way.")
            again, self._state["step"] = self._state["step"] == "cancelling", "cancelling"
            if self._ready and not again:  # a second interrupt would disturb the tidying up after the first
                process.send_signal(signal.SIGINT)

    def close(self, patience: float = 20.0) -> list[str]:
        """Interrupt what is under way, and return what is to be told of it."""
        with contextlib.suppress(FieldError):
            self.cancel()
        watcher, process = self._watcher, self._process
        if watcher is None or process is None:
            return []
        running = watcher.is_alive()
        watcher.join(patience)
        if watcher.is_alive():
            process.kill()
            watcher.join(patience)
        return list(self.look().get("notes", [])) if running else []

    def _watch(self, process: subprocess.Popen[str], ledger: Path, before: set[str]) -> None:
        """Follow a run to its end."""
        assert process.stdout is not None
        final: dict[str, Any] | None = None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if "ready" in said:
                    self._welcome(process)
                elif "step" in said:
                    self._advance(said["step"])
                elif "rounds" in said:
                    self._count(said)
                else:
                    final = said
        process.stdout.close()
        process.wait()
        with self._lock:
            self._state = {"number": self._state["number"], **self._conclude(final, ledger, before)}

    def _welcome(self, process: subprocess.Popen[str]) -> None:
        """Note that interrupts are heard, and send the one that came too early for that."""
        with self._lock:
            self._ready = True
            if self._state["step"] == "cancelling":
                process.send_signal(signal.SIGINT)

    def _advance(self, step: str) -> None:
        with self._lock:
            if self._state["step"] != "cancelling":
                self._state["step"] = step

    def _count(self, said: dict[str, Any]) -> None:
        with self._lock:
            self._state |= {"rounds": said["rounds"], "counted": said["counted"]}

    def _conclude(self, final: dict[str, Any] | None, ledger: Path, before: set[str]) -> dict[str, Any]:
        if final is None:
            return {"state": "failed", "message": UNEXPLAINED, "field": None, "notes": _list_new(ledger, before)}
        if "done" in final:
            done = final["done"]
            self.released[self._state["number"]] = (Path(done["folder"]), frozenset(done["files"]))
            return {"state": "done", **done}
        if "cancelled" in final:
            notes = final["cancelled"]
            new = [] if notes else _list_new(ledger, before)
            message = "Cancelled, after the ledger was charged." if notes else "Cancelled. Nothing was charged."
            message = "Cancelled." if new else message
            return {"state": "cancelled", "message": message, "field": None, "notes": notes or new}
        return {"state": "failed", **final["failed"]}


def _list_new(ledger: Path, before: set[str]) -> list[str]:
    """Say which charges the ledger has now that it had not when the run began, for a run that cannot say it itself."""
    try:
        new = [charge.release_id for charge in Ledger.open(ledger).entries() if charge.release_id not in before]
    except (TensorveilError, OSError):
        return [f"Look into {ledger.name}: it may have been charged."]
    if not new:
        return []
    return [f"{ledger.name} was charged since this run began, and a charge is never taken back: {', '.join(new)}."]
