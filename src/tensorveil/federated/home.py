"""A client's memory between messages: a folder that only it can read. No question is ever answered twice.

Before each answer a file is created exclusively to mark it, so that neither a replay nor a crash can make a client say
two things about one round. The secrets of a run are erased when its last round is done, when it is abandoned, or when
another one begins; what a file system, a backup or a disk keeps of erased files is beyond this.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorveil.federated.errors import RefusedError
from tensorveil.tensor.files.atomic import replace_file

__all__ = ["Home"]

SECRETS: Final = ("seed", "shares", "peers")


@dataclass(frozen=True, kw_only=True)
class Home:
    """What one client remembers of one agreement."""

    folder: Path

    @classmethod
    def of(cls, home: Path, digest: str) -> Home:
        """Return the memory of an agreement in a client's home folder."""
        folder = home / "agreements" / digest
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(folder=folder)

    def mark(self, name: str, content: str = "") -> bool:
        """Record durably that something happens now; return False if it was recorded before."""
        try:
            descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True

    def once(self, name: str) -> None:
        """Record that something is answered now, or refuse if it was answered before."""
        if not self.mark(f"answered-{name}"):
            raise RefusedError("this was answered before")

    def was_answered(self, name: str) -> bool:
        """Tell whether something has been answered."""
        return (self.folder / f"answered-{name}").exists()

    def begin(self, run: str) -> None:
        """Bind the agreement to the first run that asks for data; refuse every other one from then on."""
        if not self.mark("begun", run) and (self.folder / "begun").read_text(encoding="ascii") != run:
            raise RefusedError("the agreement was used up by another run")

    def name_once(self) -> str:
        """Return a name that only this memory has: made at first use, and gone with it."""
        self.mark("name", secrets.token_hex(16))
        name = (self.folder / "name").read_text(encoding="ascii")
        if len(name) != 32:  # cut short by a crash: other memories could have the same
            raise RefusedError("the memory of the agreement is damaged")
        return name

    def was_begun(self) -> bool:
        """Tell whether data have been asked for."""
        return (self.folder / "begun").exists()

    def has_name(self) -> bool:
        """Tell whether `name_once` has been asked for."""
        return (self.folder / "name").exists()

    def end(self, how: str) -> None:
        """Note how the run ended by the server's first word on it, and erase the secrets."""
        self.mark("ended", how)
        self.forget()

    def how_it_ended(self) -> str | None:
        """Return what `end` noted; None if the server has said nothing."""
        try:
            found = (self.folder / "ended").read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        return found or "abandoned"  # cut short by a crash

    def keep(self, name: str, content: bytes) -> None:
        """Keep bytes for a later message of the run."""
        with replace_file(self.folder / name, private=True) as temporary:
            temporary.write_bytes(content)

    def recall(self, name: str) -> bytes:
        """Return bytes that were kept earlier."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            raise RefusedError("an earlier message of the run is missing") from None

    def forget(self) -> None:
        """Erase the secrets of a run."""
        for name in SECRETS:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()
