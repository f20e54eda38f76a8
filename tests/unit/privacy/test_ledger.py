"""The ledger: what it accepts, refuses, remembers and notices."""

import contextlib
import dataclasses
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tensorveil.errors import InputError, TensorveilError
from tensorveil.privacy import (
    ZCDP,
    Approximate,
    Budget,
    BudgetExceededError,
    Composed,
    Gaussian,
    Guarantee,
    Ledger,
    LedgerError,
    NonPrivate,
    Part,
    Pure,
    Repeated,
    SampledGaussian,
    Unit,
    epsilon_for,
    gaussian_mu,
    split_gaussian,
    zcdp_rho,
)

PURE = Budget(epsilon=1.0, delta=0.0)
BOTH = Budget(epsilon=1.0, delta=1e-6)


def make(tmp_path: Path, budget: Any = PURE, unit: str = "value", **more: Any) -> Any:
    return Ledger.create(tmp_path / "data.ledger", budget=budget, unit=unit, name="ratings", **more)


def promise(event: Any = None, *, delta: float = 0.0, **changes: Any) -> Any:
    event = event or Pure(0.5)
    made = Guarantee.prove(
        unit=Unit.value(),
        event=event,
        delta=delta,
        composition=[Part(name="values", statistic="every value", event=event)],
        released=["model"],
        proof="docs/guarantees.md#input",
        secure_noise=True,
        bounds=(1, 5),
        mechanism="input perturbation",
    )
    return dataclasses.replace(made, **changes)


def test_a_new_ledger_is_whole_and_empty(tmp_path: Path) -> None:
    ledger = make(tmp_path, BOTH, "slice:user")
    assert Ledger.open(ledger.path) == ledger
    assert (ledger.name, ledger.unit, ledger.budget) == ("ratings", Unit.slice("user"), BOTH)
    assert ledger.entries() == ()
    assert ledger.spent().epsilon == ledger.spent().fraction == 0
    assert ledger.remaining().epsilon == 1.0
    assert ledger.statement().composition is None
    assert [found.name for found in tmp_path.iterdir()] == ["data.ledger"]


