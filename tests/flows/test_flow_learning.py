"""Type III over the federated engine: the same parameters as in one place, and real processes give the same again."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.flower.processes import free_port
from tensorveil.federated.identity import load_identity
from tensorveil.federated.server import run_server
from tensorveil.federated.setup import make_parties
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust
from tensorveil.learning import (
    AveragedParameters,
    ClassContrasts,
    ClassMoments,
    Directions,
    Network,
    learn_in_rounds,
    predict,
    share_out,
    weighted_f1,
)
from tensorveil.learning.loaders import load_samples
from tensorveil.local import Basis
from tensorveil.noise import SeededSource
from tensorveil.rounds import State

PARTY = Path(__file__).with_name("learning_party.py")


def data() -> Any:
    found = load_samples("digits")
    return found.train.with_x(found.train.x / 8 - 1), found.test.with_x(found.test.x / 8 - 1)


def averaged(**changes: Any) -> Any:
    facts: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "most_users": 3, "users": 3, "epochs": 2}
    facts |= {"clip": 1.0, "clip_kind": "max", "batch": 16, "rate": 0.005, "seed": 4}
    network = Network(kind="mlp", sizes={"inputs": 64, "classes": 10, "hidden": [16], "dropout": 0.3})
    return AveragedParameters(**(facts | {"network": network} | changes))


def moments(**changes: Any) -> Any:
    told = Directions(basis=Basis.dct((8, 8), 20), centre=-1.0)
    facts: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "most_users": 10_000, "directions": told, "classes": 10}
    return ClassMoments(**(facts | changes))


def contrasts(**changes: Any) -> Any:
    told = Directions(basis=Basis.dct((8, 8), 20), centre=-1.0)
    facts: dict[str, Any] = {"epsilon": 64.0, "delta": 1e-5, "most_users": 3, "users": 3, "directions": told}
    return ClassContrasts(**(facts | {"classes": 10} | changes))


def agreed(folder: Path, recipe: Any, **trust: Any) -> Any:
    server, clients = make_parties(folder, 3)
    made = Agreement.make(
        recipe=recipe, trust=Trust(clients=3, **trust), epsilon=recipe.epsilon, server=server, clients=tuple(clients)
    )
    made.save(folder / "agreement.json")
    return Agreement.load(folder / "agreement.json")  # what a party reads, and not the object itself


def in_one_process(folder: Path, agreement: Any, groups: Any, **options: Any) -> Any:
    open_run = not agreement.trust.noise or "not_private" in options

    def client(k: int, group: Any) -> Client:
        home = folder / f"client-{k}"
        return Client(agreement=agreement, home=home, data=lambda: group, not_private=open_run)

    clients = [client(k, group) for k, group in enumerate(groups)]
    transport = InProcess(answers=[client.answer for client in clients])
    return run_server(agreement, load_identity(folder / "server"), transport, **options)


@pytest.mark.parametrize("make", [averaged, moments, contrasts])
@pytest.mark.parametrize("kind", ["aggregator", "secure"])
def test_the_engine_gives_the_same_as_one_place(tmp_path: Path, make: Any, kind: Any) -> None:
    train, _ = data()
    groups = share_out(train, 3, 0)
    agreement = agreed(tmp_path, make(), kind=kind, noise=False)
    outcome = in_one_process(tmp_path, agreement, groups)
    alone = learn_in_rounds(make(), groups, None).state
    assert outcome.state.to_bytes() == alone.to_bytes()
    assert outcome.incidents == ()
    assert "NOT PRIVATE" in outcome.guarantee_.sentence()


def test_moments_of_records_over_the_engine_are_private_and_useful(tmp_path: Path) -> None:
    train, test = data()
    agreement = agreed(tmp_path, moments(), kind="aggregator")
    outcome = in_one_process(tmp_path, agreement, share_out(train, 3, 0), source=SeededSource(3), not_private=True)
    assert weighted_f1(test.y, outcome.model_.predict(test.x), 10) > 0.75
    assert (outcome.guarantee_.epsilon, str(outcome.guarantee_.unit)) == (8.0, "slice:record")
    assert not outcome.guarantee_.private  # a seed


@pytest.mark.slow
def test_server_and_clients_as_processes_give_the_same_parameters(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    train, test = data()
    groups = share_out(train, 3, 0)
    recipe = averaged()
    agreed(tmp_path, recipe, kind="aggregator", noise=False)
    for k, group in enumerate(groups):
        np.savez(tmp_path / f"data-{k}.npz", x=group.x, y=group.y)
    address = f"127.0.0.1:{free_port()}"
    roles = [("server",), *(("client", str(k)) for k in range(3))]
    running = []
    try:
        for role, *number in roles:
            words = [sys.executable, str(PARTY), role, str(tmp_path), address, *number]
            with (tmp_path / f"{role}{''.join(number)}.out").open("wb") as out:
                running.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out))
        codes = [process.wait(240) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
                process.wait()
    said = "\n".join(path.read_text() for path in sorted(tmp_path.glob("*.out")))
    assert codes == [0, 0, 0, 0], said
    alone = learn_in_rounds(recipe, groups, None).state
    there = State.from_bytes((tmp_path / "state.bin").read_bytes())
    assert there.to_bytes() == alone.to_bytes()
    assert weighted_f1(test.y, predict(recipe.finish(there), test.x), 10) > 0.3  # the constant has 0.02


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of docs/how-to/learning.md, as they are printed."""
    import re

    page = (Path(__file__).parents[2] / "docs" / "how-to" / "learning.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "learning.md", "exec"), names)
    assert names["score"] > 0.6
    said = capsys.readouterr().out
    assert "classes are public" in said
    assert "mode 'record'" in said
