"""A client that has lost its memory of an agreement answers it once more, on the charge of the first time."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tensorveil.federated.errors import AbandonedError, RefusedError
from tensorveil.federated.home import Home
from tensorveil.federated.server import Settings, run_server
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust
from tensorveil.privacy import Budget, Ledger
from tests.unit.federated.federated_cases import agreed, clients_of, ratings, split_users

HASTE = Settings(patience=0.0, timeout=1.0)


def begin(tmp_path: Path, epsilon: float) -> Any:
    """A federation with local noise that spends epsilon 1, whose clients may spend this much; give a way to run it."""
    agreement, key, homes = agreed(tmp_path, Trust(kind="local", clients=2), epsilon=1.0)
    ledgers = [home / "own.ledger" for home in homes]
    for path in ledgers:
        Ledger.create(path, budget=Budget(epsilon=epsilon, delta=1e-5), unit="slice:user", name="own")
    groups = split_users(ratings(), 2)
    clients = [
        clients_of(agreement, [home], [group], ledger=path)[0]
        for home, group, path in zip(homes, groups, ledgers, strict=True)
    ]
    answers = [client.answer for client in clients]
    return lambda: run_server(agreement, key, InProcess(answers=answers), settings=HASTE), homes, ledgers


def test_whoever_may_answer_again_pays_again(tmp_path: Path) -> None:
    run, homes, ledgers = begin(tmp_path, epsilon=1.0)
    run()
    assert [len(Ledger.open(path).entries()) for path in ledgers] == [1, 1]
    for home in homes:
        shutil.rmtree(home / "agreements")
    with pytest.raises(AbandonedError, match="no client answered"):
        run()
    assert [len(Ledger.open(path).entries()) for path in ledgers] == [1, 1]


def test_a_memory_without_a_name_of_its_own_answers_nothing(tmp_path: Path) -> None:
    # A crash between making the file and writing it: all such memories would have one name, and one charge.
    memory = Home.of(tmp_path, "digest")
    (memory.folder / "name").touch()
    with pytest.raises(RefusedError, match="damaged"):
        memory.name_once()


def test_all_rounds_of_one_run_are_one_charge(tmp_path: Path) -> None:
    run, _, ledgers = begin(tmp_path, epsilon=3.0)
    assert len(run().state.arrays) > 0
    assert [len(Ledger.open(path).entries()) for path in ledgers] == [1, 1]
