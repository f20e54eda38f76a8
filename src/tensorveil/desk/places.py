"""Files that the desk may touch: below one folder, and what was uploaded."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tensorveil.desk.errors import FieldError

__all__ = ["Places"]

UPLOADED: Final = "upload:"
LISTED: Final = 500
_NAME = re.compile(r"[^\W_][\w .()+-]{0,99}")


@dataclass
class Places:
    """The folder that the desk was opened for, and a private one for uploads that goes when the desk does.

    Parameters
    ----------
    root
        Data files, ledgers and releases are here; nothing outside is read or written, by links neither.
    uploads
        An empty folder that nobody else can read.
    limit
        How many bytes all uploads together may have.
    """

    root: Path
    uploads: Path
    limit: int
    used: int = 0
    names: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()

    def find(self, text: str, name: str = "file") -> Path:
        """Return a file below the folder, or one that was uploaded."""
        if text.startswith(UPLOADED):
            if text not in self.names:
                raise FieldError(name, "this upload is not here any more. Upload the file again.")
            return self.names[text]
        found = self._below(text, name)
        if not found.is_file():
            raise FieldError(name, "there is no such file in the desk's folder. Choose one from the list.")
        return found

    def make_name(self, text: str, name: str) -> Path:
        """Return the path of something new in the folder, which a plain name was typed for."""
        if not _NAME.fullmatch(text) or text.endswith((".", " ")):
            raise FieldError(
                name, "give a plain name, such as release-1: letters, digits, and . - _ ( ) + between them."
            )
        if (self.root / text).is_symlink():
            raise FieldError(name, "there is a link of this name, which may lead anywhere. Choose another name.")
        return self.root / text

    def list_folder(self, text: str) -> dict[str, Any]:
        """Return what is in a folder: folders and files, without hidden ones and links that lead out."""
        folder = self._below(text, "folder") if text else self.root
        if not folder.is_dir():
            raise FieldError("folder", "there is no such folder in the desk's folder.")
        found = []
        for each in sorted(folder.iterdir(), key=lambda path: path.name.casefold()):
            path = each.relative_to(self.root).as_posix()
            try:
                place = self._below(path, "folder")
            except FieldError:
                continue
            if each.name.startswith(".") or not (place.is_file() or place.is_dir()):
                continue
            size = place.stat().st_size if place.is_file() else None
            found.append({"name": each.name, "path": path, "folder": size is None, "bytes": size})
        inside = folder.relative_to(self.root).as_posix()
        return {"folder": "" if inside == "." else inside, "found": found[:LISTED], "more": len(found) > LISTED}

    async def take(self, name: str, blocks: AsyncIterator[bytes]) -> str:
        """Keep an upload, and return what to call it by; one that is too large, or breaks off, leaves nothing."""
        plain = Path(name).name
        if plain != name or not _NAME.fullmatch(plain):
            raise FieldError("upload", "rename the file first: letters, digits, and . - _ ( ) + between them.")
        folder = self.uploads / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        taken = 0
        try:
            with (folder / plain).open("xb") as file:
                async for block in blocks:
                    taken, self.used = taken + len(block), self.used + len(block)
                    if self.used > self.limit:
                        raise FieldError(
                            "upload",
                            f"uploads may have {self.limit:,} bytes in all. Put the file into the desk's folder.",
                        )
                    file.write(block)
        except BaseException:
            self.used -= taken
            shutil.rmtree(folder, ignore_errors=True)
            raise
        key = f"{UPLOADED}{folder.name}/{plain}"
        self.names[key] = folder / plain
        return key

    def _below(self, text: str, name: str) -> Path:
        """Return the path that is meant, links followed, if it is below the folder."""
        outside = FieldError(name, "only files below the desk's folder can be opened. Choose one from the list.")
        if "\0" in text:
            raise outside
        try:
            found = (self.root / text).resolve()
            found.exists()  # or its name is none that a file can have
        except (OSError, RuntimeError):
            raise outside from None
        if not found.is_relative_to(self.root):
            raise outside
        return found
