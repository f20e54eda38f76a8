"""The work behind `tensorveil federate simulate`: all parties on one machine, in one process or in several."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
from tensorveil.federated.release import release
from tensorveil.federated.server import Settings, run_server
from tensorveil.federated.setup import agree, make_parties, split_users
from tensorveil.federated.transport import InProcess
from tensorveil.noise import SecureSource
from tensorveil.privacy import Budget, Ledger
from tensorveil.release.release import check_new_folder, load_release
from tensorveil.rounds import Recipe, run_recipe
from tensorveil.runs.federate import (
    READING,
    facts_of,
    kept_log,
    mark_private,
    recipe_options,
    round_progress,
    show_outcome,
    trust_of,
)
from tensorveil.runs.reading import read_tensor
from tensorveil.tensor import ObservedTensor, load_dataset, read
from tensorveil.tensor.splits import random_split


def run_simulation(as_json: bool, **options: Any) -> None:
    """Split the users, run, write the release, and compare if asked to."""
    mark_private()
    check_new_folder(options["output"])
    tensor = _tensor(options)
    held_out = None
    if options["held_out"]:
        tensor, held_out = random_split(tensor, options["held_out"], random_state=options["seed"])
    with _workdir(options["workdir"]) as folder:
        agreement = _agreement(options, tensor, folder)
        groups = split_users(tensor, tensor.axis(options["protect"]), options["clients"])
        for k, group in enumerate(groups):
            group.write(folder / f"client-{k}" / "data.npz")
        if options["processes"]:
            facts = _in_processes(options, agreement, folder)
        else:
            facts = _in_one_process(options, agreement, folder)
    facts["diagnostics"] = _judged(options, agreement, tensor, held_out)
    show_outcome(facts, as_json=as_json)


def _tensor(options: dict[str, Any]) -> ObservedTensor:
    """Read the data; a named dataset's shape is public knowledge, and its labels are left behind."""
    if options["dataset"] is not None:
        time = options["time_mode"]
        more: dict[str, Any] = {} if time is None else {"time": int(time) if time.isdigit() else time}
        tensor = load_dataset(options["dataset"], **more)
        return tensor.with_modes([mode.name for mode in tensor.modes])
    reading = {name: options[name] for name in READING}
    tensor = read_tensor(str(options["file"]), **reading, shape=options["private_shape"])
    if any(mode.labels is not None for mode in tensor.modes):
        raise InputError("FILE must hold indices of a public numbering, not labels. Add --indices.")
    return tensor


@contextlib.contextmanager
def _workdir(folder: Path | None) -> Iterator[Path]:
    """Give the folder of all parties: kept where asked for, else gone afterwards, for it holds data."""
    if folder is not None:
        check_new_folder(folder)
        folder.mkdir(exist_ok=True)
        yield folder
        return
    scratch = Path(tempfile.mkdtemp(prefix="tensorveil-federate-"))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _agreement(options: dict[str, Any], tensor: ObservedTensor, folder: Path) -> Agreement:
    server, clients = make_parties(folder, options["clients"])
    agreement = agree(
        trust=trust_of(options, options["clients"]),
        epsilon=options["epsilon"],
        delta=options["delta"],
        server=server,
        clients=clients,
        shape=tensor.shape,
        modes=tuple(mode.name for mode in tensor.modes),
        **recipe_options(options),
    )
    agreement.save(folder / "agreement.json")
    if agreement.trust.kind == "local":
        budget = Budget(epsilon=options["epsilon"], delta=options["delta"])
        for k in range(options["clients"]):
            path = folder / f"client-{k}" / "own.ledger"
            Ledger.create(path, budget=budget, unit=f"slice:{options['protect']}", name=f"client {k}")
    return agreement


def _own_ledger(agreement: Agreement, home: Path) -> Path | None:
    return home / "own.ledger" if agreement.trust.kind == "local" else None


