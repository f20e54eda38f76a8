"""Seeds of runs that were abandoned stay in clients' homes: whoever steals them unmasks what the server has kept."""

from pathlib import Path
from typing import Any

import pytest

from tensorveil.federated import wire
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.home import Home
from tests.unit.federated.federated_cases import Asking


def secrets_in(asking: Any) -> Any:
    folder = Home.of(asking.homes[0], asking.agreement.digest).folder
    return [name for name in ("seed", "shares", "peers") if (folder / name).exists()]


def begin(tmp_path: Path) -> Any:
    """A secure run that stops after the first round's sums."""
    asking = Asking(tmp_path, drop_outs=1)
    asking.first(0, asking.share())
    assert secrets_in(asking) == ["seed", "shares", "peers"]
    return asking


def test_a_server_that_begins_another_run_has_abandoned_this_one(tmp_path: Path) -> None:
    asking = begin(tmp_path)
    with pytest.raises(RefusedError, match="used up"):
        asking.ask(0, "hello", -1, wire.SERVER, wire.promise(True), run="cd" * 16)
    assert secrets_in(asking) == []


def test_a_client_forgets_a_run_that_it_knows_to_be_over(tmp_path: Path) -> None:
    asking = begin(tmp_path)
    asking.clients[0].forget()
    assert secrets_in(asking) == []


def test_a_greeting_that_is_played_again_does_not_end_a_run(tmp_path: Path) -> None:
    asking = begin(tmp_path)
    with pytest.raises(RefusedError, match="answered before"):
        asking.ask(0, "hello", -1, wire.SERVER, wire.promise(True))
    assert secrets_in(asking) == ["seed", "shares", "peers"]
