"""What a client refuses: everything that is not the agreed server's next question, whatever a lying server tries."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.federated import wire
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.home import Home
from tensorveil.federated.identity import load_identity, make_identity
from tensorveil.rounds import State
from tests.unit.federated.federated_cases import Asking, clients_of, ratings


def test_a_question_is_answered_once(tmp_path: Path) -> None:
    asking = Asking(tmp_path, drop_outs=1)
    inboxes = asking.share()
    with pytest.raises(RefusedError, match="answered before"):
        asking.ask(0, "share", -1, 0, {f"hello-{k}": hello for k, hello in enumerate(asking.hellos)})
    asking.first(0, inboxes)
    with pytest.raises(RefusedError, match="answered before"):
        asking.deliver(0, inboxes[0])
    with pytest.raises(RefusedError, match="answered before"):
        asking.ask(0, "sum", 0, 0, {"state": asking.state()})
    present = {"present": np.array([1, 1, 0], dtype=np.uint8)}
    asking.ask(0, "unmask", 0, 0, present)
    with pytest.raises(RefusedError, match="answered before"):
        asking.ask(0, "unmask", 0, 0, {"present": np.array([1, 0, 1], dtype=np.uint8)})


def test_another_run_of_the_same_agreement_gets_nothing(tmp_path: Path) -> None:
    asking = Asking(tmp_path, "aggregator")
    asking.greet()
    asking.ask(0, "sum", 0, 0, {"state": asking.state()})
    with pytest.raises(RefusedError, match="used up"):
        asking.ask(0, "hello", -1, wire.SERVER, wire.promise(True), run="cd" * 16)
    with pytest.raises(RefusedError, match="another run"):
        asking.ask(0, "sum", 1, 0, {"state": asking.state()}, run="cd" * 16)


def test_too_few_present_reveal_nothing(tmp_path: Path) -> None:
    asking = Asking(tmp_path, drop_outs=1)
    inboxes = asking.share()
    asking.first(0, inboxes)
    with pytest.raises(RefusedError, match="more clients are said to be missing"):
        asking.ask(0, "unmask", 0, 0, {"present": np.array([1, 0, 0], dtype=np.uint8)})


def test_no_sum_before_all_shares_are_there(tmp_path: Path) -> None:
    asking = Asking(tmp_path, drop_outs=1)
    inboxes = asking.share()
    with pytest.raises(RefusedError, match="missing"):
        asking.ask(0, "sum", 0, 0, {"state": asking.state()})
    with pytest.raises(RefusedError, match="wrong length"):
        asking.deliver(0, inboxes[0][:-1])
    assert asking.deliver(0, inboxes[1]) == [1, 1, 1]
    with pytest.raises(RefusedError, match="missing"):
        asking.ask(0, "sum", 0, 0, {"state": asking.state()})
    assert not Home.of(asking.homes[0], asking.agreement.digest).was_begun()


def test_a_server_cannot_put_in_keys_of_its_own(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    hellos = asking.greet()
    mine = make_identity(tmp_path / "spy")
    theirs = wire.decode(hellos["hello-1"].tobytes(), 10**6)
    forged = np.frombuffer(wire.encode(theirs, mine), dtype=np.uint8)
    with pytest.raises(RefusedError, match="signature"):
        asking.ask(0, "share", -1, 0, {**hellos, "hello-1": forged})
    with pytest.raises(RefusedError, match="signature"):
        asking.ask(0, "share", -1, 0, {**hellos, "hello-1": hellos["hello-2"]})
    with pytest.raises(RefusedError, match="other arrays"):
        asking.ask(0, "share", -1, 0, {"hello-0": hellos["hello-0"]})


def test_a_peers_greeting_of_an_earlier_run_is_refused(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    old = asking.greet(run="cd" * 16)
    hellos = asking.greet()
    with pytest.raises(RefusedError, match="another run"):
        asking.ask(0, "share", -1, 0, {**hellos, "hello-1": old["hello-1"]})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"agreement": "0" * 64}, "another agreement"),
        ({"receiver": 1}, "somebody else"),
        ({"sender": 0}, "somebody else"),
        ({"round": 99}, "no such round"),
        ({"kind": "unmask"}, "no such step"),
        ({"receiver": wire.SERVER}, "no receiver"),
    ],
)
def test_questions_that_are_not_the_agreed_servers(tmp_path: Path, change: Any, reason: Any) -> None:
    asking = Asking(tmp_path, "aggregator")
    asking.greet()
    with pytest.raises(RefusedError, match=reason):
        asking.ask(0, "sum", 0, 0, {"state": asking.state()}, **change)


def test_a_question_signed_by_another(tmp_path: Path) -> None:
    asking = Asking(tmp_path, "aggregator")
    with pytest.raises(RefusedError, match="signature"):
        asking.ask(0, "hello", -1, wire.SERVER, key=load_identity(asking.homes[1]))


def broken_states(recipe: Any) -> Any:
    start = recipe.start()
    name = next(iter(start.arrays))
    longer = {**start.arrays, name: np.append(np.ravel(start[name]), 1.0)}
    nan = {**start.arrays, name: np.full(start[name].shape, np.nan)}
    return {
        "longer": State(round=0, arrays=longer),
        "nan": State(round=0, arrays=nan),
        "missing": State(round=0, arrays={k: a for k, a in start.arrays.items() if k != name}),
        "late": State(round=1, arrays=start.arrays),
    }


@pytest.mark.parametrize(
    ("case", "reason"),
    [("longer", "other arrays"), ("nan", "not finite"), ("missing", "other arrays"), ("late", "another round")],
)
def test_states_that_are_not_what_they_should_be(tmp_path: Path, case: Any, reason: Any) -> None:
    asking = Asking(tmp_path, "aggregator")
    asking.greet()
    with pytest.raises(RefusedError, match=reason):
        asking.ask(0, "sum", 0, 0, {"state": asking.state(broken_states(asking.agreement.recipe)[case])})
    with pytest.raises(RefusedError, match="cannot be read"):
        asking.ask(0, "sum", 0, 0, {"state": np.arange(9, dtype=np.uint8)})
    for arrays in ({}, {"states": asking.state()}, {"state": np.arange(9)}):
        with pytest.raises(RefusedError, match="other arrays"):
            asking.ask(0, "sum", 0, 0, arrays)
    # Nothing was said about data, and the true question is still answered.
    asking.ask(0, "sum", 0, 0, {"state": asking.state()})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_state_makes_a_user_contribute_more_than_declared(tmp_path: Path) -> None:
    """A lying server chooses the state: one user's contribution keeps its limit all the same."""
    asking = Asking(tmp_path, "aggregator", sweeps=2)
    recipe = asking.agreement.recipe
    data = ratings()
    client = replace(asking.clients[0], data=lambda: data.take(data.columns[0] == 3))
    rng = np.random.default_rng(0)
    state = recipe.start()
    for this in recipe.rounds:
        for scale in (0.0, 1e-300, 1.0, 1e6, 1e300):
            hostile = {
                name: rng.standard_normal(a.shape) * scale if a.dtype.kind == "f" else a
                for name, a in state.arrays.items()
            }
            total = client.contribution(State(round=state.round, arrays=hostile))
            assert sum(int(x) ** 2 for x in total) <= this.limit**2
            assert np.abs(total).max() <= this.largest
        state = recipe.advance(state, np.zeros(this.size, dtype=np.int64))