def test_charges_add_up_to_the_whole_budget_and_no_further(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    for number in range(10):
        charge = ledger.charge(Pure(0.1), "a tenth", f"release-{number}")
        assert charge == ledger.entries()[-1]
    assert ledger.spent().epsilon == 1.0
    assert ledger.remaining().epsilon == 0.0
    with pytest.raises(BudgetExceededError, match="Nothing was charged"):
        ledger.charge(Pure(1e-12), "more", "too-much")
    assert not ledger.affords(Pure(1e-12))
    assert len(Ledger.open(ledger.path).entries()) == 10
    assert issubclass(BudgetExceededError, TensorveilError)


def test_confirming(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    assert ledger.charge(Pure(0.1), "mean", "a").status == "spent, release unknown"
    ledger.charge(Pure(0.1), "mean", "b")
    ledger.confirm("a")
    first = ledger.entries()[0].confirmed
    ledger.confirm("a")
    assert [charge.status for charge in ledger.entries()] == ["released", "spent, release unknown"]
    assert ledger.entries()[0].confirmed == first
    with pytest.raises(InputError, match="never charged"):
        ledger.confirm("c")


def test_an_id_is_charged_once(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    ledger.charge(Pure(0.1), "mean", "a")
    with pytest.raises(InputError, match="charged before"):
        ledger.charge(Pure(0.1), "mean", "a")
    assert ledger.spent().epsilon == 0.1


def test_gaussian_charges_compose_exactly(tmp_path: Path) -> None:
    ledger = make(tmp_path, BOTH)
    mu = gaussian_mu(1.0, 1e-6)
    for number, part in enumerate(split_gaussian(mu, [1] * 20)):
        ledger.charge(Gaussian(part), "part", f"{number}")
    spent = ledger.spent()
    assert spent.epsilon == pytest.approx(1.0, rel=1e-9)
    assert spent.epsilon <= 1.0
    assert spent.fraction == pytest.approx(1.0)
    assert ledger.statement().composition == "gaussian"
    assert not ledger.affords(Gaussian(mu / 1000))


def test_what_is_left_can_be_charged(tmp_path: Path) -> None:
    for name, first in (("gaussian", Gaussian(0.1)), ("zcdp", ZCDP(0.01)), ("sum", Pure(0.3))):
        ledger = Ledger.create(tmp_path / name, budget=BOTH, unit="value", name="ratings")
        ledger.charge(first, "first", "a")
        assert ledger.statement().composition == name
        left = ledger.remaining()
        assert 0 < left.epsilon < 1
        ledger.charge(left.event, "the rest", "b")
        assert ledger.spent().epsilon <= 1.0
        assert ledger.remaining().fraction < 1e-9


def test_a_ledger_keeps_to_the_currency_of_its_first_charge(tmp_path: Path) -> None:
    ledger = make(tmp_path, BOTH)
    ledger.charge(Gaussian(0.1), "first", "a")
    charge = ledger.charge(Pure(0.03), "pure counts as the mu that contains it", "b")
    assert isinstance(charge.charged, Gaussian)
    assert charge.charged.mu == pytest.approx(1.2533 * 0.03, rel=1e-3)
    assert charge.event == Pure(0.03)
    # the truth of both together is never above what the ledger says
    assert epsilon_for(Composed([Gaussian(0.1), Pure(0.03)]), 1e-6) <= ledger.spent().epsilon
    for foreign in (ZCDP(0.001), Approximate(0.01, 1e-9)):
        with pytest.raises(InputError, match="composition='sum'"):
            ledger.charge(foreign, "other", "c")


def test_adding_up_by_sum_takes_shares_of_delta(tmp_path: Path) -> None:
    ledger = make(tmp_path, BOTH, composition="sum")
    charge = ledger.charge(Gaussian(0.1), "half of delta", "a", delta=5e-7)
    assert charge.charged == Approximate(epsilon_for(Gaussian(0.1), 5e-7), 5e-7)
    ledger.charge(promise(Gaussian(0.05), delta=2e-7), "its own delta", "b")
    assert ledger.spent().delta == 7e-7
    with pytest.raises(BudgetExceededError):
        ledger.charge(Gaussian(0.01), "too much delta", "c", delta=4e-7)
    ledger.charge(Gaussian(0.01), "all the rest of delta", "c")
    assert ledger.remaining().delta == 0
    with pytest.raises(BudgetExceededError):
        ledger.charge(Gaussian(0.01), "no delta left", "d")
    ledger.charge(Pure(0.01), "pure needs none", "d")


def test_a_mixed_first_charge_may_use_the_whole_budget(tmp_path: Path) -> None:
    event = Composed([Pure(0.3), Gaussian(0.16)])
    cost = epsilon_for(event, 1e-6)
    ledger = make(tmp_path, Budget(epsilon=cost, delta=1e-6))
    ledger.charge(event, "everything", "a")
    assert ledger.spent().epsilon == cost
    small = Ledger.create(tmp_path / "b", budget=BOTH, unit="value", name="x")
    small.charge(Composed([Pure(0.01), Gaussian(0.1)]), "a part", "a")
    assert small.statement().composition == "gaussian"


def test_zcdp_charges(tmp_path: Path) -> None:
    ledger = make(tmp_path, BOTH)
    rho = zcdp_rho(1.0, 1e-6)
    ledger.charge(ZCDP(rho / 2), "half", "a")
    assert ledger.charge(Gaussian(0.01), "gauss", "b").charged == ZCDP(0.00005)
    assert ledger.charge(Pure(0.01), "pure", "c").charged == ZCDP(0.00005)
    with pytest.raises(BudgetExceededError):
        ledger.charge(ZCDP(rho / 2), "half", "d")
    assert ledger.spent().epsilon <= 1


def test_sampling(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    ledger = make(tmp_path, BOTH, "entry")
    charge = ledger.charge(SampledGaussian(0.3, 0.01), "step", "a", delta=1e-7)
    assert charge.charged.delta == 1e-7
    with pytest.raises(InputError, match="Poisson"):
        Ledger.create(tmp_path / "b", budget=BOTH, unit="value", name="x").charge(SampledGaussian(0.3, 0.01), "s", "a")


def test_guarantees_must_deserve_a_charge(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    ledger.charge(promise(), "model", "a")
    ledger.charge(promise(event=Pure(0.25), epsilon=0.3), "what was spent, not what was promised", "b")
    assert ledger.spent().epsilon == 0.75
    for bad in ({"secure_noise": False}, {"status": "refuted"}, {"status": "claimed"}):
        with pytest.raises(InputError, match="no charge makes it private"):
            ledger.charge(promise(**bad), "model", "c")
    with pytest.raises(InputError, match="such as Pure"):
        ledger.charge(0.1, "model", "c")
    with pytest.raises(InputError, match="unit must be left out"):
        ledger.charge(promise(), "model", "c", unit="entry")


STRONGER = [("slice:user", "entry"), ("slice:user", "value"), ("entry", "value")]


@pytest.mark.parametrize(("released", "budgeted"), STRONGER)
def test_a_stronger_unit_is_charged_at_what_it_costs_in_the_ledgers(
    tmp_path: Path, released: Any, budgeted: Any
) -> None:
    ledger = make(tmp_path, unit=budgeted)
    charge = ledger.charge(promise(Pure(0.25), unit=Unit.parse(released)), "model", "a")
    assert charge.event == Pure(0.5)
    assert ledger.spent().epsilon == 0.5
    assert ledger.affords(Composed([Pure(0.125), Repeated(Pure(0.0625), 2)]), unit=released)
    with pytest.raises(BudgetExceededError):
        ledger.charge(Pure(0.3), "model", "b", unit=released)
    with pytest.raises(InputError, match="not known"):
        ledger.charge(Approximate(0.1, 1e-7), "model", "b", unit=released)


def test_a_stronger_unit_doubles_mu_and_quadruples_rho(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a", budget=BOTH, unit="entry", name="x")
    assert ledger.charge(Gaussian(0.05), "model", "a", unit="slice:user").charged == Gaussian(0.1)
    ledger = Ledger.create(tmp_path / "b", budget=BOTH, unit="entry", name="x")
    assert ledger.charge(ZCDP(0.001), "model", "a", unit="slice:user").charged == ZCDP(0.004)
    ledger = Ledger.create(tmp_path / "c", budget=BOTH, unit="local entry", name="x")
    assert ledger.charge(Pure(0.5), "report", "a", unit="tensor").event == Pure(0.5)


@pytest.mark.parametrize(
    ("released", "budgeted"),
    [*((weak, strong) for strong, weak in STRONGER), ("slice:film", "slice:user"), ("local entry", "tensor")],
)
def test_another_or_a_weaker_unit_is_not_covered(tmp_path: Path, released: Any, budgeted: Any) -> None:
    ledger = make(tmp_path, unit=budgeted)
    with pytest.raises(InputError, match="not covered by it"):
        ledger.charge(Pure(0.1), "model", "a", unit=released)
    with pytest.raises(InputError, match="second ledger"):
        ledger.affords(promise(unit=Unit.parse(released)))
    assert ledger.entries() == ()


def test_no_budget_covers_what_is_not_protected(tmp_path: Path) -> None:
    ledger = make(tmp_path, Budget(epsilon=1e9, delta=0.9), accept_delta=True)
    with pytest.raises(BudgetExceededError, match="not protected"):
        ledger.charge(Composed([Pure(0.1), NonPrivate()]), "oops", "a")
    pure = Ledger.create(tmp_path / "b", budget=PURE, unit="value", name="x")
    with pytest.raises(BudgetExceededError, match="infinite"):
        pure.charge(Gaussian(0.001), "no pure epsilon", "a")


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "x" * 201, 7, None])
def test_texts_are_short_lines(tmp_path: Path, text: Any) -> None:
    ledger = make(tmp_path)
    with pytest.raises(InputError, match="purpose"):
        ledger.charge(Pure(0.1), text, "a")
    with pytest.raises(InputError, match="release_id"):
        ledger.charge(Pure(0.1), "mean", text)
    with pytest.raises(InputError, match="name"):
        Ledger.create(tmp_path / "b", budget=PURE, unit="value", name=text)


def test_creating_refuses(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    ledger.charge(Pure(0.5), "mean", "a")
    with pytest.raises(LedgerError, match="already"):
        make(tmp_path)
    assert ledger.spent().epsilon == 0.5
    with pytest.raises(LedgerError, match="no folder"):
        Ledger.create(tmp_path / "no" / "x", budget=PURE, unit="value", name="x")
    with pytest.raises(InputError, match="composition"):
        Ledger.create(tmp_path / "x", budget=PURE, unit="value", name="x", composition="gaussian")
    with pytest.raises(InputError, match="composition"):
        Ledger.create(tmp_path / "x", budget=BOTH, unit="value", name="x", composition="best")
    with pytest.raises(InputError, match="budget"):
        Ledger.create(tmp_path / "x", budget=1.0, unit="value", name="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Ledger.create(tmp_path / "x", budget=PURE, name="x")  # type: ignore[call-arg]
    assert [found.name for found in tmp_path.iterdir()] == ["data.ledger"]


def test_creating_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    ledger = make(tmp_path)
    ledger.charge(Pure(0.5), "mean", "a")
    with pytest.raises(LedgerError, match="already"):
        make(tmp_path)
    assert [found.name for found in tmp_path.iterdir()] == ["data.ledger"]


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "text").write_text("value,1\n" * 1000)
    (tmp_path / "empty").write_text("")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    for name in ("text", "empty", "other"):
        with pytest.raises(LedgerError, match=r"not a privacy ledger|damaged"):
            Ledger.open(tmp_path / name)


def sql(path: Path, *statements: Any) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charges WHERE number = 1",
        "DELETE FROM charges WHERE number = 3",
        "DELETE FROM charges",
        "DELETE FROM facts",
        "DROP TABLE charges",
        'UPDATE charges SET charged = \'{"kind": "approximate", "epsilon": 0.01, "delta": 0.0}\' WHERE number = 2',
        "UPDATE charges SET event = 'x' WHERE number = 2",
        "UPDATE facts SET epsilon = '9.0'",
        "UPDATE facts SET composition = 'zcdp'",
        "UPDATE facts SET charges = 2",
        "UPDATE facts SET head = 'x'",
    ],
)
def test_changes_by_hand_are_noticed(tmp_path: Path, statement: Any) -> None:
    ledger = make(tmp_path)
    for name in "abc":
        ledger.charge(Pure(0.1), "mean", name)
    sql(ledger.path, statement)
    for use in (lambda: Ledger.open(ledger.path), ledger.spent, lambda: ledger.charge(Pure(0.1), "mean", "d")):
        with pytest.raises(LedgerError, match="damaged"):
            use()


def test_a_schema_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """SQLite quotes the schema in its message, which Python then cannot read."""
    ledger = make(tmp_path)
    content = ledger.path.read_bytes()
    at = content.index(b"CREATE TABLE") + 2
    ledger.path.write_bytes(content[:at] + b"\xce" + content[at + 1 :])
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(ledger.path)


def test_newer_versions_and_replaced_files(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    sql(ledger.path, "PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match="another version"):
        ledger.spent()
    ledger.path.unlink()
    make(tmp_path)
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.charge(Pure(0.1), "mean", "a")


def test_broken_bytes_are_noticed(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    for number in range(40):
        ledger.charge(Pure(0.01), "a purpose that fills pages", f"release-{number}")
    whole = ledger.path.read_bytes()
    for place in range(0, len(whole) - 4096, 4096):
        cut, blank = whole[: place + 100], whole[:place] + bytes(4096) + whole[place + 4096 :]
        for broken in (cut, blank):
            ledger.path.write_bytes(broken)
            with pytest.raises(LedgerError):
                Ledger.open(ledger.path)
    ledger.path.write_bytes(whole)
    assert Ledger.open(ledger.path).spent().epsilon == 0.4


def test_a_busy_ledger_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorveil.privacy.ledger_file.BUSY_SECONDS", 0.05)
    ledger = make(tmp_path)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="in use"):
        ledger.charge(Pure(0.1), "mean", "a")
    other.close()
    ledger.charge(Pure(0.1), "mean", "a")


def test_threads_cannot_overspend(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    accepted = []

    def spend(worker: Any) -> None:
        for number in range(10):
            with contextlib.suppress(BudgetExceededError):
                accepted.append(ledger.charge(Pure(0.1), "mean", f"{worker}-{number}"))

    threads = [threading.Thread(target=spend, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 10 == len(ledger.entries())
    assert sorted(charge.number for charge in accepted) == list(range(1, 11))


def charge_often(ledger: Any, times: int = 3) -> None:
    for number in range(times):
        ledger.charge(Pure(0.01), "mean", f"release {number}")


@pytest.mark.parametrize("lost", [None, "-wal"])
def test_another_kind_of_journal_is_refused(tmp_path: Path, lost: str | None) -> None:
    """Charges in a write-ahead log are forgotten with it; the ledger must not go on as if they had never been."""
    ledger = make(tmp_path)
    charge_often(ledger)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE charges SET purpose = purpose")
        connection.commit()
        if lost is not None:
            ledger.path.with_name(ledger.path.name + lost).unlink()
        for attempt in (ledger.entries, lambda: Ledger.open(ledger.path), lambda: charge_often(ledger)):
            with pytest.raises(LedgerError, match="another kind of journal"):
                attempt()


def test_a_journal_without_side_files_is_refused_too(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    assert not ledger.path.with_name(ledger.path.name + "-wal").exists()
    with pytest.raises(LedgerError, match="another kind of journal"):
        ledger.entries()


def test_a_second_name_is_refused(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    (tmp_path / "copy.ledger").hardlink_to(ledger.path)
    for path in (ledger.path, tmp_path / "copy.ledger"):
        with pytest.raises(LedgerError, match="second name"):
            Ledger.open(path)
    (tmp_path / "copy.ledger").unlink()
    assert Ledger.open(ledger.path) == ledger


def test_the_name_under_which_a_ledger_was_made_does_no_harm(tmp_path: Path) -> None:
    """A crash between the two names of a new ledger leaves both."""
    ledger = make(tmp_path)
    part = tmp_path / ".data.ledger.0123.part"
    part.hardlink_to(ledger.path)
    assert Ledger.open(ledger.path) == ledger
    assert not part.exists()


def test_a_link_to_a_ledger_is_the_ledger(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    (tmp_path / "link").symlink_to(ledger.path)
    charge_often(Ledger.open(tmp_path / "link"))
    assert len(ledger.entries()) == 3
    assert ledger.has("release 2")
    assert not ledger.has("release 3")


def test_bytes_in_place_of_text_are_damage(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    charge_often(ledger)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("UPDATE charges SET purpose = x'00ff' WHERE number = 2")
        connection.commit()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.entries()


RACER = """
import sys
from tensorveil.privacy import BudgetExceededError, Ledger, Pure
ledger, me, times = Ledger.open(sys.argv[1]), sys.argv[2], int(sys.argv[3])
refused = 0
for number in range(times):
    try:
        ledger.charge(Pure(0.001), "race", f"{me}-{number}")
    except BudgetExceededError:
        refused += 1
print(refused)
"""


def race(path: Path, times: int) -> list[int]:
    command = [sys.executable, "-c", RACER, str(path)]
    racers = [
        subprocess.Popen([*command, str(me), str(times)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for me in range(4)
    ]
    told = [racer.communicate() for racer in racers]
    assert all(racer.returncode == 0 for racer in racers), [err[-300:] for _, err in told]
    return [int(out) for out, _ in told]


@pytest.mark.parametrize("times", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_racing_processes_lose_nothing_and_none_gives_up(tmp_path: Path, times: int) -> None:
    """The budget covers nine in ten of what four processes ask for together."""
    covered = 4 * times * 9 // 10
    ledger = make(tmp_path, Budget(epsilon=0.001 * covered + 1e-9, delta=0.0))
    refused = race(ledger.path, times)
    assert len(ledger.entries()) == covered
    assert sum(refused) == 4 * times - covered