def _client(folder: Path, k: int) -> Client:
    """Make a client of its folder, as a worker of a simulation must."""
    agreement, home = Agreement.load(folder / "agreement.json"), folder / f"client-{k}"
    return Client(
        agreement=agreement, home=home, data=lambda: read(home / "data.npz"), ledger=_own_ledger(agreement, home)
    )


def _in_one_process(options: dict[str, Any], agreement: Agreement, folder: Path) -> dict[str, Any]:
    """Run the server here, and the clients here too or, with --ray, as workers of Flower's engine."""
    n = agreement.trust.clients
    server: dict[str, Any] = {
        "agreement": agreement,
        "key": load_identity(folder / "server"),
        "ledger": options["ledger"],
        "progress": round_progress(),
        "settings": Settings(patience=600.0, timeout=600.0),  # ray takes its time to start workers on a busy machine
    }
    with kept_log(folder / "server") as log:
        if options["ray"]:
            from tensorveil.federated.flower.simulation import serve_simulated

            outcome = serve_simulated(n, partial(_client, folder.absolute()), **server)
        else:
            answers = [_client(folder, k).answer for k in range(n)]
            outcome = run_server(transport=InProcess(answers=answers), **server)
        release(outcome, options["output"], ledger=options["ledger"])
    return facts_of(agreement, outcome, options, log)


def _in_processes(options: dict[str, Any], agreement: Agreement, folder: Path) -> dict[str, Any]:
    """Start the parties as anybody would, each by its own command, and wait for them."""
    address = f"{LOOPBACK}:{free_port()}"
    own = [sys.executable, "-c", "from tensorveil.cli.main import main; main()", "federate"]
    terms = str(folder / "agreement.json")
    serve = [*own, "server", terms, "--home", str(folder / "server"), "--listen", address, "--json"]
    serve += ["--output", str(options["output"])]
    serve += [] if options["ledger"] is None else ["--ledger", str(options["ledger"])]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_party(serve, stdout=subprocess.PIPE))
        for k in range(agreement.trust.clients):
            home = folder / f"client-{k}"
            take_part = [*own, "client", terms, str(home / "data.npz"), "--home", str(home), "--server", address]
            ledger = _own_ledger(agreement, home)
            take_part += [] if ledger is None else ["--ledger", str(ledger)]
            out = stack.enter_context((home / "output.log").open("wb"))
            stack.enter_context(_party(take_part, stdout=out, stderr=out))
        text, _ = server.communicate()
    if server.returncode:
        raise AbandonedError("the server failed; its messages stand above. Keep the logs with --workdir.")
    facts: dict[str, Any] = json.loads(text)
    return facts


@contextlib.contextmanager
def _party(command: Sequence[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
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


def _judged(
    options: dict[str, Any], agreement: Agreement, tensor: ObservedTensor, held_out: ObservedTensor | None
) -> dict[str, float]:
    """Give errors on held-out entries: of the release, and of a central run at the same budget."""
    if held_out is None:
        return {}
    found: dict[str, float] = {}
    model: Any = load_release(options["output"])[0]
    found["RMSE"] = _rmse(model, tensor, held_out)
    if options["compare"]:
        recipe = Recipe.from_json(agreement.recipe.to_json() | {"epsilon": options["epsilon"]})
        source = None if options["noise_off"] else SecureSource()
        central = recipe.finish(run_recipe(recipe, [tensor], source))
        found["RMSE, central"] = _rmse(central, tensor, held_out)
        if options["noise_off"]:
            found["largest difference of factors"] = _difference(model, central)
    return found


def _rmse(model: Any, tensor: ObservedTensor, held_out: ObservedTensor) -> float:
    errors = model.predict_for(tensor, held_out) - held_out.values
    return float(np.sqrt(np.mean(errors**2)))


def _difference(first: Any, second: Any) -> float:
    pairs = zip((*first.factors, *first.biases), (*second.factors, *second.biases), strict=True)
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)