def test_secrets_are_erased_after_the_last_round(tmp_path: Path) -> None:
    asking = Asking(tmp_path, drop_outs=1)
    inboxes = asking.share()
    memory = Home.of(asking.homes[0], asking.agreement.digest)
    asking.first(0, inboxes)
    present = {"present": np.ones(3, dtype=np.uint8)}
    assert (memory.folder / "seed").stat().st_mode & 0o077 == 0
    asking.ask(0, "unmask", len(asking.agreement.recipe.rounds) - 1, 0, present)
    assert asking.clients[0].finished
    assert not any((memory.folder / name).exists() for name in ("seed", "shares", "peers"))


def test_local_noise_needs_a_ledger(tmp_path: Path) -> None:
    asking = Asking(tmp_path, "local")
    asking.greet()
    with pytest.raises(InputError, match="own ledger"):
        asking.ask(0, "sum", 0, 0, {"state": asking.state()})


def test_a_client_outside_the_agreement_says_so(tmp_path: Path) -> None:
    asking = Asking(tmp_path, "aggregator")
    make_identity(tmp_path / "stranger")
    (stranger,) = clients_of(asking.agreement, [tmp_path / "stranger"], [ratings()])
    with pytest.raises(InputError, match="not in the agreement"):
        stranger.answer(asking.message("hello", -1, wire.SERVER))
    with pytest.raises(InputError, match="no identity"):
        load_identity(tmp_path / "nowhere")
