"""The ledger: what has been spent on one data set. A charge is on disk before anything may be released.

A crash may lose a release, never a charge, and two processes cannot overspend together.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.privacy.budget import Budget
from tensorveil.privacy.covering import convert_event
from tensorveil.privacy.delta import check_delta
from tensorveil.privacy.errors import BudgetExceededError, LedgerError
from tensorveil.privacy.events import Event, event_from_json, event_to_json, has_sampling
from tensorveil.privacy.exact import show_at_least, show_at_most
from tensorveil.privacy.filters import COMPOSITIONS, Balance, admit, balances, settle
from tensorveil.privacy.guarantee import Guarantee
from tensorveil.privacy.ledger_file import Book, append, check, create_file, load, mark, transaction
from tensorveil.privacy.unit import Unit

__all__ = ["Charge", "Ledger", "Statement"]

LONGEST = 200  # characters of a name, a purpose or an id


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One line of the ledger. Unconfirmed means that it is spent, and that the release may or may not exist."""

    number: int
    release_id: str
    purpose: str
    event: Event
    charged: Event
    time: str
    confirmed: str | None

    @property
    def status(self) -> str:
        """What is known about the release."""
        return "released" if self.confirmed else "spent, release unknown"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The state of a ledger at one moment. `composition` says how charges add up; None until the first charge."""

    composition: str | None
    spent: Balance
    remaining: Balance
    entries: tuple[Charge, ...]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The ledger of one data set; make it with `Ledger.create` or `Ledger.open`.

    Keep one ledger per data set, for one unit, on a local disk, however many programs and people use the data. A second
    ledger for the same data cannot be prevented, and what one of them counts is then not all that was spent. A ledger
    holds names, purposes and costs, never data: do not put any into purposes or ids.

    Examples
    --------
    >>> from tensorveil.privacy import Pure
    >>> budget = Budget(epsilon=1.0, delta=0.0)
    >>> ledger = Ledger.create("example.ledger", budget=budget, unit=Unit.value(), name="ratings")
    >>> charge = ledger.charge(Pure(0.25), "mean rating", "mean-2026-01")
    >>> ledger.confirm("mean-2026-01")
    >>> ledger.remaining().epsilon
    0.75
    """

    path: Path
    name: str
    unit: Unit
    budget: Budget
    created: str
    identity: str

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        budget: Budget,
        unit: Unit | str,
        name: str,
        composition: str | None = None,
        accept_delta: bool = False,
    ) -> Ledger:
        """Make a new ledger file; an existing one is never replaced.

        Parameters
        ----------
        path
            Where to put the file; its folder must exist.
        budget, unit
            All that may ever be spent on the data set, and for which unit.
        name
            The name of the data set.
        composition
            How charges add up: "sum", "gaussian" or "zcdp". None decides at the first charge.
        accept_delta
            Whether to allow a delta that promises next to nothing, above 0.01.
        """
        path = Path(path)
        if not isinstance(budget, Budget):
            raise InputError("budget must be a Budget. Try Budget(epsilon=1.0, delta=1e-6).")
        check_delta(budget.delta, Unit.parse(unit), among=None, accepted=accept_delta)
        _check_composition(composition, budget)
        if not path.parent.is_dir():
            raise LedgerError(f"there is no folder {path.parent} to hold the ledger. Make it first.")
        stated = {
            "name": _check_text("name", name),
            "unit": str(Unit.parse(unit)),
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "created": _now(),
        }
        create_file(path, stated, composition)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open a ledger file and check that it is complete."""
        path = Path(path)
        with transaction(path, write=False) as connection:
            check(connection, path)
            facts = load(connection, path).facts
        return cls(
            path=path,
            name=facts["name"],
            unit=Unit.parse(facts["unit"]),
            budget=Budget(epsilon=float(facts["epsilon"]), delta=float(facts["delta"])),
            created=facts["created"],
            identity=facts["identity"],
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what is left, and every charge."""
        from tensorveil.markup import notebook_card

        found = self.statement()
        facts = [
            ("data set", self.name),
            ("unit", self.unit),
            ("budget", f"epsilon {self.budget.epsilon:g}, delta {self.budget.delta:g}"),
            ("spent", f"epsilon {show_at_least(found.spent.epsilon)}, delta {show_at_least(found.spent.delta)}"),
            ("left", f"epsilon {show_at_most(found.remaining.epsilon)}, delta {show_at_most(found.remaining.delta)}"),
        ]
        rows = [(each.number, each.time, each.purpose, each.status) for each in found.entries]
        return notebook_card("Ledger", facts, head=("charge", "time", "purpose", "status"), rows=rows)

    def charge(
        self,
        spending: Event | Guarantee,
        purpose: str,
        release_id: str,
        *,
        delta: float | None = None,
        unit: Unit | str | None = None,
    ) -> Charge:
        """Charge the ledger before anything is released: when this returns, the charge is on disk.

        Parameters
        ----------
        spending
            A proven guarantee, or events. What protects a stronger unit than the ledger's (slice, then entry, then
            value) is charged at what it costs in the ledger's unit: twice its epsilon or mu. What protects another or
            a weaker one is refused.
        purpose
            What it is for, in a few words, without data.
        release_id
            An id of the release that has not been charged before.
        delta
            In a ledger that composes by sum, the part of delta that Gaussian and zCDP events may use; None uses the
            guarantee's own delta, or all that is left.
        unit
            The unit that events are calibrated to; None means the ledger's. A guarantee has its own.

        Raises BudgetExceededError, and charges nothing, if the budget does not cover it.
        """
        event, delta = self._read_spending(spending, delta, unit)
        purpose, release_id = _check_text("purpose", purpose), _check_text("release_id", release_id)
        with transaction(self.path, write=True) as connection:
            book = self._load(connection)
            if any(row["release_id"] == release_id for row in book.rows):
                raise InputError("release_id was charged before. Give every release its own id.")
            composition = book.facts["composition"] or settle(event, self.budget)
            cost = admit(event, _list_costs(book), composition, self.budget, delta)
            row: dict[str, Any] = {
                "release_id": release_id,
                "purpose": purpose,
                "event": json.dumps(event_to_json(event)),
                "charged": json.dumps(event_to_json(cost)),
                "time": _now(),
            }
            row = append(connection, book, composition, row)
        return _read_charge(row)

    def confirm(self, release_id: str) -> None:
        """Record that a charged release was written. Confirming twice does no harm."""
        with transaction(self.path, write=True) as connection:
            self._load(connection)
            if not mark(connection, release_id, _now()):
                raise InputError("release_id was never charged. Charge a release before it is written.")

    def has(self, release_id: str) -> bool:
        """Tell whether a release was charged."""
        with transaction(self.path, write=False) as connection:
            return any(row["release_id"] == release_id for row in self._load(connection).rows)

    def stands(
        self,
        release_id: str,
        spending: Event | Guarantee,
        *,
        delta: float | None = None,
        unit: Unit | str | None = None,
    ) -> bool:
        """Tell whether a release was charged, and for just this; what was charged for something else is refused."""
        event, _ = self._read_spending(spending, delta, unit)
        charged = [each.event for each in self.entries() if each.release_id == release_id]
        if charged and event_to_json(charged[0]) != event_to_json(event):
            raise InputError("release_id was charged for something else. Give every release its own id.")
        return bool(charged)

    def affords(
        self, spending: Event | Guarantee, *, delta: float | None = None, unit: Unit | str | None = None
    ) -> bool:
        """Tell whether a charge would be accepted now; nothing is charged."""
        event, delta = self._read_spending(spending, delta, unit)
        with transaction(self.path, write=False) as connection:
            book = self._load(connection)
        composition = book.facts["composition"] or settle(event, self.budget)
        try:
            admit(event, _list_costs(book), composition, self.budget, delta)
        except BudgetExceededError:
            return False
        return True

    def statement(self) -> Statement:
        """Read everything at once: charges, what was spent, what is left."""
        with transaction(self.path, write=False) as connection:
            book = self._load(connection)
        composition = book.facts["composition"]
        spent, remaining = balances(_list_costs(book), composition, self.budget)
        entries = tuple(_read_charge(row) for row in book.rows)
        return Statement(composition=composition, spent=spent, remaining=remaining, entries=entries)

    def spent(self) -> Balance:
        """Return what was spent so far, rounded up."""
        return self.statement().spent

    def remaining(self) -> Balance:
        """Return what is left, rounded down; its event is the largest charge of the ledger's own kind."""
        return self.statement().remaining

    def entries(self) -> tuple[Charge, ...]:
        """List the charges, oldest first."""
        return self.statement().entries

    def _read_spending(
        self, spending: Event | Guarantee, delta: float | None, unit: Unit | str | None
    ) -> tuple[Event, float | None]:
        """Return the event, in the ledger's unit, and delta to charge; refuse guarantees that do not qualify."""
        if isinstance(spending, Guarantee):
            if not spending.private:
                raise InputError("the guarantee is not proven, or its noise was seeded: no charge makes it private.")
            if unit is not None and Unit.parse(unit) != spending.unit:
                raise InputError("unit must be left out with a guarantee, which has its own.")
            assert spending.event is not None  # proven guarantees have one, which was checked against their epsilon
            event, unit = spending.event, spending.unit
            delta = spending.delta if delta is None else delta
        else:
            event_to_json(spending)  # refuses anything that is not an event
            event = spending
        event = convert_event(event, self.unit if unit is None else Unit.parse(unit), self.unit)
        if self.unit.replaces and has_sampling(event):
            raise InputError(
                f"unit {str(self.unit)!r} replaces, but the cost of Poisson sampling is known only for adding or "
                "removing. Use unit 'entry', or account without sampling."
            )
        return event, delta

    def _load(self, connection: sqlite3.Connection) -> Book:
        """Read the book, and check that it is the one that was opened: the file may have been replaced."""
        book = load(connection, self.path)
        if book.facts["identity"] != self.identity:
            raise LedgerError(f"there is another ledger at {self.path} now. Open it again.")
        return book


def _read_charge(row: dict[str, Any]) -> Charge:
    return Charge(
        number=row["number"],
        release_id=row["release_id"],
        purpose=row["purpose"],
        event=event_from_json(json.loads(row["event"])),
        charged=event_from_json(json.loads(row["charged"])),
        time=row["time"],
        confirmed=row["confirmed"],
    )


def _list_costs(book: Book) -> list[Event]:
    return [event_from_json(json.loads(row["charged"])) for row in book.rows]


def _check_composition(composition: str | None, budget: Budget) -> None:
    if composition is not None and composition not in COMPOSITIONS:
        raise InputError(f"composition must be 'sum', 'gaussian' or 'zcdp'; got {composition!r}. Try 'sum'.")
    if composition in ("gaussian", "zcdp") and budget.delta == 0:
        raise InputError(f"composition {composition!r} needs a delta above 0. Try composition='sum', or delta=1e-6.")


def _check_text(name: str, text: Any) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not text.isprintable():
        raise InputError(f"{name} must be 1 to {LONGEST} printable characters on one line. It must not hold data.")
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
