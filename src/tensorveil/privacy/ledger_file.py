"""The ledger's file: SQLite with a rollback journal, so that all of it is one file, and every commit reaches the disk.

Each operation opens the file, works in one transaction and closes it again: nothing is held across forks, threads or
crashes. The file is never opened by other means, because closing any handle of it would drop SQLite's locks.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tensorveil.privacy.errors import LedgerError

__all__ = ["Book", "append", "check", "create_file", "load", "mark", "transaction"]

APPLICATION = 0x54564C44  # "TVLD"
VERSION = 1
BUSY_SECONDS = 60.0
PAUSE_SECONDS = 0.01
TABLES = """
CREATE TABLE facts (
    one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, unit TEXT NOT NULL, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, created TEXT NOT NULL, identity TEXT NOT NULL, composition TEXT,
    charges INTEGER NOT NULL, head TEXT NOT NULL);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY, release_id TEXT NOT NULL UNIQUE, purpose TEXT NOT NULL, event TEXT NOT NULL,
    charged TEXT NOT NULL, time TEXT NOT NULL, digest TEXT NOT NULL, confirmed TEXT);
"""
STATED = ("name", "unit", "epsilon", "delta", "created", "identity")  # fixed when the ledger is created
FACTS = (*STATED, "composition", "charges", "head")
ROW = ("number", "release_id", "purpose", "event", "charged", "time", "digest", "confirmed")


@dataclass(frozen=True, kw_only=True)
class Book:
    """Everything that a ledger's file holds, as text."""

    facts: dict[str, Any]
    rows: list[dict[str, Any]]


