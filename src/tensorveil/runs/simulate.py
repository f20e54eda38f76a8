"""A federated run for trial: all parties on one machine, in one process or in several."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.flower.processes import LOOPBACK, free_port
from tensorveil.federated.identity import load_identity
from tensorveil.federated.server import Settings, run_server
from tensorveil.federated.setup import make_parties, split_users
from tensorveil.federated.transport import InProcess
from tensorveil.noise import SecureSource
from tensorveil.privacy import Budget, Ledger, Unit
from tensorveil.release.folder import check_folder
from tensorveil.release.release import load_release
from tensorveil.rounds import Recipe, run_recipe
from tensorveil.runs.federate import (
    FederatedRelease,
    Promise,
    agree_on,
    gather_facts,
    keep_log,
    log_rounds,
    read_group,
    release_reserved,
)
from tensorveil.runs.reading import Reading, read_privately
from tensorveil.tensor import ObservedTensor, load_dataset
from tensorveil.tensor.splits import cell_split

__all__ = ["Simulation", "simulate_federation"]

AGREEMENT, DATA, OWN_LEDGER = "agreement.json", "data.npz", "own.ledger"


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A federated run on one machine.

    Parameters
    ----------
    promise
        What is computed and promised.
    output
        The release folder to make.
    reading, dataset, time
        The data: a file, read by declared sizes (the reading's ``shape``), or else a named dataset, whose shape is
        public knowledge, perhaps with its time mode ("day", or a number of slices).
    clients
        How many clients the users are split over.
    processes, ray
        Whether a server and clients are separate processes, or clients are workers of Flower's simulation engine.
    held_out, seed
        About which share of the entries to judge by, and the seed of this split. Every entry is held out, or not, by
        its own coordinates, so that the release protects the users of all data.
    compare
        Whether to run centrally too.
    ledger
        The server's ledger.
    workdir
        Where to keep homes, agreement and logs of the parties; None keeps nothing, because there are data among them.
    """

    promise: Promise
    output: Path
    reading: Reading | None = None
    dataset: str | None = None
    time: str | None = None
    clients: int = 3
    processes: bool = False
    ray: bool = False
    held_out: float | None = None
    seed: int = 0
    compare: bool = False
    ledger: Path | None = None
    workdir: Path | None = None


def simulate_federation(run: Simulation) -> FederatedRelease:
    """Split the users, run, write the release, and compare if asked to.

    Guarantee: the agreement's (docs/guarantees.md#federated).
    """
    check_folder(run.output)
    tensor = _read(run)
    held_out = None
    if run.held_out:
        tensor, held_out = cell_split(tensor, run.held_out, run.seed)
    with _make_workdir(run.workdir) as folder:
        agreement = _make_agreement(run, tensor, folder)
        for k, group in enumerate(split_users(tensor, tensor.axis(run.promise.protect), run.clients)):
            group.write(folder / f"client-{k}" / DATA)
        work = _run_processes if run.processes else _run_here
        released = work(run, agreement, folder)
    return replace(released, diagnostics=_judge(run, agreement, tensor, held_out))


def _read(run: Simulation) -> ObservedTensor:
    """Read the data; a named dataset's shape is public knowledge, and its labels are left behind."""
    if run.reading is not None:
        if run.reading.shape is None:
            raise InputError(
                "reading needs a declared shape: read off the data, it would tell which indices occur. "
                "Try shape=(943, 1682), or --private-shape 943,1682."
            )
        return read_privately(run.reading, Unit.slice(run.promise.protect), run.promise.bounds, None)
    if run.dataset is None:
        raise InputError("reading or dataset must be given. Try dataset='ml-100k'.")
    more: dict[str, Any] = {}
    if run.time is not None:
        more["time"] = int(run.time) if run.time.isdigit() else run.time
    tensor = load_dataset(run.dataset, **more)
    return tensor.with_modes([mode.name for mode in tensor.modes])


@contextlib.contextmanager
def _make_workdir(folder: Path | None) -> Iterator[Path]:
    """Yield the folder of all parties: kept where asked for, else gone afterwards, because it holds data."""
    if folder is not None:
        check_folder(folder)
        folder.mkdir(exist_ok=True)
        yield folder
        return
    scratch = Path(tempfile.mkdtemp(prefix="tensorveil-federate-"))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_agreement(run: Simulation, tensor: ObservedTensor, folder: Path) -> Agreement:
    server, clients = make_parties(folder, run.clients)
    modes = tuple(mode.name for mode in tensor.modes)
    agreement = agree_on(run.promise, server, tuple(clients), shape=tensor.shape, modes=modes)
    agreement.save(folder / AGREEMENT)
    if _needs_ledgers(agreement):
        budget = Budget(epsilon=run.promise.epsilon, delta=run.promise.delta)
        for k in range(run.clients):
            path = folder / f"client-{k}" / OWN_LEDGER
            Ledger.create(path, budget=budget, unit=f"slice:{run.promise.protect}", name=f"client {k}")
    return agreement


