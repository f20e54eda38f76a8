"""Whole runs in one process: the same as centrally, whoever drops out, lies or replays; budgets charged rightly."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.errors import AbandonedError, RefusedError
from tensorveil.federated.identity import load_identity, make_identity
from tensorveil.federated.server import Settings, run_server
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust
from tensorveil.noise import SeededSource
from tensorveil.privacy import Budget, BudgetExceededError, Ledger
from tensorveil.release.release import write_release
from tensorveil.rounds import run_recipe
from tests import chance
from tests.unit.federated.federated_cases import agreed, clients_of, in_process, ratings, split_users

HASTE = Settings(patience=0.0, timeout=1.0)


def ledger_at(path: Path, epsilon: float = 5.0) -> Any:
    Ledger.create(path, budget=Budget(epsilon=epsilon, delta=1e-5), unit="slice:user", name="ratings")
    return path


@pytest.mark.parametrize(
    ("kind", "n", "more"),
    [
        ("aggregator", 1, {}),
        ("aggregator", 3, {}),
        ("secure", 2, {}),
        ("secure", 3, {"drop_outs": 1, "sweeps": 3}),
        ("secure", 5, {"drop_outs": 1, "colluding": 1}),
        ("local", 4, {}),
    ],
)
def test_without_noise_a_run_equals_the_central_one_bit_by_bit(tmp_path: Path, kind: Any, n: int, more: Any) -> None:
    agreement, key, _, transport, data = in_process(tmp_path, kind, n, noise=False, **more)
    outcome = run_server(agreement, key, transport, settings=HASTE)
    assert outcome.state.to_bytes() == run_recipe(agreement.recipe, [data], None).to_bytes()
    assert not outcome.incidents
    assert not outcome.guarantee_.private
    assert outcome.guarantee_.sentence().startswith("NOT PRIVATE")


@pytest.mark.parametrize("kind", ["aggregator", "secure", "local"])
def test_noise_on_the_sums_is_what_the_recipe_expects(tmp_path: Path, kind: Any) -> None:
    """The total carries the noise that the recipe declares, whoever adds it."""
    ledgers = [ledger_at(tmp_path / f"{k}.ledger") for k in range(3)]
    data = ratings(shape=(30, 2000, 4))
    agreement, key, homes = agreed(tmp_path, Trust(kind=kind, clients=3), shape=data.shape)
    groups = split_users(data, 3)
    clients = [
        clients_of(agreement, [home], [group], ledger=ledger)[0]
        for home, group, ledger in zip(homes, groups, ledgers, strict=True)
    ]
    noise = []
    recipe, advance = agreement.recipe, type(agreement.recipe).advance

    def spy(self: Any, state: Any, total: Any) -> Any:
        if any(total):  # not when only the form of a state is wanted
            this = recipe.rounds[state.round]
            exact = sum(recipe.contribute(state, group) for group in groups)
            noise.append((total - exact) * this.mu / this.limit)
        return advance(self, state, total)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(recipe), "advance", spy)
        outcome = run_server(agreement, key, InProcess(answers=[c.answer for c in clients]), settings=HASTE)
    chance.assert_second_moment(f"noise of a federated run, {kind}", np.concatenate(noise), 1.0)
    assert outcome.guarantee_.private
    assert outcome.guarantee_.epsilon == 5.0


def test_a_trusted_server_with_a_seed_says_so(tmp_path: Path) -> None:
    agreement, key, _, transport, _ = in_process(tmp_path, "aggregator")
    with pytest.raises(InputError, match="source must be secure"):
        run_server(agreement, key, transport, source=SeededSource(1), settings=HASTE)
    seeded: dict[str, Any] = {"source": SeededSource(1), "not_private": True, "settings": HASTE}
    with pytest.raises(AbandonedError, match="0 of 3 clients came"):  # clients do not take part in such a run
        run_server(agreement, key, transport, **seeded)
    agreement, key, _, transport, _ = in_process(tmp_path / "seeded", "aggregator", not_private=True)
    outcome = run_server(agreement, key, transport, **seeded)
    assert outcome.guarantee_.sentence().startswith("NOT PRIVATE")
    with pytest.raises(InputError):
        write_release(outcome, tmp_path / "release")


class Wire:
    """A transport with a hand on the wire: replies of some client are changed on their way."""

    def __init__(self, clients: Any, change: Any) -> None:
        self.inner = InProcess(answers=[client.answer for client in clients])
        self.change = change
        self.kept: list[bytes] = []

    def nodes(self) -> Any:
        return self.inner.nodes()

    def exchange(self, messages: Any, timeout: Any, look: Any = None) -> Any:
        replies = self.inner.exchange(messages, timeout)
        for node, content in list(replies.items()):
            message = wire.decode(content, len(content))
            self.kept.append(content)
            changed = self.change(node, message, content, self.kept)
            if changed is None:
                del replies[node]
            else:
                replies[node] = changed
        return replies


def resigned(message: Any, home: Any, **arrays: Any) -> Any:
    return wire.encode(wire.Message(**{**vars(message), "arrays": arrays}), load_identity(home))


def drop(node: Any, message: Any, content: Any, kept: Any) -> Any:
    return None


def not_a_number(node: Any, message: Any, content: Any, kept: Any) -> Any:
    """Floats where integers belong: the bytes of NaN, under a header that says so."""
    text = content.replace(b'"u8"', b'"f8"').replace(b'"i8"', b'"f8"')
    return text


def replayed(node: Any, message: Any, content: Any, kept: Any) -> Any:
    mine = [old for old in kept[:-1] if wire.decode(old, len(old)).sender == message.sender]
    return mine[-1]


def huge(node: Any, message: Any, content: Any, kept: Any) -> Any:
    return content + bytes(10_000_000)


def garbage(node: Any, message: Any, content: Any, kept: Any) -> Any:
    return b"\x80\x04\x95 a pickle, perhaps"


HARM = {
    drop: "no answer",
    not_a_number: "type that is not allowed",
    replayed: "another r",
    huge: "too long",
    garbage: "not a message",
}


@pytest.mark.parametrize("harm", list(HARM), ids=lambda h: h.__name__)
@pytest.mark.parametrize("kind", ["aggregator", "secure"])
def test_a_harmful_client_counts_as_missing_from_its_round(tmp_path: Path, harm: Any, kind: Any, caplog: Any) -> None:
    more = {"drop_outs": 1} if kind == "secure" else {}
    agreement, key, clients, _, _ = in_process(tmp_path, kind, noise=False, **more)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return harm(node, message, content, kept) if (node, message.kind, message.round) == (1, "sum", 1) else content

    with caplog.at_level(logging.WARNING, logger="tensorveil.federated"):
        outcome = run_server(agreement, key, Wire(clients, change), settings=HASTE)
    (incident,) = outcome.incidents
    name = agreement.recipe.rounds[1].name
    assert (incident.step, incident.client) == (name, 1)
    assert HARM[harm] in incident.reason
    assert outcome.missing == {name: (1,)}
    assert HARM[harm] in caplog.text
    # All rounds but this one have everybody's sums; this one has those of the others.
    groups = split_users(ratings(), 3)
    state = agreement.recipe.start()
    for number in range(len(agreement.recipe.rounds)):
        present = [g for k, g in enumerate(groups) if (number, k) != (1, 1)]
        state = agreement.recipe.advance(state, sum(agreement.recipe.contribute(state, g) for g in present))
    assert outcome.state.to_bytes() == state.to_bytes()


@pytest.mark.parametrize("case", ["long", "short", "kind", "names", "signed by another", "too large"])
def test_sums_that_cannot_be_are_refused(tmp_path: Path, case: Any) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator", noise=False)
    this = agreement.recipe.rounds[0]
    zeros = np.zeros(this.size, dtype=np.int64)
    sent = {
        "long": {"total": np.append(zeros, 1)},
        "short": {"total": zeros[:-1]},
        "kind": {"total": zeros.astype(np.uint64)},
        "names": {"totals": zeros},
        "signed by another": {"total": zeros},
        "too large": {"total": zeros + this.largest * 31},
    }[case]
    home = clients[1 if case == "signed by another" else 0].home

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return resigned(message, home, **sent) if (node, message.kind, message.round) == (0, "sum", 0) else content

    outcome = run_server(agreement, key, Wire(clients, change), settings=HASTE)
    assert [incident.client for incident in outcome.incidents] == [0]
    assert outcome.missing == {this.name: (0,)}


def test_a_client_that_leaves_for_good_is_missed_in_every_round_from_then_on(tmp_path: Path) -> None:
    path = ledger_at(tmp_path / "ratings.ledger")
    agreement, key, clients, _, _ = in_process(tmp_path, "secure", n=4, drop_outs=1)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return None if node == 2 and message.round >= 1 else content

    outcome = run_server(agreement, key, Wire(clients, change), ledger=path, settings=HASTE)
    assert list(outcome.missing.values()) == [(2,)] * (len(agreement.recipe.rounds) - 1)
    (charge,) = Ledger.open(path).entries()
    assert charge.event == agreement.event
    folder = write_release(outcome, tmp_path / "release")
    assert sorted(p.name for p in folder.iterdir()) == ["MODEL_CARD.md", "guarantee.json", "model.npz", "report.html"]
    (charge,) = Ledger.open(path).entries()
    assert charge.status == "released"


def test_a_client_that_drops_out_while_unmasking_does_no_harm(tmp_path: Path) -> None:
    agreement, key, clients, _, data = in_process(tmp_path, "secure", n=3, drop_outs=1, noise=False)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return None if (node, message.kind) == (0, "unmask") else content

    outcome = run_server(agreement, key, Wire(clients, change), settings=HASTE)
    assert outcome.state.to_bytes() == run_recipe(agreement.recipe, [data], None).to_bytes()
    assert {incident.step.split(", ")[-1] for incident in outcome.incidents} == {"unmasking"}


def test_more_drop_outs_than_agreed_on_end_the_run_and_stay_charged(tmp_path: Path) -> None:
    path = ledger_at(tmp_path / "ratings.ledger")
    agreement, key, clients, _, _ = in_process(tmp_path, "secure", n=3, drop_outs=1)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return None if node > 0 and message.round == 2 else content

    with pytest.raises(AbandonedError, match="more dropped out than the agreement allows"):
        run_server(agreement, key, Wire(clients, change), ledger=path, settings=HASTE)
    (charge,) = Ledger.open(path).entries()
    assert charge.status == "spent, release unknown"
    # The agreement is used up: clients answer no second run.
    with pytest.raises(AbandonedError, match="0 of 3 clients came"):
        run_server(agreement, key, Wire(clients, lambda n, m, c, k: c), ledger=path, settings=HASTE)
    assert len(Ledger.open(path).entries()) == 1


@pytest.mark.parametrize("kind", ["hello", "share"])
def test_a_run_that_does_not_begin_charges_nothing(tmp_path: Path, kind: Any) -> None:
    path = ledger_at(tmp_path / "ratings.ledger")
    agreement, key, clients, transport, _ = in_process(tmp_path, "secure", n=3, drop_outs=1)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return None if (node, message.kind) == (1, kind) else content

    with pytest.raises(AbandonedError, match="Nothing was charged"):
        run_server(agreement, key, Wire(clients, change), ledger=path, settings=HASTE)
    assert Ledger.open(path).entries() == ()
    # No data were asked for, so the same agreement may be tried again.
    run_server(agreement, key, transport, ledger=path, settings=HASTE)
    assert len(Ledger.open(path).entries()) == 1


def test_a_ledger_without_budget_stops_the_run_before_any_question(tmp_path: Path) -> None:
    path = ledger_at(tmp_path / "ratings.ledger", epsilon=4.0)
    agreement, key, clients, transport, _ = in_process(tmp_path, "aggregator")
    with pytest.raises(BudgetExceededError):
        run_server(agreement, key, transport, ledger=path, settings=HASTE)
    assert not any((client.home / "agreements" / agreement.digest / "begun").exists() for client in clients)


def test_with_local_noise_every_client_charges_its_own_ledger_once(tmp_path: Path) -> None:
    ledgers = [ledger_at(tmp_path / f"{k}.ledger") for k in range(3)]
    agreement, key, homes = agreed(tmp_path, Trust(kind="local", clients=3))
    groups = split_users(ratings(), 3)
    clients = [
        clients_of(agreement, [home], [group], ledger=path)[0]
        for home, group, path in zip(homes, groups, ledgers, strict=True)
    ]
    transport = InProcess(answers=[client.answer for client in clients])
    with pytest.raises(InputError, match="its own ledger"):
        run_server(agreement, key, transport, ledger=ledgers[0], settings=HASTE)
    outcome = run_server(agreement, key, transport, settings=HASTE)
    for path in ledgers:
        (charge,) = Ledger.open(path).entries()
        assert charge.event == agreement.event
    assert "against the server and all other clients together" in outcome.guarantee_.sentence()
    # Each client alone is private at epsilon; what all of them together release is more so.
    assert agreement.recipe.epsilon < agreement.epsilon


def test_a_client_that_cannot_pay_does_not_answer(tmp_path: Path) -> None:
    ledgers = [ledger_at(tmp_path / f"{k}.ledger", epsilon=1.0 if k == 1 else 5.0) for k in range(3)]
    agreement, key, homes = agreed(tmp_path, Trust(kind="local", clients=3))
    clients = [
        clients_of(agreement, [home], [group], ledger=path)[0]
        for home, group, path in zip(homes, split_users(ratings(), 3), ledgers, strict=True)
    ]
    outcome = run_server(agreement, key, InProcess(answers=[c.answer for c in clients]), settings=HASTE)
    assert outcome.missing == {this.name: (1,) for this in agreement.recipe.rounds}
    assert Ledger.open(ledgers[1]).entries() == ()


def test_strangers_and_doubles_are_not_let_in(tmp_path: Path) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator", n=2, noise=False)
    stranger = make_identity(tmp_path / "stranger")

    def impostor(content: Any) -> Any:
        asked = wire.decode(content, len(content))
        facts = {**vars(asked), "sender": 0, "receiver": wire.SERVER, "arrays": {}}
        return wire.encode(wire.Message(**facts), stranger)

    answers = [impostor, clients[0].answer, clients[1].answer]
    outcome = run_server(agreement, key, InProcess(answers=answers), settings=HASTE)
    assert [incident.reason for incident in outcome.incidents] == ["the signature is wrong"]


def test_the_server_must_hold_the_agreed_key(tmp_path: Path) -> None:
    agreement, _, _, transport, _ = in_process(tmp_path, "aggregator")
    with pytest.raises(InputError, match="not the server's"):
        run_server(agreement, make_identity(tmp_path / "other"), transport, settings=HASTE)


def test_agreements_are_read_back_strictly(tmp_path: Path) -> None:
    agreement, *_ = in_process(tmp_path, "secure")
    agreement.save(tmp_path / "agreement.json")
    again = Agreement.load(tmp_path / "agreement.json")
    assert again == agreement
    assert again.digest == agreement.digest
    content = agreement.to_json()
    for change in ({"format": 2}, {"more": 1}, {"clients": "abc"}, {"recipe_kind": "other"}, {"nonce": "1"}):
        with pytest.raises(InputError):
            Agreement.from_json(content | change)
    with pytest.raises(InputError, match="cost more than the epsilon"):
        Agreement.from_json(content | {"epsilon": 4.9})
    with pytest.raises(InputError, match="two are the same"):
        Agreement.from_json(content | {"clients": [content["clients"][0]] * 3})
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match="not an agreement"):
        Agreement.load(tmp_path / "broken.json")


class Moving(InProcess):
    """A transport in which a client is restarted: its node leaves, and another one comes in its place later."""

    def __init__(self, clients: Any, *, leaves: int, returns: int) -> None:
        answers: Any = {node: client.answer for node, client in enumerate(clients)}
        super().__init__(answers=answers)
        self.plan = [leaves, returns]
        self.gone: Any = None

    def nodes(self) -> Any:
        return sorted(self.answers)

    def exchange(self, messages: Any, timeout: Any, look: Any = None) -> Any:
        answers: Any = self.answers
        asked = {wire.decode(content, len(content)).kind for content in messages.values()}
        if "sum" in asked:
            self.plan = [left - 1 for left in self.plan]
        if self.plan[1] == 0 and self.gone is not None:
            answers[16], answers[17], self.gone = self.refuse, self.gone, None
        replies = super().exchange(messages, timeout, look)
        if self.plan[0] == 0 and 2 in answers:
            self.gone = answers.pop(2)
        return replies

    def refuse(self, content: bytes) -> bytes:
        raise RefusedError("nobody knows this one")


@pytest.mark.parametrize("kind", ["aggregator", "secure", "local"])
def test_a_client_that_was_restarted_is_taken_back(tmp_path: Path, kind: str) -> None:
    more: Any = {"drop_outs": 1} if kind == "secure" else {}
    agreement, key, clients, _, _ = in_process(tmp_path, kind, n=4, sweeps=2, **more)
    if kind == "local":
        clients = [replace(c, ledger=ledger_at(tmp_path / f"{k}.ledger")) for k, c in enumerate(clients)]
    outcome = run_server(agreement, key, Moving(clients, leaves=1, returns=3), settings=HASTE)
    names = [this.name for this in agreement.recipe.rounds]
    assert outcome.missing == {names[1]: (2,)}
    if kind == "local":
        assert [len(Ledger.open(client.ledger).entries()) for client in clients] == [1] * 4


def test_a_server_that_is_started_again_tells_the_truth(tmp_path: Path) -> None:
    from tensorveil.federated.home import Home
    from tensorveil.runs.federate import SERVED, check_unused

    path = ledger_at(tmp_path / "ratings.ledger")
    agreement, key, _, transport, _ = in_process(tmp_path, "aggregator")
    memory = Home.of(tmp_path / "server", agreement.digest)
    check_unused(memory, path)

    def begin(release_id: str) -> None:
        memory.keep(SERVED, release_id.encode())
        check_unused(memory, path)  # nothing is charged yet, so the run may begin again

    run_server(agreement, key, transport, ledger=path, settings=HASTE, begin=begin)
    (charge,) = Ledger.open(path).entries()
    with pytest.raises(AbandonedError, match=f"charge {charge.release_id} in"):
        check_unused(memory, path)
    with pytest.raises(AbandonedError, match="Make a new one"):
        check_unused(memory, None)


@pytest.mark.parametrize("kind", ["aggregator", "secure", "local"])
def test_a_client_that_comes_back_for_the_end_is_told_that_the_run_was_completed(tmp_path: Path, kind: str) -> None:
    more: Any = {"drop_outs": 1} if kind == "secure" else {}
    agreement, key, clients, _, _ = in_process(tmp_path, kind, n=3, **more)
    if kind == "local":
        clients = [replace(c, ledger=ledger_at(tmp_path / f"{k}.ledger")) for k, c in enumerate(clients)]
    rounds = len(agreement.recipe.rounds)

    class Ending(Moving):
        def exchange(self, messages: Any, timeout: Any, look: Any = None) -> Any:
            if not messages and self.gone is not None:  # nobody is asked at a known node: this is the end
                self.plan[1] = 0
            return super().exchange(messages, timeout, look)

    outcome = run_server(agreement, key, Ending(clients, leaves=rounds - 1, returns=10**9), settings=HASTE)
    assert outcome.missing == {agreement.recipe.rounds[-1].name: (2,)}
    assert [client.told for client in clients] == [None, None, "completed"]
    assert [client.finished for client in clients] == [True, True, False]
    folder = clients[2].home / "agreements" / agreement.digest
    assert not {"seed", "shares", "peers"} & {path.name for path in folder.iterdir()}


def test_all_are_told_when_a_run_is_abandoned(tmp_path: Path) -> None:
    path = ledger_at(tmp_path / "ratings.ledger")
    agreement, key, clients, _, _ = in_process(tmp_path, "secure", n=3)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return None if (node, message.kind, message.round) == (1, "sum", 1) else content

    with pytest.raises(AbandonedError, match="more dropped out"):
        run_server(agreement, key, Wire(clients, change), ledger=path, settings=HASTE)
    assert [client.told for client in clients] == ["abandoned"] * 3
    assert len(Ledger.open(path).entries()) == 1


def test_that_nobody_can_be_told_loses_no_run(tmp_path: Path) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")

    class Broken(Wire):
        def exchange(self, messages: Any, timeout: Any, look: Any = None) -> Any:
            if "end" in {wire.decode(content, len(content)).kind for content in messages.values()}:
                raise OSError("the network is down")
            return super().exchange(messages, timeout, look)

    def change(node: Any, message: Any, content: Any, kept: Any) -> Any:
        return None if node == 1 and message.kind == "sum" else content

    outcome = run_server(agreement, key, Broken(clients, change), settings=HASTE)
    assert set(outcome.missing.values()) == {(1,)}