def create_file(path: Path, stated: dict[str, str], composition: str | None) -> None:
    """Make a new ledger: completely or not at all, and never over an existing file."""
    _check_text(path)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    stated = {**stated, "identity": uuid.uuid4().hex}
    texts = [stated[key] for key in STATED]
    values = [1, *texts, composition, 0, _digest(*texts)]
    try:
        with _translate_errors(path):
            connection = _connect(part, "rwc")
            try:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.executescript(f"BEGIN;{TABLES}COMMIT;")
                connection.execute(f"INSERT INTO facts VALUES ({', '.join('?' * len(values))})", values)
            finally:
                connection.close()
        _publish(part, path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    _sync_folder(path.parent)


def _publish(part: Path, path: Path) -> None:
    """Give the finished file its name, unless the name is taken."""
    try:
        try:
            os.link(part, path)  # unlike a rename, this refuses to replace a file
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            part.replace(path)
    except FileExistsError:
        raise LedgerError(f"there is a file at {path} already. Open that ledger, or choose another path.") from None


def _sync_folder(folder: Path) -> None:
    """Make the file's name durable, if the system allows folders to be synchronised."""
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def transaction(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction. A writing transaction keeps other writers out from start to end."""
    _check_text(path)
    if not path.is_file():
        raise LedgerError(f"there is no ledger at {path}. Create one with Ledger.create or `tensorveil budget create`.")
    _check_names(path)
    with _translate_errors(path):
        connection = _connect(path, "rw")
        try:
            _check_kind(connection, path)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection
            connection.execute("COMMIT")
        finally:
            # Without a COMMIT, closing rolls back.
            connection.close()
    if write:
        # Others look only now and then whether the ledger is free: without a pause, one that charges in a loop would
        # keep them waiting until they give up.
        time.sleep(PAUSE_SECONDS)


def _check_text(path: Path) -> None:
    """Refuse names that are no text, which SQLite cannot open and nobody can print."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise LedgerError("the ledger's path must be text in UTF-8. Rename its file or folder.") from None


def _check_names(path: Path) -> None:
    """Refuse a ledger that has a second name, or side files of a journal that is not ours.

    SQLite finds the journal of a crashed charge by the name under which the ledger is opened: under another name it
    would not undo what was half done, and later undo what was reported. Charges in a write-ahead log are lost with it.
    """
    real = path.resolve()
    if real.stat().st_nlink > 1:
        _remove_own_link(real)
    if real.stat().st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has a second name (a hard link), under which charges could be forgotten. Release "
            "nothing; keep one of the names, and remove the other."
        )
    if any(real.with_name(real.name + ending).exists() for ending in ("-wal", "-shm")):
        raise _foreign_journal(path)


def _remove_own_link(real: Path) -> None:
    """Remove the name under which a ledger was made, where a crash has left it."""
    for part in real.parent.glob(f".{glob.escape(real.name)}.*.part"):
        if part.samefile(real):
            part.unlink()


def _foreign_journal(path: Path) -> LedgerError:
    return LedgerError(
        f"the ledger {path} was changed to another kind of journal, in which charges can be lost together with a side "
        "file. Release nothing; change it back with `PRAGMA journal_mode=DELETE` in sqlite3, while its side files are "
        "there, and compare its charges with what was released."
    )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    # EXTRA also synchronises the folder after the journal is removed: without it, a power cut could bring the journal
    # back and with it undo a commit that was already reported.
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise LedgerError(f"{path} is not a privacy ledger. Check the path.")
    if version != VERSION:
        raise LedgerError(f"{path} was written by another version of tensorveil. Try upgrading tensorveil.")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
        raise _foreign_journal(path)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Let SQLite check that the file is intact."""
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise _damage_error(path)


def load(connection: sqlite3.Connection, path: Path) -> Book:
    """Read everything, and check that no charge is missing or changed: each one's digest contains the one before."""
    found = connection.execute(f"SELECT {', '.join(FACTS)} FROM facts").fetchone()
    if found is None:
        raise _damage_error(path)
    facts = dict(zip(FACTS, found, strict=True))
    listed = connection.execute(f"SELECT {', '.join(ROW)} FROM charges ORDER BY number").fetchall()
    rows = [dict(zip(ROW, row, strict=True)) for row in listed]
    if any(isinstance(item, bytes) for each in (facts, *rows) for item in each.values()):
        raise _damage_error(path)
    head = _digest(*(facts[key] for key in STATED))
    for number, row in enumerate(rows, start=1):
        head = _row_digest(head, facts["composition"], row)
        if row["number"] != number or row["digest"] != head:
            raise _damage_error(path)
    if facts["charges"] != len(rows) or facts["head"] != head:
        raise _damage_error(path)
    return Book(facts=facts, rows=rows)


def append(connection: sqlite3.Connection, book: Book, composition: str, row: dict[str, Any]) -> dict[str, Any]:
    """Add a charge and move the head, inside the caller's transaction; return the whole row."""
    number = len(book.rows) + 1
    row = {**row, "number": number, "confirmed": None}
    row["digest"] = _row_digest(book.facts["head"], composition, row)
    connection.execute(
        f"INSERT INTO charges ({', '.join(ROW)}) VALUES ({', '.join('?' * len(ROW))})", [row[key] for key in ROW]
    )
    connection.execute("UPDATE facts SET composition = ?, charges = ?, head = ?", (composition, number, row["digest"]))
    return row


def mark(connection: sqlite3.Connection, release_id: str, time: str) -> bool:
    """Record that a release was written; return whether it was ever charged."""
    connection.execute(
        "UPDATE charges SET confirmed = ? WHERE release_id = ? AND confirmed IS NULL", (time, release_id)
    )
    return connection.execute("SELECT 1 FROM charges WHERE release_id = ?", (release_id,)).fetchone() is not None


def _row_digest(head: str, composition: str | None, row: dict[str, Any]) -> str:
    keys = ("number", "release_id", "purpose", "event", "charged", "time")
    return _digest(head, composition, *(row[key] for key in keys))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def _damage_error(path: Path) -> LedgerError:
    return LedgerError(
        f"the ledger {path} is damaged or was changed by hand, so what was spent is not known. "
        "Release nothing; restore the newest copy, or count the whole budget as spent."
    )


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # Python 3.11 names the cause; the text is used where it does not.
        cause = getattr(error, "sqlite_errorname", "") or str(error)
        if "BUSY" in cause or "LOCKED" in cause:
            raise LedgerError(f"the ledger {path} is in use by another process. Release nothing; try again.") from error
        if "no such table" in str(error):
            raise _damage_error(path) from error
        raise LedgerError(f"the ledger {path} cannot be opened or written ({cause}). Release nothing.") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes a damaged schema, which may be no text
        raise _damage_error(path) from error