def _own_ledger(agreement: Agreement, home: Path) -> Path | None:
    return home / OWN_LEDGER if _needs_ledgers(agreement) else None


def _needs_ledgers(agreement: Agreement) -> bool:
    """Tell whether every client has a ledger of its own."""
    return agreement.trust.kind == "local" and agreement.trust.noise


def _make_client(folder: Path, k: int) -> Client:
    """Make a client of its folder, as a worker of a simulation must."""
    agreement, home = Agreement.load(folder / AGREEMENT), folder / f"client-{k}"
    return Client(
        agreement=agreement,
        home=home,
        data=lambda: read_group(agreement, Reading(file=home / DATA)),
        ledger=_own_ledger(agreement, home),
        not_private=not agreement.trust.noise,
    )


def _run_here(run: Simulation, agreement: Agreement, folder: Path) -> FederatedRelease:
    """Run the server here, and the clients here too or, with ray, as workers of Flower's engine."""
    n = agreement.trust.clients
    server: dict[str, Any] = {
        "agreement": agreement,
        "key": load_identity(folder / "server"),
        "ledger": run.ledger,
        "progress": log_rounds(),
        "settings": Settings(patience=600.0, timeout=600.0, stragglers=600.0),  # ray takes its time to start workers
    }
    with release_reserved(run.output, run.ledger) as release, keep_log(folder / "server") as log:
        if run.ray:
            from tensorveil.federated.flower.simulation import serve_simulated

            outcome = serve_simulated(n, partial(_make_client, folder.absolute()), **server)
        else:
            answers = [_make_client(folder, k).answer for k in range(n)]
            outcome = run_server(transport=InProcess(answers=answers), **server)
        release(outcome)
    return gather_facts(agreement, outcome, run.output, log)


def _run_processes(run: Simulation, agreement: Agreement, folder: Path) -> FederatedRelease:
    """Start the parties as anybody would, each by its own command, and wait for them."""
    address = f"{LOOPBACK}:{free_port()}"
    own = [sys.executable, "-m", "tensorveil", "federate"]
    terms = str(folder / AGREEMENT)
    serve = [*own, "server", terms, "--home", str(folder / "server"), "--listen", address, "--json"]
    serve += ["--output", str(run.output)]
    serve += [] if run.ledger is None else ["--ledger", str(run.ledger)]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_start_party(serve, stdout=subprocess.PIPE))
        for k in range(agreement.trust.clients):
            home = folder / f"client-{k}"
            take_part = [*own, "client", terms, str(home / DATA), "--home", str(home), "--server", address]
            ledger = _own_ledger(agreement, home)
            take_part += [] if ledger is None else ["--ledger", str(ledger)]
            take_part += [] if agreement.trust.noise else ["--noise-off"]
            out = stack.enter_context((home / "output.log").open("wb"))
            stack.enter_context(_start_party(take_part, stdout=out, stderr=out))
        text, _ = server.communicate()
    if server.returncode:
        raise AbandonedError("the server failed; its messages stand above. Keep the logs with a workdir.")
    return FederatedRelease.from_json(json.loads(text))


@contextlib.contextmanager
def _start_party(command: Sequence[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process; give it time to say goodbye, then end it."""
    process = subprocess.Popen(list(command), stdin=subprocess.DEVNULL, **streams)
    try:
        yield process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _judge(
    run: Simulation, agreement: Agreement, tensor: ObservedTensor, held_out: ObservedTensor | None
) -> dict[str, float]:
    """Return errors on held-out entries: of the release, and of a central run at the same budget."""
    if held_out is None or not held_out.n_entries:
        return {}
    model: Any = load_release(run.output)[0]
    found = {"RMSE": _measure_error(model, tensor, held_out)}
    if run.compare:
        recipe = Recipe.from_json(agreement.recipe.to_json() | {"epsilon": run.promise.epsilon})
        source = SecureSource() if run.promise.noise else None
        central = recipe.finish(run_recipe(recipe, [tensor], source))
        found["RMSE, central"] = _measure_error(central, tensor, held_out)
        if not run.promise.noise:
            found["largest difference of factors"] = _find_difference(model, central)
    return found


def _measure_error(model: Any, tensor: ObservedTensor, held_out: ObservedTensor) -> float:
    if not held_out.n_entries:
        return math.nan
    errors = model.predict_for(tensor, held_out) - held_out.values
    return float(np.sqrt(np.mean(errors**2)))


def _find_difference(first: Any, second: Any) -> float:
    pairs = zip((*first.factors, *first.biases), (*second.factors, *second.biases), strict=True)
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)
